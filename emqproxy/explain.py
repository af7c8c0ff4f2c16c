"""The command `emqproxy explain`: its options, its help, and where the job's lines come from.

The story is `explain_story`'s, how it is shown `explain_words`'s.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from emqproxy.command_errors import CommandError

if TYPE_CHECKING:
    import urllib.error
    import urllib.parse

    from emqproxy.journal_lines import JournalLine

LINES_MAX: Final = 50_000
"""Of one job; the first so many."""
INTERVAL_MS: Final = 30_000
"""From one sweep to the next, where a sweep does not say."""
ANSWER_S_MAX: Final = 10.0
_PAGE_BYTES_MAX: Final = 64 << 20
_OF_MANY: Final = (b'"op":"wipe"', b'"op":"sweep"', b'"op":"reap"', b'"op":"raw"', b'"effect":"met"')
"""What stands in lines that name no job, and bear on many."""

Job = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Its key, like emq:orders:42, and @DB if not 0.", show_default=False),
]
JournalOption = Annotated[
    str | None,
    typer.Option("--journal", metavar="FILE", help='A journal; "-" is stdin.  [default: observer.journal]'),
]
AdminOption = Annotated[
    str | None,
    typer.Option("--admin", metavar="URL", help="A running sidecar's, like http://127.0.0.1:9465, in its place."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as JSON; its shape is stable.")]


class LinesFound(NamedTuple):
    """A job's lines, and how many more there were."""

    lines: list[JournalLine]
    left_out: int
    sweeps: bool = False
    """A sweep for stalled jobs was seen on its queue meanwhile."""


def explain(job: Job, journal: JournalOption = None, admin: AdminOption = None, as_json: AsJson = False) -> int:
    """Tell one job's lock story: who held it, with which gaps, what was refused and why, and what to change.

    It is read from a journal, or asked of a running sidecar, which remembers the jobs that it heard of last. Without
    either option: from the journal of the configuration, or where none is written, from the admin listener.
    """
    from emqproxy.explain_names import Names
    from emqproxy.explain_story import tell
    from emqproxy.job_argument import read_job

    db, raw = read_job(job)
    key = raw.decode("utf-8", "backslashreplace")
    if journal is not None and admin is not None:
        raise CommandError("--admin: a journal is given already; write --journal or --admin, not both")
    if journal is None and admin is None:
        journal, admin = _configured()
    found = _of_journal(journal, key, db) if journal is not None else _of_admin(admin or "", key, db)
    names = Names()
    story = tell(key, db, found.lines, found.left_out, names, sweeps=found.sweeps)
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(story)).decode() + "\n")
    else:
        from rich.console import Console

        from emqproxy import explain_words

        explain_words.write(story, found.lines, names, Console(highlight=False))
    return 0


def _configured() -> tuple[str | None, str | None]:
    """The journal, or else the admin listener, of the configuration."""
    from emqproxy.config import load

    observer = load().observer
    if observer.journal not in ("", "-"):
        return observer.journal, None
    if observer.admin is None:
        raise CommandError(
            "--journal: neither a journal nor an admin listener is configured; write --journal FILE or --admin URL"
        )
    host = f"[{observer.admin.host}]" if ":" in observer.admin.host else observer.admin.host
    return None, f"http://{host}:{observer.admin.port}"


def _of_journal(file: str, key: str, db: int) -> LinesFound:
    from emqproxy.journal_lines import JournalLine, LineReader, raw_lines

    lines: list[JournalLine] = []
    reader, left_out = LineReader(JournalLine), 0
    needle, journal = _needle(key), False
    sweep: dict[str, JournalLine] = {}
    swept: dict[str, JournalLine] = {}
    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as opened:
            for raw in raw_lines(opened):
                may = needle in raw or any(mark in raw for mark in _OF_MANY)
                if journal and not may:
                    continue
                line = reader.read(raw)
                journal = journal or line is not None
                if line is not None and may and _sweeps(line, key, db):
                    sweep[line.run] = line
                if line is None or not may or not _concerns(line, key, db):
                    continue
                if line.run in sweep and line.job is not None:
                    swept[line.run] = sweep[line.run]
                if len(lines) < LINES_MAX:
                    lines.append(line)
                else:
                    left_out += 1
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise CommandError(f"--journal: {_printable(file)}: {reason}; write the path of a journal") from None
    if not any(line.key == key for line in lines):
        where = f"{_job(key, db)} is not in it; write another FILE, or the job's key as it is"
        if not journal:
            where = "no line of a journal in it; write another FILE"
            if reader.other_versions and not reader.unreadable:
                where = "a journal of another version; use the release that wrote it"
        raise CommandError(f"--journal: {_printable(file)}: {where}")
    lines.sort(key=lambda line: line.time)
    return _found(lines, list(swept.values()), left_out, key)


