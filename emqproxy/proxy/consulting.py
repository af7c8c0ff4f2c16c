"""The doctor's practice: who spoke when on which connection, each line as a note, and what the doctor says of it.

What a diagnosis needs beside a line itself is known here alone: how long a worker was silent before it spoke, and how
much it said at once. Both go with the line, so that a journal, read again, gives the same diagnosis.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol

from emqproxy.locks.causes import Diagnosis
from emqproxy.locks.claims import worker_of
from emqproxy.locks.diagnosis import Doctor
from emqproxy.locks.events import (
    AnyFact,
    AnyIntent,
    Instant,
    LockFact,
    LockIntent,
    PerhapsGranted,
    Queue,
    QueueFact,
    Take,
    Wiped,
    effect,
)
from emqproxy.locks.evictions import Memory
from emqproxy.locks.notes import MS, Note
from emqproxy.locks.verdicts import Finding, Grade, Verdict
from emqproxy.locks.watches import Watches
from emqproxy.records import CallSite, Line, Peer

BURST_NS: Final = 5 * MS
"""What comes within it was said at once."""
NAMES_MAX: Final = 4096
"""Of queues and of tokens that speak: what their names say is kept, and found anew past it."""
_UNREFUSED: Final = frozenset({"ok", "told", "unknown", "blocked"})
_GRADES: Final = {None: None} | {grade: grade.value for grade in Grade}
_FINDINGS: Final = {None: None} | {finding: finding.word for finding in Finding}
_worker_of: Final = lru_cache(NAMES_MAX)(worker_of)


class Talker(Protocol):
    """A connection that is watched."""

    conn: int
    heard_at: Instant
    """When it last said something."""
    silent_from: Instant
    """When it had said something before what it said last at once, or was made."""

    def calls_near(self, instant: Instant, within_ns: int) -> int:
        """How many of its last calls of interest arrived within a time of an instant."""
        ...


class Consulting:
    """One data plane's."""

    def __init__(self, began: Instant, jobs_max: int) -> None:
        self.speakers: dict[int, Talker] = {}
        """By connection: those that are open."""
        self.watches = Watches()
        self._doctor = Doctor(began, jobs_max)

    def idle_ms(self, speaker: Talker, intents: tuple[AnyIntent, ...], opened: Instant) -> float | None:
        """How long all connections of a call's worker had been silent before it arrived; None where it names none.

        To the microsecond: a journal tells no more, and who judges it again must not see anything else."""
        for intent in intents:
            if isinstance(intent, (LockIntent, Take)):
                token = intent.token
                break
        else:
            return None
        if not token:
            return None
        latest, speakers = speaker.silent_from, self.speakers
        for conn in self._doctor.conns_of(_worker_of(token)):
            other = speakers.get(conn)
            if other is not None and other is not speaker:
                at = other.heard_at if other.heard_at < opened - BURST_NS else other.silent_from
                if at > latest:
                    latest = at
        return max(0, opened - latest) // 1000 / 1000

    def memory(self, memory: Memory) -> tuple[Memory, ...]:
        """Redis said how it is with its memory: what is new of it."""
        return self._doctor.evictions.heard(memory)

    def line(
        self,
        seq: int,
        line: Line,
        verdict: Verdict,
        peer: Peer | None,
        call: CallSite | None,
        lag_ns: int,
        idle_ms: float | None,
    ) -> tuple[Diagnosis | None, int]:
        """What the doctor says of a line, and how many calls of its worker came at once with it, where that counts."""
        fact, job, burst, token = verdict.fact, line.job, 0, b""
        window, (queue, name) = fact.window, _about(fact)
        if isinstance(fact, (LockFact, PerhapsGranted)):
            token = fact.token
        worker = _worker_of(token) if token else None
        if worker is not None and line.outcome not in _UNREFUSED:
            burst = self._burst(worker, window.opened)
        starts, stalls, payload, doomed = None, None, True, False
        if job is not None:
            starts, stalls, doomed = job.attempts_started, job.stalled_count, job.doomed
            payload = job.name is not None or job.timestamp is not None
        note = Note(
            seq,
            line.op,
            line.outcome,
            effect(fact),
            window.opened,
            window.closed,
            queue,
            name,
            line.target,
            line.code,
            line.code_name,
            token or None,
            worker,
            peer.conn if peer is not None else None,
            "" if peer is None else peer.client_name or peer.client,
            call.script if call is not None else "",
            verdict.ttl_ms,
            verdict.age_ms,
            verdict.remaining_ms,
            _GRADES[verdict.grade],
            _FINDINGS[verdict.finding],
            idle_ms,
            burst,
            lag_ns // 1000 * 1000 / MS,
            starts,
            stalls,
            payload,
            doomed,
            line.interval_ms,
        )
        self.watches.observe(fact, note)
        return self._doctor.observe(note), burst

    def _burst(self, worker: bytes, opened: Instant) -> int:
        speakers = (self.speakers.get(conn) for conn in self._doctor.conns_of(worker))
        return sum(speaker.calls_near(opened, BURST_NS) for speaker in speakers if speaker is not None)


def _about(fact: AnyFact) -> tuple[tuple[int | None, str] | None, str | None]:
    """The queue that a fact is about, by its database and its prefix; and the job's key."""
    if isinstance(fact, LockFact):
        return _queue_named(fact.queue), _text(fact.lock.key.removesuffix(b":lock"))
    if isinstance(fact, Wiped):
        return ((fact.db, _text(fact.prefix)) if fact.prefix else None), None
    return (_queue_named(fact.queue) if isinstance(fact, QueueFact) else None), None


@lru_cache(NAMES_MAX)
def _queue_named(queue: Queue) -> tuple[int, str]:
    """A queue by its database and its prefix: the same again for each line of it."""
    return queue.db, _text(queue.prefix)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
