"""Records as the data plane makes them, for tests: one job, one worker, figures given only where they matter.

A `Story` keeps one attempt's summary as the ledger would, so that a test reads as what happened:

    story = Story()
    batch = [HELLO, ANCHOR, story.acquire(at_ms=0), story.renew(at_ms=7_500), story.finish(at_ms=9_000)]
"""

from __future__ import annotations

import msgspec

from emqproxy.locks.events import (
    Absent,
    Blinded,
    Granted,
    HeldByOther,
    Lapsed,
    Lock,
    LockFact,
    NotMine,
    Place,
    Queue,
    Released,
    Renewed,
    Untouched,
    Window,
)
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade, Verdict
from emqproxy.records import (
    LENGTH_BYTES,
    Anchor,
    CallSite,
    Hello,
    JobFields,
    Line,
    Message,
    ObserverSettings,
    Peer,
    Record,
)

RUN = "7a8f7f3e-0000-4000-8000-000000000001"
MS = 1_000_000
BOOT_NS = 5_000_000 * MS
"""Where the monotonic clock stood at `at_ms=0`."""
WALL_NS = 1_796_000_000_000 * MS
"""Unix time of that instant."""
ANCHOR = Anchor(monotonic_ns=BOOT_NS, wall_ns=WALL_NS, dropped=0, seq=0)
TOKEN = b"4b7a9f62-3a51-4c55-9a3e-1d2f4f0c9b11:3"
OTHER_TOKEN = b"0c4d8e1f6a2b4c3d9e8f7a6b5c4d3e2f:1"
TTL_MS = 30_000
TOOK_NS = 400_000
"""Every call takes 0.4 ms."""


def hello(settings: ObserverSettings | None = None, restarts: int = 0) -> Hello:
    return Hello(RUN, "0.1.0", "redis.internal", 6379, restarts, settings or ObserverSettings())


def framed(batch: list[Message]) -> bytes:
    """A batch as it stands on the pipe."""
    body = msgspec.msgpack.encode(batch)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def window(at_ms: float, took_ns: int = TOOK_NS) -> Window:
    """A call whose answer came at `at_ms`."""
    closed = BOOT_NS + int(at_ms * MS)
    return Window(closed - took_ns, closed)


def wall_ns(at_ms: float) -> int:
    return WALL_NS + int(at_ms * MS)


def call(script: str) -> CallSite:
    return CallSite("EVALSHA", script, "c35baf769e5dc3d9194b2bceca04ab59f7c510f7", "catalogue", "5.65.1-6.7.0")


class Numbers:
    """What the data plane counts: lines, and requests of the one connection."""

    def __init__(self) -> None:
        self.seq = 0
        self.request = 0


