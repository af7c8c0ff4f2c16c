"""The command `emqproxy check`: its options, its help, and the journal's file.

What is counted is `shadow_report`'s, how it is shown `shadow_table`'s.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from emqproxy.command_errors import CommandError

if TYPE_CHECKING:
    from emqproxy.shadow_report import ShadowReport

_LINE_BYTES_MAX: Final = 1 << 20
"""A line of a journal has a few kilobytes at most."""
_WIDTH: Final = 160
"""Of a table that no terminal shows."""

File = Annotated[
    str, typer.Argument(metavar="FILE", help='A journal, taken with mode = "shadow"; "-" is stdin.', show_default=False)
]
ConfigFile = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="Whose [rules] are to be enforced.  [env var: EMQPROXY_CONFIG]"),
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as JSON; its shape is stable.")]


def check(file: File, config: ConfigFile = None, as_json: AsJson = False) -> int:
    """Tell what mode "enforce" would have refused, by rule, client and script, from a journal.

    Take the journal with mode "shadow", over a time in which all that happens has happened: deployments, retries,
    someone's tools. Each job that a refused call names counts once. "taken" is how many of them Redis took: the others
    it refused itself or never answered. A journal taken with mode "enforce" tells what was refused.

    Exit code 0: nothing would have been refused, 1: something would or was, 2: the file proves nothing.
    """
    from emqproxy.config import load
    from emqproxy.shadow_report import ShadowReader

    stances = {rule: str(stance) for rule, stance in load(config).rules}
    reader = ShadowReader()
    try:
        with _opened(file) as journal:
            for line in _lines(journal):
                reader.take(line)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise CommandError(f"FILE: {_printable(file)}: {reason}; write the path of a journal, or - for stdin") from None
    report = reader.report(stances)
    _must_prove(report, file)
    if as_json:
        import msgspec

        # Only ASCII: a terminal must not act upon what a client calls itself.
        sys.stdout.write(json.dumps({"file": file} | msgspec.to_builtins(report), indent=2) + "\n")
    else:
        from rich.console import Console

        from emqproxy import shadow_table

        width = None if sys.stdout.isatty() else _WIDTH
        shadow_table.write(report, Console(highlight=False, width=width))
    return 1 if report.rules else 0


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")


def _lines(journal: BinaryIO) -> Iterator[bytes]:
    """Line by line; of one that is longer than any of ours no more than its beginning."""
    while line := journal.readline(_LINE_BYTES_MAX):
        yield line
        while line and not line.endswith(b"\n"):
            line = journal.readline(_LINE_BYTES_MAX)


def _must_prove(report: ShadowReport, file: str) -> None:
    """A journal without a decision in it says nothing, least of all that nothing would be refused."""
    from emqproxy.locks.notes import counted

    if report.judged:
        return
    take = 'take one with mode = "shadow"'
    if report.unjudged:
        calls = counted(report.unjudged, "call was", "calls were")
        why = f"its {calls} taken in observe mode, where nothing is decided: it proves nothing; {take}"
    elif report.lines:
        why = f"no call of a worker stands in it: it proves nothing; {take} while there is work to do"
    elif report.other_versions:
        why = "a journal of another version; read it with the release that wrote it"
    else:
        why = f"no line of a journal stands in it; {take}, with --journal FILE"
    raise CommandError(f"FILE: {_printable(file)}: {why}")


def _printable(text: str) -> str:
    from emqproxy.config import printable

    return printable(text)
