"""The command `emqproxy replay`: its options, its help, the files. What is judged is `replay_report`'s.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from emqproxy.command_errors import CommandError

if TYPE_CHECKING:
    from emqproxy.redaction import Redactor
    from emqproxy.replay_report import Difference, Rejudging

SHOWN_MAX: Final = 200
"""Lines with differences that are printed; all are counted."""

File = Annotated[str, typer.Argument(metavar="FILE", help='A journal; "-" is stdin.', show_default=False)]
RedactTo = Annotated[
    str | None,
    typer.Option("--redact", metavar="OUT", help="Write the journal there, too, with every name in it replaced."),
]


def replay(file: File, redact: RedactTo = None) -> int:
    """Judge a journal again with today's rules, from its own fields, and tell what would be said otherwise.

    The ledger hears the same facts in the same order as it did, with the same thresholds, and the causes are found
    anew. Of a journal that was rotated: cat FILE.1 FILE | emqproxy replay -. After lines that are missing every lease
    is unseen, and lines that rest on what is missing are not compared.

    --redact writes a journal that is safe to send with a bug report: queues, jobs, tokens, workers and clients are
    pseudonyms, the same for the same, under a random key; sentences are left out.

    Exit code 0: nothing differs, 1: some finding, grade, scope or cause does, 2: the file proves nothing.
    """
    from emqproxy.locks.notes import counted
    from emqproxy.replay_report import Rejudging

    told = Rejudging()
    with ExitStack() as stack:
        journal, out = _opened(file, redact, stack)
        redactor = _redactor() if out is not None else None
        shown = _Shown()
        try:
            for difference in _differences(told, journal, out, redactor):
                shown.tell(difference)
        except OSError as error:
            raise CommandError(f"FILE: {_printable(file)}: {error.strerror or 'cannot be read'}") from None
    counts = told.counts
    if not counts.lines:
        other = told.reader.other_versions
        why = "a journal of another version; use the release that wrote it" if other else "no line of a journal in it"
        raise CommandError(f"FILE: {_printable(file)}: {why}")
    if counts.tokenless and counts.tokenless == counts.proofs:
        words = 'it was taken with trace.token = "off": holders cannot be told apart; take one with "fingerprint"'
        raise CommandError(f"FILE: {_printable(file)}: {words}")
    shown.end(told)
    if redactor is not None and redact is not None:
        left_out = redactor.dropped + told.reader.unreadable + told.reader.other_versions
        sys.stdout.write(f"Redacted: {_printable(redact)}, {counted(counts.lines - redactor.dropped, 'line')}")
        sys.stdout.write(f"; {counted(left_out, 'was', 'were')} left out.\n" if left_out else ".\n")
    return 1 if counts.differing else 0


def _opened(file: str, redact: str | None, stack: ExitStack) -> tuple[BinaryIO, BinaryIO | None]:
    try:
        journal = stack.enter_context(_reading(file))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise CommandError(f"FILE: {_printable(file)}: {reason}; write the path of a journal, or - for stdin") from None
    if redact is None:
        return journal, None
    try:
        return journal, stack.enter_context(Path(redact).open("xb"))
    except FileExistsError:
        raise CommandError(f"--redact: {_printable(redact)}: exists already; write a path where nothing is") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise CommandError(f"--redact: {_printable(redact)}: {reason}; write the path of a new file") from None


def _reading(file: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")


def _differences(
    told: Rejudging, journal: BinaryIO, out: BinaryIO | None, redactor: Redactor | None
) -> Iterator[Difference]:
    from emqproxy.journal_lines import raw_lines

    for raw in raw_lines(journal):
        line = told.reader.read(raw)
        if line is None:
            continue
        if out is not None and redactor is not None and (redacted := redactor.line(line)) is not None:
            out.write(redacted)
        yield from told.on(line)
    yield from told.end()


def _redactor() -> Redactor:
    from emqproxy.redaction import Redactor
    from emqproxy.scripts.catalogue import Catalogue

    return Redactor(os.urandom(32), frozenset(script.label for script in Catalogue()))


class _Shown:
    """Differences as they are printed, the first so many; then the sum."""

    def __init__(self) -> None:
        self._lines = 0
        self._last: tuple[str, int] | None = None

    def tell(self, difference: Difference) -> None:
        """One."""
        line = difference.line
        if self._last != (line.run, line.seq):
            self._last = (line.run, line.seq)
            self._lines += 1
            if self._lines <= SHOWN_MAX:
                about = line.key or line.queue or ""
                at = f"@{line.db}" if line.db else ""
                words = f"line {line.seq}  {line.time[11:23]}  {line.op} {about}{at}  {line.outcome}"
                sys.stdout.write(_printable(words) + "\n")
        if self._lines <= SHOWN_MAX:
            words = f"    {difference.what:<8} {difference.then} -> {difference.now}"
            sys.stdout.write(_printable(words) + "\n")

    def end(self, told: Rejudging) -> None:
        """What is to be said of all."""
        from emqproxy.locks.notes import counted

        counts, reader = told.counts, told.reader
        if self._lines > SHOWN_MAX:
            sys.stdout.write(f"(and {counted(self._lines - SHOWN_MAX, 'line')} more)\n")
        notes = told.notes[:SHOWN_MAX]
        if reader.unreadable:
            lines = counted(reader.unreadable, "line is", "lines are")
            notes.append(f"{lines} no journal's (torn, or of another program): passed over")
        if reader.other_versions:
            lines = counted(reader.other_versions, "line is", "lines are")
            notes.append(f"{lines} of another version of the journal: passed over")
        if counts.unseen:
            one, many = "line rests on what is missing, and was", "lines rest on what is missing, and were"
            notes.append(f"{counted(counts.unseen, one, many)} not compared")
        if counts.figures:
            lines = counted(counts.figures, "line has", "lines have")
            notes.append(f"{lines} the same verdict, and another age or time to live")
        for note in notes:
            sys.stdout.write(_printable(note[:1].upper() + note[1:]) + ".\n")
        lines = f"{counted(counts.lines, 'line')} of {counted(counts.runs, 'run')}"
        verdict = {0: "none differs", 1: "1 differs"}.get(counts.differing, f"{counts.differing} differ")
        sys.stdout.write(f"{lines}, {counted(counts.judged, 'verdict')} judged again: {verdict}.\n")


def _printable(text: str) -> str:
    from emqproxy.config import printable

    return printable(text)
