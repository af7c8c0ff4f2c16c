"""A whole journal, judged again: its runs and gaps, and where what is said today differs from what it says.

Lines go in as they stand in the journal, differences come out. Several runs may stand in one journal, one behind the
other or mixed; each is judged by itself. Knows no file and no terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from emqproxy.journal_lines import JournalLine, LineReader
from emqproxy.locks.notes import counted
from emqproxy.replay_run import Again, RunPart

RUNS_MAX: Final = 8
"""Runs whose lines are looked for at a time: the one that was heard of least lately is at its end."""
TOLERANCE_MS: Final = 0.002
"""A journal tells to the microsecond."""


class Difference(msgspec.Struct, frozen=True):
    """One word of a line that is another today."""

    line: JournalLine
    what: str
    """`finding`, `grade`, `scope`, `cause`; `age_ms`, `ttl_ms`: a figure, which is no verdict."""
    then: str
    now: str

    @property
    def is_verdict(self) -> bool:
        """Not only a figure."""
        return self.what not in {"age_ms", "ttl_ms"}


class Counts(msgspec.Struct):
    """What was read."""

    lines: int = 0
    judged: int = 0
    """Of those, lines with a verdict or a cause, then or now."""
    unseen: int = 0
    """Lines that rest on what came before a gap, and were not compared."""
    differing: int = 0
    """Lines whose finding, grade, scope or cause is another."""
    figures: int = 0
    """Lines of which only a figure is another."""
    proofs: int = 0
    """Lines of calls that proved by a token that they hold a lock."""
    tokenless: int = 0
    """Of those, lines that tell no token: it was empty, or, where all of them are such, `trace.token` is off."""
    runs: int = 0
    first: str = ""
    last: str = ""


class _Run:
    """Where a run stands."""

    def __init__(self, stretch: RunPart, seq: int) -> None:
        self.stretch, self.seq = stretch, seq


class Rejudging:
    """`take` each line, then `end`; both give differences. What is to be said of the journal itself is in `notes`."""

    def __init__(self) -> None:
        self.reader = LineReader(JournalLine)
        self.counts = Counts()
        self.notes: list[str] = []
        self._runs: dict[str, _Run] = {}
        self._seen: set[str] = set()

    def take(self, raw: bytes) -> Iterator[Difference]:
        """One line as it stands in the file."""
        line = self.reader.read(raw)
        if line is not None:
            yield from self.on(line)

    def on(self, line: JournalLine) -> Iterator[Difference]:
        """One line."""
        counts = self.counts
        counts.lines += 1
        counts.first, counts.last = counts.first or line.time, line.time
        if line.effect in {"granted", "renewed"}:
            counts.proofs += 1
            counts.tokenless += line.token is None
        run = self._runs.pop(line.run, None)
        if run is None:
            yield from self._make_room()
            run = self._begin(line)
        elif line.seq != run.seq + 1:
            yield from self._over(run)
            run = self._gap(line, run)
        self._runs[line.run] = run
        run.seq = line.seq
        for again in run.stretch.take(line):
            yield from self._compare(again)

    def end(self) -> Iterator[Difference]:
        """No more lines."""
        for run in self._runs.values():
            yield from self._over(run)
        self._runs.clear()

    # ---------------------------------------------------------------- runs

    def _begin(self, line: JournalLine) -> _Run:
        self.counts.runs += line.run not in self._seen
        if line.run in self._seen:
            self.notes.append(f"run {line.run[:8]} goes on at line {line.seq}: no lease is known there")
        elif line.seq != 1:
            self.notes.append(f"run {line.run[:8]} is here from its line {line.seq} on: no lease is known there")
        self._seen.add(line.run)
        return _Run(RunPart(line.replay.judged, whole=line.seq == 1), line.seq - 1)

    def _gap(self, line: JournalLine, run: _Run) -> _Run:
        missing = line.seq - run.seq - 1
        what = f"{counted(missing, 'line is', 'lines are')} missing" if missing > 0 else f"line {line.seq} comes"
        self.notes.append(f"run {line.run[:8]}: {what} after line {run.seq}: no lease is known there")
        return _Run(RunPart(run.stretch.judged, whole=line.seq == 1), line.seq - 1)

    def _make_room(self) -> Iterator[Difference]:
        while len(self._runs) >= RUNS_MAX:
            yield from self._over(self._runs.pop(next(iter(self._runs))))

    def _over(self, run: _Run) -> Iterator[Difference]:
        stretch = run.stretch
        for again in stretch.end():
            yield from self._compare(again)
        if stretch.disordered:
            self.notes.append(f"{stretch.disordered} events came too late to be put in order: verdicts may differ")
        if stretch.whole and stretch.lapses_untold:
            lapses = f"{len(stretch.lapses_untold)} lapses would be told today that the journal does not tell"
            self.notes.append(f"{lapses}: a call without a line may have been out")
        if stretch.whole and (untold := stretch.watches.untold):
            causes = ", ".join(sorted({found.cause for found in untold}))
            self.notes.append(f"{len(untold)} things would be told today that the journal does not tell ({causes})")

    # ---------------------------------------------------------------- lines

    def _compare(self, again: Again) -> Iterator[Difference]:
        line, verdict, counts = again.line, again.verdict, self.counts
        finding = verdict.finding.word if verdict is not None and verdict.finding is not None else None
        grade = verdict.grade.value if verdict is not None and verdict.grade is not None else None
        cause = again.found.cause if again.found is not None else None
        if not any((finding, grade, cause, line.finding, line.grade, line.cause)):
            return
        if not again.comparable:
            counts.unseen += 1
            return
        counts.judged += 1
        pairs = [("finding", line.finding, finding), ("grade", line.grade, grade), ("cause", line.cause, cause)]
        if finding == line.finding:
            pairs.append(("scope", line.scope, verdict.scope if verdict is not None else None))
        found = [Difference(line, what, _word(then), _word(now)) for what, then, now in pairs if then != now]
        counts.differing += bool(found)
        if not found and verdict is not None:
            if not _alike(line.age_ms, verdict.age_ms):
                found.append(Difference(line, "age_ms", _figure(line.age_ms), _figure(verdict.age_ms)))
            if line.ttl_ms != verdict.ttl_ms:
                found.append(Difference(line, "ttl_ms", _figure(line.ttl_ms), _figure(verdict.ttl_ms)))
            counts.figures += bool(found)
        yield from found


def _alike(then: float | None, now: float | None) -> bool:
    return then == now if then is None or now is None else abs(then - now) <= TOLERANCE_MS


def _word(word: str | None) -> str:
    return word or "none"


def _figure(figure: float | None) -> str:
    return "unknown" if figure is None else f"{figure:g}" if isinstance(figure, int) else f"{figure:.3f}"
