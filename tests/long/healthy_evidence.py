"""What a healthy load's journal is held against: what workers say of themselves, and the sidecar of its own loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

from emqproxy.locks.verdicts import Finding
from tests.e2e.peers import Peer

LOCK_MS, RENEW_MS = 2000, 1000
TOLERANCE_MS = 60.0
"""Of a worker's report on itself: three turns of its loop lie in a renewal's age, each beat sees a stall to 20 ms."""
STALL_MS_MIN = 5.0
GRADES = frozenset({"late", "critical", "too_late"})
GRAVE = frozenset(finding.word for finding in Finding if finding < Finding.DOUBTFUL)
OWN = frozenset({None, "renewal_late", "expired_worker_silent", "expired_unswept"})
"""The causes that a worker's own log can bear out: it was late, or so late that the lock ran out."""

Line = dict[str, Any]
Span = tuple[float, float]
"""From and to, in milliseconds of the machine's monotonic clock."""


class Charge(NamedTuple):
    """A line that calls somebody late or worse, and what that worker says of the time."""

    line: Line
    worker: str
    stalled_ms: float
    """How long the worker's own loop stood still in the time that the line speaks of, by its own log."""
    awaited_ms: float
    """How long it waited for answers to renewals in that time; its next one goes out after them."""
    ours_ms: float
    """How long the sidecar stood still in that time: as much of the waiting as this is the sidecar's doing."""
    explained: bool

    def __str__(self) -> str:
        line = self.line
        words = ("seq", "time", "op", "outcome", "effect", "grade", "finding", "cause", "job")
        said = {name: line[name] for name in words}
        figures = {name: line[name] for name in ("age_ms", "remaining_ms", "took_us", "lag_us")}
        evidence = f"its loop stood still {self.stalled_ms:.0f} ms, it awaited answers {self.awaited_ms:.0f} ms"
        evidence += f" (the sidecar stood still {self.ours_ms:.0f} ms)"
        return f"{'explained' if self.explained else 'UNTRUE'}: {self.worker} {said} {figures}: {evidence}"


class Evidence:
    """When who stood still or waited, to be held against what the journal says of a worker."""

    def __init__(self, workers: dict[str, Peer]) -> None:
        self.asleep: dict[str, list[Span]] = {
            name: [((lag["at_us"] - lag["lag_us"]) / 1e3, lag["at_us"] / 1e3) for lag in peer.find(event="lag")]
            for name, peer in workers.items()
        }
        self.done = {(name, line["job"]) for name, peer in workers.items() for line in peer.find(event="completed")}
        self.awaited: defaultdict[str, set[Span]] = defaultdict(set)
        self.ours: set[Span] = set()

    def note(self, line: Line, worker: str) -> None:
        """What a line of the journal says of waiting: an answer to a renewal, and the sidecar's own lag."""
        opened, closed, lag = line["opened_ns"] / 1e6, line["closed_ns"] / 1e6, line["lag_us"] / 1e3
        if lag >= STALL_MS_MIN and line["op"] != "lapse":
            self.ours.add((closed - lag, closed))
        if line["op"] == "renew" and closed - opened + lag >= STALL_MS_MIN:
            self.awaited[worker].add((opened - lag, closed))  # it may have lain unread while the sidecar stood still

    def weigh(self, line: Line, worker: str) -> Charge:
        """A worker wakes every RENEW_MS / 2 and renews what is older: a punctual one lets it get RENEW_MS old.

        What the line has beyond that, the worker must have lost in its own loop or in waiting for an answer; what
        suspects another than the worker is untrue. One that renews a job it has just finished says itself that it did.
        """
        end, age = (line["closed_ns"] if line["op"] == "lapse" else line["opened_ns"]) / 1e6, line["age_ms"] or 0.0
        asleep, waiting = self.asleep.get(worker, []), self.awaited[worker]
        stalled_ms, awaited_ms, ours_ms, lost_ms = (
            _length(each, end - age, end) for each in (asleep, waiting, self.ours, [*asleep, *waiting])
        )
        own = line["finding"] not in GRAVE - {Finding.STRAGGLER.word} and line["cause"] in OWN
        explained = own and line["age_ms"] is not None and age - RENEW_MS <= lost_ms + TOLERANCE_MS
        if line["cause"] == "benign_renew_race":
            explained = line["finding"] not in GRAVE and (worker, line["job"]) in self.done
        return Charge(line, worker, stalled_ms, awaited_ms, ours_ms, explained)


def _length(spans: Collection[Span], begin: float, end: float) -> float:
    """How much of the time between two instants the spans cover; where they overlap it counts once."""
    covered, reached = 0.0, begin
    for span in sorted(spans):
        opened, closed = max(span[0], reached), min(span[1], end)
        if closed > opened:
            covered += closed - opened
            reached = closed
    return covered
