"""The way in: argv → exit code. `healthcheck` and `--version` answer before anything large is imported.

Exit codes: 0 good, 1 the check found something, 2 bad usage or configuration, 3 cannot start, 130 interrupted. Every
error is one line on standard error that names the option and says what to write instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from emqproxy import __version__

BAD_USAGE: Final = 2
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line. The console script and `python -m emqproxy` both come here."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv[:1] == ["--version"]:
        sys.stdout.write(f"emqproxy {__version__}\n")
        return 0
    if argv[:1] == ["healthcheck"]:
        from emqproxy import healthcheck

        return healthcheck.main(argv[1:])
    try:
        return _typed(argv)
    except KeyboardInterrupt:  # also while what a command needs is still being imported
        return INTERRUPTED


def _typed(argv: list[str]) -> int:
    import typer
    from typer.exceptions import TyperException

    from emqproxy.command_errors import CommandError
    from emqproxy.commands import app
    from emqproxy.config import ConfigError

    try:
        code = typer.main.get_command(app).main(args=argv, prog_name="emqproxy", standalone_mode=False)
    except TyperException as error:
        context = getattr(error, "ctx", None)
        named = context.command_path if context else _named(argv)
        return _refused(named, _usage_line(error, named))
    except (ConfigError, CommandError) as error:
        return _refused(_named(argv), str(error))
    except typer.Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _refused(named: str, line: str) -> int:
    from emqproxy.config import printable

    sys.stderr.write(printable(f"{named}: {' '.join(line.split())}") + "\n")
    return BAD_USAGE


def _named(argv: list[str]) -> str:
    """The command as it was called, for the head of an error's line: `emqproxy scripts list`."""
    words = []
    for word in argv:
        if not word.isalpha() and word not in ("check-config", "trace-id"):
            break
        words.append(word)
        if words != ["scripts"]:
            break
    return " ".join(["emqproxy", *words])


def _usage_line(error: Exception, named: str) -> str:
    """What typer found wrong, in our form. It tells kinds of errors by their attributes."""
    said = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    option = getattr(error, "option_name", None)
    if option is None:
        if near := re.fullmatch(r"(.*)\. Did you mean (.*)\?", said):
            return f"{near[1][:1].lower()}{near[1][1:]}; write {near[2]}"
        return f"{said[:1].lower()}{said[1:]}; write it as {named} --help shows"
    if "argument" in said:
        return f"{option}: its value is missing; write {option} and the value that {named} --help shows"
    if "value" in said:
        return f"{option}: takes no value; write {option} alone"
    possible = getattr(error, "possibilities", None)
    return f"{option}: no such option; write {' or '.join(possible) if possible else f'one that {named} --help shows'}"
