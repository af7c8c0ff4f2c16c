"""The commands of `emqproxy`, as typer declares them. With `cli` the composition root: it may know every floor.

Each command imports what it runs only when it is called, so that `--help` and small commands are quick. It returns an
exit code, or raises `ConfigError` or `CommandError`, whose one line `cli` prints.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from emqproxy import __version__
from emqproxy.check import check
from emqproxy.command_errors import CommandError
from emqproxy.explain import explain
from emqproxy.replay import replay
from emqproxy.simulate import simulate

if TYPE_CHECKING:
    from emqproxy.scripts.catalogue import Catalogue
    from emqproxy.scripts.user_catalogue import UserScript

SHA: Final = re.compile(r"[0-9a-fA-F]{40}\Z")

app = typer.Typer(
    help="A Redis proxy that keeps an account of every job lock that passes through it: who held it, when it was lost.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
scripts = typer.Typer(
    help="What is recognised: the scripts of the lock protocol, by release, and those that you add.",
    rich_markup_mode=None,
)
app.add_typer(scripts, name="scripts")

OwnCatalogue = Annotated[
    str | None,
    typer.Option("--catalogue", metavar="FILE", help="Your own catalogue.  [default: scripts.catalogue]"),
]


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:  # elsewhere than in the first place, where `cli` answers it
        typer.echo(f"emqproxy {__version__}")
        raise typer.Exit


@app.command()
def run(
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="A TOML file.  [env var: EMQPROXY_CONFIG]")
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option("--listen", metavar="URL", help="tcp://HOST:PORT, tls:// or unix:///PATH; may be given often."),
    ] = None,
    upstream: Annotated[
        str | None, typer.Option("--upstream", metavar="URL", help="redis://, rediss:// or unix:// of the real Redis.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode", metavar="MODE", help="observe: watch; shadow: tell what would be refused; enforce: refuse."
        ),
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="FILE", help='Where to write what happened, as NDJSON; "-" is stdout.'),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option("--health", metavar="HOST:PORT", help='Where to answer /healthz and /readyz; "" is nowhere.'),
    ] = None,
    admin: Annotated[
        str | None,
        typer.Option("--admin", metavar="HOST:PORT", help='Where the observer answers /metrics; "" is nowhere.'),
    ] = None,
    require_upstream: Annotated[
        bool, typer.Option("--require-upstream", help="End with code 3 where the upstream does not answer at start.")
    ] = False,
    log_level: Annotated[
        str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
    ] = None,
) -> int:
    """Run the sidecar, in the foreground. Flags over EMQPROXY_* over the file over defaults."""
    from emqproxy import logs
    from emqproxy.config import load

    given = {
        "listen": listen or None,
        "upstream": upstream,
        "mode": mode,
        "observer.journal": journal,
        "health": health,
        "observer.admin": admin,
        "require_upstream": require_upstream or None,
        "log_level": log_level,
    }
    flags: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    effective = load(config, flags)
    added = _own_scripts(effective.scripts.catalogue)
    logs.configure(effective.log_level)
    from emqproxy.proxy import server

    return server.run(effective, added, lambda: load(config, flags))


@app.command("check-config")
def check_config(file: Annotated[str, typer.Argument(metavar="FILE", help="A TOML file.")]) -> int:
    """Check a configuration file, and show what would be in force with it, without secrets."""
    from emqproxy.config import load
    from emqproxy.proxy import tls

    config = load(file)
    _own_scripts(config.scripts.catalogue)
    tls.check(config)
    for line in config.lines():
        typer.echo(line)
    return 0


@scripts.command("list")
def list_scripts(catalogue: OwnCatalogue = None) -> int:
    """List every script of a published release, of emqproxy's lua/, then your own: name and arity, releases, sha1."""
    file = _catalogue_file(catalogue)
    known = _catalogue(file)
    published = known.published
    for script in known:
        own = "  lua/" if script.sha in known.ours else "" if script.sha in published else f"  {_printable(file)}"
        typer.echo(f"{script.label:<40} {script.releases or '-':<18} {script.sha}{own}")
    return 0


