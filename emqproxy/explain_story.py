"""One job's lock story: its lines (CONTRACT, "Journal") in, values out; what `explain` draws and what `--json` gives.

What a line says stands in `explain_lines`, who held the lock in `explain_holdings`. Healthy renewals in a row are one
event. Nothing is judged anew: causes are those that the lines tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from emqproxy.explain_advice import advice
from emqproxy.explain_figures import figures_of
from emqproxy.explain_holdings import Holdings, Tenure
from emqproxy.explain_lines import words
from emqproxy.explain_names import Names
from emqproxy.journal_lines import JournalLine


class Event(msgspec.Struct):
    """What happened, in words."""

    time: str
    """RFC 3339; of renewals in a row that of the first."""
    op: str
    words: str
    seq: int
    outcome: str = "ok"
    who: str | None = None
    cause: str | None = None
    because: str | None = None
    evidence: tuple[int, ...] = ()


class Advice(msgspec.Struct):
    """What to change."""

    cause: str
    words: str


class JobStory(msgspec.Struct):
    """All of it; the fields of `--json`."""

    v: int
    job: str
    db: int
    first: str
    last: str
    lines: int
    left_out: int
    """Lines that were not kept."""
    holdings: list[Tenure]
    events: list[Event]
    advice: list[Advice]


def tell(
    job: str,
    db: int,
    lines: Sequence[JournalLine],
    left_out: int = 0,
    names: Names | None = None,
    *,
    sweeps: bool = False,
) -> JobStory:
    """The story. `lines`: the job's own, and those of its queue or of Redis that bear on it, in their order. `sweeps`:
    a sweep for stalled jobs was seen on its queue meanwhile."""
    teller = _Teller(names or Names())
    ends = {line.run: at for at, line in enumerate(lines)}
    for at, line in enumerate(lines):
        teller.on(line, began=all(ends[run] < at for run in teller.runs))
    causes = figures_of(lines, teller.holdings.gaps, sweeps=sweeps)
    given = [
        Advice(cause, teller.names.shortened_in(said))
        for cause, figures in causes.items()
        if (said := advice(cause, figures)) is not None
    ]
    sweepers = {line.script for line in lines if line.op == "reap" and line.script}
    if len(sweepers) > 1:
        both = " and ".join(sorted(sweepers))
        said = f"Two releases sweep this queue ({both}): bring all its workers to one release."
        given.append(Advice("script_mismatch", said))
    first, last = (lines[0].time, lines[-1].time) if lines else ("", "")
    return JobStory(1, job, db, first, last, len(lines), left_out, teller.holdings.all, teller.events, given)


class _Teller:
    """The lines so far."""

    def __init__(self, names: Names) -> None:
        self.events: list[Event] = []
        self.holdings = Holdings()
        self.names = names
        self.runs: set[str] = set()
        self._row: tuple[Event, int] | None = None
        """Renewals in a row, and how many."""

    def on(self, line: JournalLine, *, began: bool) -> None:
        """The next line. `began`: of the runs so far nothing more is told; two sidecars may write one journal."""
        if self.runs and began and line.run not in self.runs:
            self.events.append(Event(line.time, "start", "emqproxy was started again", line.seq))
            self._row = None
        self.runs.add(line.run)
        who = self.names.of(line) if line.token or line.client else "Redis"
        self.names.told[line.run, line.seq] = who
        because = self.names.shortened_in(line.because)
        event = Event(line.time, line.op, "", line.seq, line.outcome, who, line.cause, because)
        event.evidence = line.evidence or ()
        before = self.holdings.holder
        self.holdings.on(line, who)
        if line.effect == "renewed" and line.cause is None and line.outcome == "ok":
            self._renewal(line, event, who)
            return
        told = words(line, who, before.who if before else None)
        if told is not None:
            self._row = None
            event.words = told
            self.events.append(event)

    def _renewal(self, line: JournalLine, event: Event, who: str) -> None:
        if self._row is not None and self._row[0].who == who:
            row, count = self._row
            self._row = row, count + 1
            row.words = f"{who} renews, {count + 1} times in a row, up to {line.time[11:23]}"
            return
        event.words = f"{who} renews"
        self.events.append(event)
        self._row = event, 1
