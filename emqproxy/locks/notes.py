"""What a diagnosis is made of: notes, one a journal line, and what is kept of them for each job and each worker.

A note holds only what a journal line holds, so that a journal, read again, gives the same diagnoses. Tokens and workers
are compared and never shown: bytes of the wire, or the fingerprints of a journal. Instants are monotonic nanoseconds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final, NamedTuple

import msgspec

from emqproxy.locks.events import Instant

MS: Final = 1_000_000
NOTES_MAX: Final = 48
"""Of one job: a long one is renewed many times, so of healthy renewals only the last is kept."""
CONNS_MAX: Final = 64
HELD_MAX: Final = 256
SILENT_MS_MIN: Final = 1000.0
"""A shorter silence is no sign of a blocked worker."""
HUSH_MS_MIN: Final = 20.0
"""A shorter one is a pause between two calls."""
_HUSH_NS: Final = int(HUSH_MS_MIN * MS)
GAPS_MAX: Final = 8
BURST_MS: Final = 5.0
"""What a worker says within it, it says at once."""
LOST_MAX: Final = 16
HEALTHY: Final = frozenset({"on_time", "unknown"})
"""Grades of a renewal that needs no cause."""
_PROOFS: Final = frozenset({"granted", "renewed"})


class Note(msgspec.Struct, frozen=True, gc=False):
    """One journal line, in CONTRACT's words."""

    seq: int
    op: str
    outcome: str
    effect: str
    opened: Instant
    closed: Instant
    queue: Hashable = None
    job: str | None = None
    target: str | None = None
    code: int | None = None
    code_name: str | None = None
    token: Hashable = None
    worker: Hashable = None
    """The token's worker; the token itself where it names none."""
    conn: int | None = None
    who: str = ""
    """The client's name, or its address: for sentences."""
    script: str = ""
    ttl_ms: int | None = None
    age_ms: float | None = None
    remaining_ms: float | None = None
    grade: str | None = None
    finding: str | None = None
    idle_ms: float | None = None
    burst: int = 0
    """So many calls of its worker arrived within 5 ms of it, itself among them."""
    lag_ms: float = 0.0
    starts: int | None = None
    """An acquire: the job's own count of its pickups, this one among them."""
    stalls: int | None = None
    payload: bool = True
    """An acquire: the job's hash has a name, data or options."""
    doomed: bool = False
    """An acquire: the job was stalled too often, and is to be failed."""
    interval_ms: int | None = None
    """A sweep: how often its caller sweeps, as the call says."""


class JobNotes(msgspec.Struct, eq=False, gc=False):
    """The notes of one job, the oldest first."""

    notes: list[Note] = msgspec.field(default_factory=list)
    lost: dict[Hashable, tuple[str, str, tuple[int, ...]]] = msgspec.field(default_factory=dict)
    """By token: why it lost the job, as it was said last; until it is proved to hold it again."""
    renewals: dict[Hashable, int] = msgspec.field(default_factory=dict)
    """By token: how many succeeded since it was given the job; not all are among the notes."""
    whole: bool = True
    """Nothing was forgotten or dropped since the first of them."""

    def add(self, note: Note) -> None:
        """The last but one of a row of healthy renewals, or of refused ones, says nothing that the last does not."""
        notes = self.notes
        if note.effect in _PROOFS:
            renewals = self.renewals
            count = renewals.pop(note.token, 0)
            renewals[note.token] = 0 if note.effect == "granted" else count + 1
            if len(renewals) > LOST_MAX:
                del renewals[next(iter(renewals))]
        if note.op == "write" and note.outcome == "ok":
            return  # it asks for no lock, and proves nothing
        if note.op == "renew" and len(notes) >= 2 and _row(notes[-2], notes[-1], note):
            notes[-1] = note
            return
        notes.append(note)
        if len(notes) > NOTES_MAX:
            # Who was given the job, and when, is what all the rest is measured by.
            least = next((i for i, n in enumerate(notes) if n.effect != "granted"), 0)
            del notes[least]
            self.whole = False

    def lose(self, token: Hashable, why: tuple[str, str, tuple[int, ...]]) -> None:
        """What was said of a loss."""
        self.lost[token] = why
        if len(self.lost) > LOST_MAX:
            del self.lost[next(iter(self.lost))]


class CallSpoken(msgspec.Struct, eq=False, gc=False):
    """A connection that a worker's tokens were spoken on: from when on, and when it closed."""

    first: Instant
    closed: Instant | None = None


class Silence(msgspec.Struct, eq=False):
    """When all of a worker's connections said nothing for long."""

    begin: Instant
    end: Instant
    renewed: bool = False
    """It asked for a renewal when, or after, it spoke again: its timer runs."""

    @property
    def ms(self) -> float:
        """How long."""
        return between_ms(self.begin, self.end)