@scripts.command()
def identify(
    what: Annotated[str, typer.Argument(metavar="FILE|SHA", help="A script's text in a file, or its sha1.")],
    catalogue: OwnCatalogue = None,
) -> int:
    """Tell which script a text or a sha1 is. Exit code 1 where it is none of the protocol's."""
    found = _catalogue(_catalogue_file(catalogue)).identify(what if SHA.match(what) else _text(what))
    if found is None:
        from emqproxy.config import printable

        sys.stderr.write(
            f"emqproxy scripts identify: {printable(what)}: no script of the lock protocol is known by it\n"
        )
        return 1
    typer.echo(f"{found.label}  {found.releases or '-'}  {found.sha}  {found.match}")
    return 0


@scripts.command()
def add(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="An npm or Python package, its .tgz or .whl, a folder of .lua files, or one of them."
        ),
    ],
    catalogue: OwnCatalogue = None,
) -> int:
    """Learn the scripts of a package, so that `run` knows them by their sha1. Nothing of it is run.

    They are written to your own catalogue, beside what is in it. Exit code 1 where a script had to be left out.
    """
    from emqproxy import script_files
    from emqproxy.scripts.catalogue import Catalogue
    from emqproxy.scripts.user_catalogue import learn, merge

    file = _catalogue_file(catalogue)
    if not file:
        raise CommandError(
            "--catalogue: there is no file to write to; write --catalogue FILE, or set scripts.catalogue in the "
            "configuration, which run reads"
        )
    before = _own_scripts(file) if Path(file).exists() else []
    with _files_named():
        found = script_files.find(path)
        learnt = learn(found.texts, Catalogue().published)
        if learnt.added:
            script_files.save_catalogue(file, merge(before, learnt.added))
    known = {script.sha for script in before}
    for script in learnt.added:
        told = "known already" if script.sha in known else "added"
        typer.echo(f"{f'{script.script}-{script.keys}':<40} {script.layout or '-':<18} {script.sha}  {told}")
    left_out = [*found.unreadable, *learnt.left_out]
    for line in left_out:
        sys.stderr.write(f"emqproxy scripts add: {_printable(line)}\n")
    new = len({script.sha for script in learnt.added} - known)
    typer.echo(f"{new} added to {_printable(file)}; {learnt.published} of published releases; {len(left_out)} left out")
    return 1 if left_out else 0


@app.command("trace-id")
def trace_id(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its key, like emq:orders:42, and @DB if not 0.")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NS", help="[default: trace.namespace, else empty]")
    ] = None,
) -> int:
    """Compute the id of the trace that a job's spans go to."""
    from emqproxy.config import load
    from emqproxy.job_argument import read_job
    from emqproxy.observer import ids

    db, key = read_job(job)
    if namespace is None:
        namespace = load().trace.namespace
    typer.echo(f"{ids.trace_id(namespace, db, key):032x}")
    return 0


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True}, add_help_option=False)
def healthcheck(context: typer.Context) -> int:
    """Ask a running sidecar whether it is ready: exit code 0 if so, 1 if not."""
    from emqproxy import healthcheck as asking

    return asking.main(context.args)


app.command()(check)
app.command()(explain)
app.command()(replay)
app.command()(simulate)


@app.command()
def demo(
    otlp: Annotated[
        str | None, typer.Option("--otlp", metavar="URL", help="Send the spans there too, like http://127.0.0.1:4318.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave all of it running until Ctrl-C.")] = False,
) -> int:
    """Play the whole story on this machine: a Redis, workers, a lock that is lost, and what is told of it."""
    from emqproxy.demo import story

    return story.main(otlp=otlp, keep=keep)


def _catalogue_file(given: str | None) -> str:
    """The user's own catalogue: as it was given, or as it is configured; empty for none."""
    from emqproxy.config import load

    return load().scripts.catalogue if given is None else given


def _own_scripts(file: str) -> list[UserScript]:
    from emqproxy.script_files import load_catalogue

    with _files_named():
        return load_catalogue(file)


def _catalogue(file: str) -> Catalogue:
    from emqproxy.scripts.catalogue import Catalogue

    return Catalogue(added=_own_scripts(file))


@contextmanager
def _files_named() -> Iterator[None]:
    """What is wrong with a file is one line as any other mistake."""
    from emqproxy.script_files import FilesError

    try:
        yield
    except FilesError as error:
        raise CommandError(str(error)) from None


def _printable(text: str) -> str:
    from emqproxy.config import printable

    return printable(text)


def _text(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CommandError(
            f"FILE|SHA: {file}: {error.strerror}; write the path of a script's text, or its sha1 of 40 hex digits"
        ) from None