def _of_admin(url: str, key: str, db: int) -> LinesFound:
    import json
    import urllib.error
    import urllib.parse
    import urllib.request

    from emqproxy.journal_lines import JournalLine, LineReader

    what = urllib.parse.urlsplit(url)
    if what.scheme not in ("http", "https") or not what.netloc:
        raise CommandError(f"--admin: {_printable(url)}: no URL; write one like http://127.0.0.1:9465")
    asked = f"{url.rstrip('/')}/api/jobs?{urllib.parse.urlencode({'key': key, 'db': db})}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(asked, timeout=ANSWER_S_MAX) as answer:
            page = json.loads(answer.read(_PAGE_BYTES_MAX))
        reader = LineReader(JournalLine)
        read = [reader.read(json.dumps(line).encode()) for line in page["lines"]]
        left_out = int(page["left_out"])
    except urllib.error.HTTPError as error:
        raise CommandError(f"--admin: {_printable(url)}: {_why_not(error, what, _job(key, db))}") from None
    except (OSError, urllib.error.URLError) as error:
        why = getattr(error, "reason", error)
        reason = getattr(why, "strerror", None) or str(why)
        words = f"{reason}; write the URL of a sidecar's admin listener, or --journal FILE"
        raise CommandError(f"--admin: {_printable(url)}: {words}") from None
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"--admin: {_printable(url)}: no answer of emqproxy's; write its admin listener") from None
    lines = sorted((line for line in read if line is not None), key=lambda line: line.closed_ns)
    swept = [line for line in lines if _sweeps(line, key, db)]
    return _found([line for line in lines if _concerns(line, key, db)], swept, left_out, key)


def _why_not(error: urllib.error.HTTPError, url: urllib.parse.SplitResult, job: str) -> str:
    """What an answer says that is no job's. `error` of the admin listener itself is JSON."""
    import json

    if error.code != 404:
        return f"it answers {error.code}; is it emqproxy's?"
    try:
        told = "error" in json.loads(error.read(_PAGE_BYTES_MAX))
    except (OSError, ValueError, TypeError):
        told = False
    if told:
        return f"{job} is not among the jobs that it heard of last; write --journal FILE"
    if url.path.strip("/") or url.query or url.fragment:
        return f"no jobs are told there; write it without a path: {url.scheme}://{_printable(url.netloc)}"
    return "no jobs are told there; write the admin listener's URL (observer.admin), which is not the health listener's"


def _found(lines: list[JournalLine], swept: list[JournalLine], left_out: int, key: str) -> LinesFound:
    """The job's lines, and of what bears on many jobs what came between; and behind them as long as its lock may have
    lived that somebody holds by then."""
    from emqproxy.explain_holdings import Holdings

    first = next((at for at, line in enumerate(lines) if line.key == key), 0)
    last = max((at for at, line in enumerate(lines) if line.key == key), default=-1)
    account, until_ns, end = Holdings(), 0, last + 1
    for line in lines[first:end]:
        account.on(line, "")
        if line.effect in {"granted", "renewed"}:
            until_ns = line.closed_ns + (line.ttl_ms or 0) * 1_000_000
    while account.holder is not None and end < len(lines):
        line = lines[end]
        if line.run != lines[last].run or line.closed_ns > until_ns:
            break
        account.on(line, "")
        end += 1
    kept = lines[first:end]
    return LinesFound(kept, left_out, bool(kept) and _swept(kept, swept))


def _sweeps(line: JournalLine, key: str, db: int) -> bool:
    """A sweep on the job's queue, whomever it named."""
    return line.op in {"sweep", "reap"} and line.db == db and key.startswith(f"{line.prefix}:{line.queue}:")


def _swept(lines: list[JournalLine], sweeps: list[JournalLine]) -> bool:
    """Whether sweeps went on in the job's time; the last one before it counts as long as the second from it is due."""
    first, last = lines[0], lines[-1]
    return any(
        sweep.run == first.run
        and sweep.time <= last.time
        and first.opened_ns - sweep.closed_ns <= 2_000_000 * (sweep.replay.interval_ms or INTERVAL_MS)
        for sweep in sweeps
    )


def _needle(key: str) -> bytes:
    """What stands in every line of the job: of its id what comes behind the last colon, as JSON has it."""
    import msgspec

    return msgspec.json.encode(key.rpartition(":")[2])[1:]


def _concerns(line: JournalLine, key: str, db: int) -> bool:
    """A line of the job; or a wipe that reached it, a hand on a whole list of its queue, or the loss of Redis."""
    from emqproxy.journal_timeline import befalls

    if line.job is not None:
        return line.key == key and line.db == db
    if befalls(line.op, line.db, line.prefix, line.queue, key=key, key_db=db):
        return True
    return line.op == "conn" and line.conn is None


def _job(key: str, db: int) -> str:
    return _printable(f"{key}@{db}" if db else key)


def _printable(text: str) -> str:
    from emqproxy.config import printable

    return printable(text)
