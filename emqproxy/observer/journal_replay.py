"""What of a line only `emqproxy replay` needs, so that the same facts are weighed again in the same order.

A line's other fields tell a reader what happened; these tell which request of its connection it was, from when its age
counts, what it asked for, and what came between that has no line of its own. What is as usual is left out.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from emqproxy.locks.events import (
    AnyFact,
    Granted,
    Lapsed,
    LockFact,
    LockIntent,
    NotMine,
    Perhaps,
    PerhapsGranted,
    Place,
    Renewed,
    Window,
    effect,
)
from emqproxy.locks.evictions import Memory
from emqproxy.observer.names import job_id, subject
from emqproxy.observer.tokens import Tokens
from emqproxy.records import FactBeside, JobFields, ObserverSettings, Record

SETTINGS_EVERY: Final = 60
"""Heartbeats: a rotated file says by what it was judged, too."""

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
Int64 = Annotated[int, msgspec.Meta(ge=_INT64_MIN, le=_INT64_MAX)]
"""A number of a journal: what Redis itself can tell. Beyond, nothing could be reckoned with it."""
Figure = Annotated[float, msgspec.Meta(ge=-1e19, le=1e19)]


class PickupFields(msgspec.Struct, omit_defaults=True):
    """Of a job that was given out."""

    starts: Int64 | None = None
    """The job's own count of its pickups, this one among them."""
    stalls: Int64 | None = None
    payload: bool = True
    """It has a name, data or options."""
    doomed: bool = False
    """It was stalled too often, and is to be failed."""


class JudgedBy(msgspec.Struct):
    """By what was judged."""

    late: Figure
    critical: Figure
    sole_path: bool
    locks: Int64
    began_ns: Int64


class Beside(msgspec.Struct, omit_defaults=True):
    """A fact that has no line of its own."""

    effect: str
    conn: Int64
    request: Int64
    opened_ns: Int64
    closed_ns: Int64
    part: Int64 = 0
    db: Int64 | None = None
    prefix: str | None = None
    queue: str | None = None
    job: str | None = None
    token: str | None = None
    asked_ttl_ms: Int64 | None = None
    anything: bool = False
    """Whatever its call did could not be read."""
    heard_ns: Int64 = 0
    """As in `Replay`."""
    turn: Int64 = 0
    intent: str | None = None
    """What it answers: `take`, `renew`."""
    sent_ns: Int64 = 0
    asked: Int64 = 0
    queued_ns: Int64 = 0


class Replay(msgspec.Struct, omit_defaults=True):
    """The journal's field `replay`."""

    request: Int64 = 0
    """Which of its connection's recognised calls it was."""
    part: Int64 = 0
    """Which of the call's ids."""
    sent_ns: Int64 = 0
    """From when its age is measured, where that is not `opened_ns`."""
    asked_ttl_ms: Int64 | None = None
    """The time to live that it asked for."""
    worker: str | None = None
    """Where `worker` is null: what stands before the token's first colon, told as tokens are."""
    pickup: PickupFields | None = None
    pauses: tuple[Window, ...] = ()
    """When emqproxy stood still since the line before, monotonic nanoseconds."""
    besides: tuple[Beside, ...] = ()
    """Facts without a line of their own since the line before."""
    judged: JudgedBy | None = None
    heard_ns: Int64 = 0
    """Of journals without `turn`: behind facts closed up to then it was heard, where that is later than `closed_ns`."""
    interval_ms: Int64 | None = None
    """A sweep's: how often its caller sweeps."""
    memory: tuple[Memory, ...] = ()
    """What is new of what Redis said of its memory since the line before."""
    turn: Int64 = 0
    """When it was weighed: all that the ledger was asked and told is counted, in its order."""
    asked: Int64 = 0
    """At which turn its call was asked."""
    queued_ns: Int64 = 0
    """Of a call inside MULTI: its `sent_ns` until EXEC came."""
    paused_at: tuple[Int64, ...] = ()
    """After which turn each of `pauses` was known."""

    def check(self) -> None:
        """Raises ValueError for a number beyond what can be reckoned with, where no field's type says so."""
        numbers = [number for pause in self.pauses for number in pause]
        for at, _, *figures in self.memory:
            numbers += [at, *figures]
        if not all(_INT64_MIN <= number <= _INT64_MAX for number in numbers):
            raise ValueError("a number is out of range")


class ReplayNotes:
    """One journal's. `every` line's; the settings go with the first one, and with one a minute."""

    def __init__(self, tokens: Tokens, settings: ObserverSettings | None = None) -> None:
        self._tokens = tokens
        self._judged: JudgedBy | None = None
        self._waits = 0
        if settings is not None:
            self.use(settings)

    def use(self, settings: ObserverSettings) -> None:
        """From the next line on."""
        self._judged = JudgedBy(
            settings.late, settings.critical, settings.sole_path, settings.locks, settings.began_ns
        )
        self._waits = 0

    def beat(self) -> None:
        """A heartbeat came."""
        self._waits -= 1

    def of(self, record: Record, worker: str | None) -> Replay:
        """What replay needs of a record beside its other fields; `worker` is what these name."""
        fact, judged = record.verdict.fact, None
        if self._waits <= 0 and self._judged is not None:
            self._waits, judged = SETTINGS_EVERY, self._judged
        place = Place(0, 0) if isinstance(fact, Lapsed) else fact.place
        token = getattr(fact, "token", b"")
        job = record.line.job
        return Replay(
            place.request,
            place.part,
            0 if record.sent_ns == fact.window.opened else record.sent_ns,
            _asked_ttl_ms(fact),
            self._tokens.worker(token) if token and worker is None else None,
            None if job is None or record.line.op != "acquire" else _pickup(job),
            record.pauses,
            tuple(self._beside(beside) for beside in record.besides) if record.besides else (),
            judged,
            interval_ms=record.line.interval_ms,
            memory=record.memory,
            turn=record.turn,
            asked=record.asked,
            queued_ns=record.queued_ns,
            paused_at=record.paused_at,
        )

    def _beside(self, beside: FactBeside) -> Beside:
        fact, intent = beside.fact, beside.intent
        db, prefix, queue, job = subject(fact)
        if job is None and isinstance(intent, LockIntent):
            job = job_id(intent.queue, intent.lock)
        token = self._tokens.name(fact.token).token if isinstance(fact, LockFact | PerhapsGranted) else None
        loose = getattr(fact, "anything", False) or getattr(fact, "unread", False)
        (conn, request, part), (opened, closed) = fact.place, fact.window
        ttl_ms = _asked_ttl_ms(fact)
        return Beside(
            effect(fact), conn, request, opened, closed, part, db, prefix, queue, job, token, ttl_ms, loose,
            turn=beside.turn,
            intent=None if intent is None else type(intent).__name__.lower(),
            sent_ns=0 if beside.sent_ns == opened else beside.sent_ns,
            asked=beside.asked,
            queued_ns=beside.queued_ns,
        )  # fmt: skip


def _asked_ttl_ms(fact: AnyFact) -> int | None:
    return fact.ttl_ms if isinstance(fact, Granted | Renewed | NotMine | Perhaps | PerhapsGranted) else None


def _pickup(job: JobFields) -> PickupFields:
    payload = job.name is not None or job.timestamp is not None
    return PickupFields(job.attempts_started, job.stalled_count, payload, job.doomed)