class Story:
    """One worker's attempt on one job. Each method is one line, and returns its record."""

    def __init__(
        self,
        *,
        job: bytes = b"42",
        queue: bytes = b"emq:orders:",
        token: bytes = TOKEN,
        db: int = 0,
        number: int = 0,
        numbers: Numbers | None = None,
    ) -> None:
        self.queue = Queue(db, queue)
        self.lock = Lock(db, queue + job + b":lock")
        self.token = token
        self.number = number
        self.numbers = numbers or Numbers()
        self.peer = Peer(7, "127.0.0.1:51234", "emq:b3JkZXJz:w:one")
        self.attempt: Attempt | None = None

    # ------------------------------------------------------------------ what happens

    def acquire(self, at_ms: float, job: JobFields | None = None) -> Record:
        seen = window(at_ms)
        self.attempt = Attempt(
            self.lock, self.queue, self.token, self.number, seen, False, self.peer.conn, seen, TTL_MS, 0, 0, 0, False
        )
        fact = Granted(self._place(), seen, self.lock, self.queue, self.token, TTL_MS)
        line = Line("acquire", "ok", job=job or JobFields(name="send-mail", attempts_made=0, attempts_started=1))
        return self.record(fact, line, "moveToActive-11", finding=Finding.SOUND, ttl_ms=TTL_MS)

    def renew(self, at_ms: float, grade: Grade = Grade.ON_TIME, batch_size: int | None = None) -> Record:
        seen = window(at_ms)
        before = self._now()
        late = before.late + (grade in (Grade.LATE, Grade.CRITICAL))
        self.attempt = msgspec.structs.replace(before, proved=seen, renewals=before.renewals + 1, late=late)
        fact = Renewed(self._place(), seen, self.lock, self.queue, self.token, TTL_MS)
        line = Line("renew", "ok", code=1, batch_size=batch_size)
        age_ms = (seen.opened - before.proved.closed) / MS
        figures = {"age_ms": age_ms, "remaining_ms": TTL_MS - age_ms, "ttl_ms": TTL_MS, "grade": grade}
        return self.record(fact, line, "extendLocks-1", finding=Finding.SOUND, **figures)

    def renew_refused(self, at_ms: float) -> Record:
        self.attempt = msgspec.structs.replace(self._now(), refused=self._now().refused + 1)
        fact = NotMine(self._place(), window(at_ms), self.lock, self.queue, self.token, True, TTL_MS)
        line = Line("renew", "refused", code=0, code_name="RenewRefused")
        figures = {"age_ms": 31_000.12345, "remaining_ms": -1_000.12345, "grade": Grade.TOO_LATE}
        return self.record(fact, line, "extendLock-2", finding=Finding.STRAGGLER, **figures)

    def finish(self, at_ms: float, target: str = "completed") -> Record:
        over = self._end(End.RELEASED, window(at_ms))
        fact = Released(self._place(), window(at_ms), self.lock, self.queue, self.token)
        line = Line("finish", "ok", target=target, code=0)
        return self.record(fact, line, "moveToFinished-14", finding=Finding.SOUND, over=(over,))

    def finish_refused(self, at_ms: float) -> Record:
        fact = HeldByOther(self._place(), window(at_ms), self.lock, self.queue, self.token)
        line = Line("finish", "refused", target="completed", code=-6, code_name="JobLockMismatch")
        return self.record(fact, line, "moveToFinished-14", finding=Finding.STRAGGLER)

    def lapse(self, at_ms: float, *, over: bool = False) -> Record:
        """Told at `at_ms`; its Window lies around the deadline."""
        seen = Window(BOOT_NS + int(at_ms * MS) - 31 * MS, BOOT_NS + int(at_ms * MS) - MS)
        self.attempt = msgspec.structs.replace(self._now(), lapsed=True)
        ends = (self._end(End.LAPSED, seen),) if over else ()
        fact = Lapsed(Place(0, 0), seen, self.lock, self.queue, self.token)
        verdict = Verdict(fact, Finding.SOUND, attempt=self.attempt, over=ends, at=BOOT_NS + int(at_ms * MS))
        return Record(self._seq(), Line("lapse", "told"), verdict, None, None)

    def reap(self, at_ms: float, target: str = "wait", batch_size: int = 1, request: int | None = None) -> Record:
        """A sweep of another connection named the job."""
        over = (self._end(End.REAPED, window(at_ms)),) if self.attempt and self.attempt.end is None else ()
        place = Place(9, request or 1, self.numbers.seq)
        fact = Absent(place, window(at_ms), self.lock, self.queue, b"", swept=True)
        line = Line("reap", "ok", target=target, batch_size=batch_size)
        sweeper = Peer(9, "127.0.0.1:51999", None)
        verdict = Verdict(fact, Finding.SOUND, over=over, at=fact.window.closed)
        return Record(self._seq(), line, verdict, sweeper, call("moveStalledJobsToWait-8"))

    def finish_blocked(self, at_ms: float, rule: str = "lapsed_holder") -> Record:
        """Refused by us: the script never ran, its client was given what it would have answered."""
        fact = Untouched(self._place(), window(at_ms), self.lock, self.queue, self.token)
        line = Line("finish", "blocked", target="completed", code=-6, code_name="JobLockMismatch")
        return decided(self.record(fact, line, "moveToFinished-14", finding=None), "blocked", rule)

    # ------------------------------------------------------------------ parts

    def record(self, fact: LockFact, line: Line, script: str, **figures: object) -> Record:
        verdict = Verdict(fact, attempt=self.attempt, at=fact.window.closed, **figures)
        return Record(self._seq(), line, verdict, self.peer, call(script), lag_ns=73_500)

    def _place(self) -> Place:
        self.numbers.request += 1
        return Place(self.peer.conn, self.numbers.request)

    def _seq(self) -> int:
        self.numbers.seq += 1
        return self.numbers.seq

    def _now(self) -> Attempt:
        assert self.attempt is not None, "acquire first"
        return self.attempt

    def _end(self, end: End, ended: Window) -> Attempt:
        self.attempt = msgspec.structs.replace(self._now(), end=end, ended=ended)
        return self.attempt


def decided(record: Record, action: str, rule: str | None = None) -> Record:
    """The same, of a data plane that judges its calls."""
    return msgspec.structs.replace(record, action=action, rule=rule)


def blind(numbers: Numbers, at_ms: float) -> Record:
    """A connection of which nothing more is known."""
    fact = Blinded(Place(7, 1), window(at_ms, 0))
    numbers.seq += 1
    peer = Peer(7, "unix:7", None)
    return Record(numbers.seq, Line("blind", "told"), Verdict(fact, None), peer, None, reason="MONITOR")
