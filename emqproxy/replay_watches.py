"""What only time tells (`locks.watches`), judged again on a journal's own time: at each `watch` line's instant.

A sidecar asks each second, and the journal does not say when. So the lines that it told are judged at their instants;
what would have been due for long, and was not told, is counted.
"""

from __future__ import annotations

from typing import Final

from emqproxy.journal_lines import JournalLine
from emqproxy.locks.causes import Diagnosis
from emqproxy.locks.events import Instant, Lock
from emqproxy.locks.notes import Note
from emqproxy.locks.watches import Watches
from emqproxy.replay_facts import fact_of

OVERDUE_NS: Final = 30_000_000_000
"""A sidecar that stands still asks later."""
ASKED_NS: Final = 1_000_000_000


class WatchesAgain:
    """Of one stretch. Each line goes in, in the order in which it was told."""

    def __init__(self) -> None:
        self._watches = Watches()
        self._due: dict[Lock, Diagnosis] = {}
        """What is due and no line has told yet."""
        self._asked: Instant = 0

    @property
    def untold(self) -> list[Diagnosis]:
        """What was due, and is told by no line so far."""
        return list(self._due.values())

    def line(self, line: JournalLine, note: Note) -> Diagnosis | None:
        """Of a `watch` line: what is due of its job by then. None of any other, which is heard."""
        fact = fact_of(line)
        if line.op == "watch":
            self._ask(line.closed_ns)
            lock = getattr(fact, "lock", None)
            return None if lock is None else self._due.pop(lock, None)
        if line.closed_ns - OVERDUE_NS > self._asked + ASKED_NS:
            self._ask(line.closed_ns - OVERDUE_NS)
        if fact is not None:
            self._watches.observe(fact, note)
        return None

    def _ask(self, now: Instant) -> None:
        self._asked = max(self._asked, now)
        for watch in self._watches.due(now):
            self._due[watch.lock] = watch.found
