"""What a diagnosis is made of: notes, one a journal line, and what is kept of them for each job and each worker.

A note holds only what a journal line holds, so that a journal, read again, gives the same diagnoses. Tokens and workers
are compared and never shown: bytes of the wire, or the fingerprints of a journal. Instants are monotonic nanoseconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

import msgspec

from emqproxy.locks.events import Instant

MS: Final = 1_000_000
NOTES_MAX: Final = 48
"""Of one job: a long one is renewed many times, so of healthy renewals only the last is kept."""
CONNS_MAX: Final = 64
HELD_MAX: Final = 256


class Note(NamedTuple):
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


class JobNotes(msgspec.Struct, eq=False):
    """The notes of one job, the oldest first."""

    notes: list[Note] = msgspec.field(default_factory=list)
    whole: bool = True
    """Nothing was forgotten or dropped since the first of them."""

    def add(self, note: Note) -> None:
        """The last but one healthy renewal of a row says nothing that the last does not."""
        notes = self.notes
        if len(notes) >= 2 and _plain_renewal(note):
            before, last = notes[-2], notes[-1]
            if _plain_renewal(before) and _plain_renewal(last) and before.token == last.token == note.token:
                notes[-1] = note
                return
        notes.append(note)
        if len(notes) > NOTES_MAX:
            del notes[0]
            self.whole = False


class WorkerNotes(msgspec.Struct, eq=False):
    """What is known of one worker: its connections, and the jobs that it holds."""

    conns: OrderedDict[int, Instant | None] = msgspec.field(default_factory=OrderedDict)
    """Those its tokens were spoken on: when each closed, None while it is open."""
    held: OrderedDict[tuple[Hashable, str], Instant] = msgspec.field(default_factory=OrderedDict)
    """Since when it holds which jobs; the last started last."""

    def spoke_on(self, conn: int) -> None:
        """A token of its was spoken on a connection."""
        self.conns[conn] = None
        if len(self.conns) > CONNS_MAX:
            self.conns.popitem(last=False)

    def took(self, note: Note) -> None:
        """A job was given to it."""
        if note.job is not None:
            self.held.pop((note.queue, note.job), None)
            self.held[note.queue, note.job] = note.closed
            if len(self.held) > HELD_MAX:
                self.held.popitem(last=False)

    def suspects(self) -> Iterator[str]:
        """The jobs it holds, last started first."""
        return (job for _, job in reversed(self.held))


def _plain_renewal(note: Note) -> bool:
    return note.op == "renew" and note.outcome == "ok" and note.grade in {"on_time", "unknown"}


def seconds(ms: float) -> str:
    """A time as it is read: `480 ms`, `4.5 s`."""
    return f"{ms:.0f} ms" if abs(ms) < 1000 else f"{ms / 1000:.1f} s"


def between_ms(begin: Instant, end: Instant) -> float:
    """From one instant to another."""
    return (end - begin) / MS
