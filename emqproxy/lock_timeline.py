"""One job's lock over time, as values: who held it, until when, and what happened to it. Nothing of it draws or judges.

`journal_timeline` makes them of a journal's lines, `simulation` of arithmetic; `timeline_drawing` draws them. Times are
milliseconds from a zero that all values of a timeline share.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Mark(enum.Enum):
    """What can stand at an instant, the gravest last: of two in one column that one stands."""

    SWEEP_MARKS = "sweep_marks"
    """A sweep found the job active, and marked it."""
    RENEWED = "renewed"
    TAKEN = "taken"
    TAKEN_OVER = "taken_over"
    DEADLINE = "deadline"
    """When a lock that was given back or taken away would have ended."""
    LATE = "late"
    CRITICAL = "critical"
    FINISHED = "finished"
    """A finish or another move that was accepted: the lock is given back."""
    REFUSED = "refused"
    """A renewal that was refused."""
    LOST = "lost"
    """The lock was taken away before its time: deleted, or granted to another."""
    FINISH_REFUSED = "finish_refused"
    LAPSED = "lapsed"
    SWEEP_RECOVERS = "sweep_recovers"
    OVER_LIMIT = "over_limit"
    """A sweep found that it had stalled too often: whoever takes it next fails it."""
    HAND_TAKES = "hand_takes"
    """A command outside the scripts took its id out of a list, or all ids."""
    HAND_PUTS = "hand_puts"
    """Such a command put its id into a list."""
    HAND_DELETES = "hand_deletes"
    """Such a command deleted its hash."""
    WIPED = "wiped"
    """Its queue, or its database, was emptied."""


class Proof(NamedTuple):
    """A pickup or an accepted renewal: the lock is held from here on, and ends at its deadline unless renewed."""

    at_ms: float
    deadline_ms: float
    mark: Mark = Mark.RENEWED
    """RENEWED, LATE or CRITICAL; of the first one nothing is read where the pickup was seen."""


class Marked(NamedTuple):
    """A mark and its instant."""

    at_ms: float
    mark: Mark


class Stretch(NamedTuple):
    """From an instant to another."""

    from_ms: float
    to_ms: float


class Holding(NamedTuple):
    """One holder's row: an attempt."""

    name: str
    """A worker's name, or what is told of its token."""
    proofs: tuple[Proof, ...]
    """In order; the first is the pickup unless `partial`. Empty for a speaker that never held the lock."""
    marks: tuple[Marked, ...] = ()
    """REFUSED, LAPSED, FINISHED, FINISH_REFUSED, LOST."""
    pauses: tuple[Stretch, ...] = ()
    """When its worker stood still."""
    partial: bool = False
    """The pickup was not seen: the first proof is a renewal."""
    doubts: tuple[Stretch, ...] = ()
    """From when it is not known whether it still held the lock, to the answer that it does not, or does."""


class LockTimeline(NamedTuple):
    """All that is told of one job."""

    holdings: tuple[Holding, ...]
    queue: tuple[Marked, ...]
    """SWEEP_MARKS, SWEEP_RECOVERS, OVER_LIMIT; HAND_PUTS, HAND_TAKES, HAND_DELETES, WIPED."""
    start_ms: float
    end_ms: float
    before: str = ""
    """What came before the start and is not drawn: `added 5.0 s before`."""