class Gap(NamedTuple):
    """A time in which no word of a worker's is known."""

    begin: Instant
    end: Instant
    silent: bool
    """It said nothing at all; else something that has no line may have been said."""


class WorkerNotes(msgspec.Struct, eq=False):
    """What is known of one worker: its connections, and the jobs that it holds."""

    conns: OrderedDict[int, CallSpoken] = msgspec.field(default_factory=OrderedDict)
    rhythm_ms: float | None = None
    """The shortest time between two renewals in a row of one job that both succeeded: no longer is its interval."""
    silence: Silence | None = None
    """The last one of SILENT_MS_MIN or more."""
    spoke_at: Instant = 0
    """When it is known to have said anything, last."""
    gaps: deque[Gap] = msgspec.field(default_factory=lambda: deque(maxlen=GAPS_MAX))
    """Between two times that it is known to have said something: those of HUSH_MS_MIN or more, the last ones."""
    held: OrderedDict[tuple[Hashable, str], Instant] = msgspec.field(default_factory=OrderedDict)
    """Since when it holds which jobs; the last started last."""
    ended: deque[tuple[str, Instant, Instant]] = msgspec.field(default_factory=lambda: deque(maxlen=HELD_MAX))
    """Jobs that it holds no more: since when it did, and when that was known to be over."""

    def spoke_on(self, conn: int, at: Instant) -> None:
        """A token of its was spoken on a connection."""
        self.conns[conn] = CallSpoken(at)
        if len(self.conns) > CONNS_MAX:
            self.conns.popitem(last=False)

    def hang_up(self, conn: int, at: Instant) -> None:
        """A connection closed. Who comes back when all have may be started anew, and otherwise than before."""
        self.conns[conn].closed = at
        if all(spoken.closed is not None for spoken in self.conns.values()):
            self.rhythm_ms = None

    def spoke(self, at: Instant, idle_ms: float = 0.0) -> None:
        """It is heard of; and it had been silent for so long."""
        since, last = at - int(idle_ms * MS), self.spoke_at
        if last and since - last >= _HUSH_NS:
            self.gaps.append(Gap(last, since, False))
        if idle_ms >= HUSH_MS_MIN:
            self.gaps.append(Gap(since, at, True))
        self.spoke_at = at

    def heard(self, note: Note) -> None:
        """It says something."""
        idle_ms, last = note.idle_ms or 0.0, self.silence
        self.spoke(note.opened, idle_ms)
        if idle_ms >= SILENT_MS_MIN and (last is None or between_ms(last.end, note.opened) > BURST_MS):
            last = self.silence = Silence(note.opened - int(idle_ms * MS), note.opened)
        if last is not None and note.op == "renew":
            last.renewed = True

    def renewed(self, note: Note, job: JobNotes) -> None:
        """A renewal succeeded; `job` does not have it yet."""
        last, rhythm_ms = job.notes[-1] if job.notes else None, self.rhythm_ms
        if last is not None and last.op == "renew" and last.outcome == "ok" and last.token == note.token:
            gap_ms = (note.opened - last.opened) / MS
            if rhythm_ms is None or gap_ms < rhythm_ms:
                self.rhythm_ms = gap_ms

    def took(self, note: Note) -> None:
        """A job was given to it."""
        if note.job is not None:
            held, key = self.held, (note.queue, note.job)
            held.pop(key, None)
            held[key] = note.opened
            if len(held) > HELD_MAX:
                held.popitem(last=False)

    def left(self, queue: Hashable, job: str, at: Instant) -> None:
        """It holds a job no more, as was known then."""
        since = self.held.pop((queue, job), None)
        if since is not None:
            self.ended.append((job, since, at))

    def suspects(self, at: Instant) -> list[str]:
        """The jobs it held then, last started first."""
        at += MS  # a silence is told in milliseconds
        held = [(since, job) for (_, job), since in self.held.items() if since <= at]
        held += [(since, job) for job, since, until in self.ended if since <= at < until]
        return [job for _, job in sorted(held, key=lambda each: -each[0])]


def _row(before: Note, last: Note, note: Note) -> bool:
    """Renewals of one token, all healthy or all refused."""
    if not (before.op == last.op == note.op == "renew" and before.token == last.token == note.token):
        return False
    if not before.outcome == last.outcome == note.outcome:
        return False
    if note.outcome == "refused":
        return True
    return note.outcome == "ok" and before.grade in HEALTHY and last.grade in HEALTHY and note.grade in HEALTHY


def seconds(ms: float) -> str:
    """A time as it is read: `480 ms`, `4.5 s`."""
    return f"{ms:.0f} ms" if abs(ms) < 999.5 else f"{ms / 1000:.1f} s"


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: `1 line`, `2 lines`; `many` where that is not `one` and an s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def between_ms(begin: Instant, end: Instant) -> float:
    """From one instant to another."""
    return (end - begin) / MS
