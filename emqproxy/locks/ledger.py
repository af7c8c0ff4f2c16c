"""The account of all locks. Four kinds of method:

    getters      open_attempts(), next_deadline(), len()
    facts in     asked(intent, opened) · observe(fact) → verdicts · abandoned(intent, now)
    a question   judge(intent, now) → verdict, reads only
    time         tick(now) → verdicts, at or after next_deadline()

For each request: `asked` its intents before its answer can come, then `observe` its facts in the order of its answer;
every intent is answered by one fact of the same Place, or abandoned. `now` never runs backwards.

This ledger is modest: what it cannot prove against every order inside the Windows it calls doubtful. It names no one
but the speaker that spoke after it had certainly lost the lock.
"""

from __future__ import annotations

from typing import Final, assert_never

from emqproxy.locks.deadlines import Deadlines
from emqproxy.locks.events import (
    AnyFact,
    AnyIntent,
    AnyLockFact,
    Blinded,
    Granted,
    Instant,
    Lapsed,
    Lock,
    LockFact,
    LockIntent,
    Nothing,
    NotMine,
    Perhaps,
    PerhapsGranted,
    Place,
    Queue,
    Released,
    Renewed,
    Sighted,
    Window,
    Wiped,
)
from emqproxy.locks.flights import Flights
from emqproxy.locks.grading import REFUSALS, Grading, end_by, find
from emqproxy.locks.lease import MS, Lease, LeaseState, Move, Speaker
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade, Verdict

RETENTION_NS_MIN: Final = 60_000 * MS
TICK_MAX: Final = 1_000
"""Locks one tick looks at: the rest is due at once, and the loop gets its turn between."""
LOCKS: Final = 50_000
"""The default of `limits.locks`."""


class LockLedger:
    """All leases, by lock, what is in flight, and when something must be said of which."""

    def __init__(self, *, late: float = 0.60, critical: float = 0.80, locks_max: int = LOCKS) -> None:
        self.evicted = 0
        """Leases forgotten for want of room."""
        self._grading = Grading(late, critical)
        self._locks_max = max(1, locks_max)
        self._leases: dict[Lock, Lease] = {}
        self._flights = Flights()
        self._deadlines = Deadlines()
        """Of every lease, but one whose lapse is due and waits for a request in flight: its landing settles it."""
        self._of_conn: dict[int, set[Lock]] = {}
        """Which locks each connection spoke for last, while their attempts are open."""

    # ---------------------------------------------------------------- getters

    def __len__(self) -> int:
        return len(self._leases)

    def open_attempts(self) -> tuple[Attempt, ...]:
        """Attempts that have not ended, as they stand."""
        return tuple(lease.attempt() for lease in self._leases.values() if lease.open)

    def next_deadline(self) -> Instant | None:
        """When `tick` has something to say next, at the earliest."""
        return self._deadlines.first()

    # ---------------------------------------------------------------- facts in

    def asked(self, intent: AnyIntent, opened: Instant) -> None:
        """A request is about to be sent. Its answer comes as a fact of the same Place."""
        self._flights.depart(intent, opened)

    def abandoned(self, intent: AnyIntent, now: Instant) -> list[Verdict]:
        """The answer will never come, and there is nothing to be said of what it may have done."""
        verdicts = self.tick(now)
        self._flights.arrive(intent.place)
        lease = self._leases.get(intent.lock) if isinstance(intent, LockIntent) else None
        return verdicts if lease is None else verdicts + self._settle(lease, now)

    def observe(self, fact: AnyFact) -> list[Verdict]:
        """What the fact means, and what time has brought before it: its own request is in flight until then."""
        verdicts = self.tick(fact.window.closed)
        flight = self._flights.arrive(fact.place)
        match fact:
            case LockFact():
                verdicts += self._account(fact, fact.window.opened if flight is None else flight.opened)
            case Wiped():
                verdicts.append(self._wipe(fact))
            case Sighted():
                verdicts.append(self._desert(fact))
            case Nothing() | PerhapsGranted() | Blinded():
                verdicts.append(Verdict(fact, None, at=fact.window.closed))
            case _:
                assert_never(fact)
        return verdicts

    # ---------------------------------------------------------------- the question

    def judge(self, intent: AnyIntent, now: Instant) -> Verdict:
        """What would be found if Redis granted the request at this instant. Changes nothing."""
        window = Window(now, now)
        if not isinstance(intent, LockIntent):
            return Verdict(Nothing(intent.place, window, intent.queue), None, at=now)
        fact = Released(intent.place, window, intent.lock, intent.queue, intent.token)
        lease = self._leases.get(intent.lock)
        if lease is None:
            return Verdict(fact, Finding.UNWITNESSED, at=now)
        speaker = lease.speaker(intent.token)
        finding, _ = find(lease, lease.attempt_of(intent.token), fact, speaker, now, leaving=False)
        return Verdict(fact, finding, at=now)

    # ---------------------------------------------------------------- time

    def tick(self, now: Instant) -> list[Verdict]:
        """Lapses whose bound has passed, once each; then call again at `next_deadline()`."""
        verdicts: list[Verdict] = []
        for _ in range(TICK_MAX):
            lock = self._deadlines.take(now)
            if lock is None:
                break
            verdicts += self._settle(self._leases[lock], now)
        return verdicts

    def _settle(self, lease: Lease, now: Instant) -> list[Verdict]:
        """A lease's lapse or its being forgotten, if the time has come; else when to look again."""
        if lease.holder is not None and not lease.lapsed:
            if lease.gone_after > now:
                self._deadlines.no_later(lease.lock, lease.gone_after)
                return []
            if self._flights.opened_before(lease.lock, lease.gone_after):
                return []  # it may be renewed or released yet
            return [self._lapse(lease, now)]
        if lease.forget_at(RETENTION_NS_MIN) > now:
            self._deadlines.no_later(lease.lock, lease.forget_at(RETENTION_NS_MIN))
            return []
        self._drop(lease)
        over = lease.finish(End.LAPSED, Window(lease.alive_until, lease.gone_after))
        if over is None:
            return []
        nothing = Nothing(Place(lease.conn, 0), Window(now, now), lease.queue)
        return [Verdict(nothing, None, over=(over,), at=now)]

    def _lapse(self, lease: Lease, now: Instant) -> Verdict:
        assert lease.holder is not None
        lease.lapsed = True
        window = Window(lease.alive_until, lease.gone_after)
        fact = Lapsed(Place(lease.conn, 0), window, lease.lock, lease.queue, lease.holder)
        age_ms = (lease.gone_after - lease.proved.closed) / MS
        attempt = lease.attempt()
        over = self._end(lease, End.LAPSED, window, keep=True) if lease.deserted else None
        self._deadlines.no_later(lease.lock, lease.forget_at(RETENTION_NS_MIN))
        return Verdict(
            fact,
            Finding.SOUND,
            age_ms=age_ms,
            remaining_ms=lease.ttl_ms - age_ms,
            ttl_ms=lease.ttl_ms,
            attempt=attempt,
            over=(over,) if over else (),
            at=now,
        )

    # ---------------------------------------------------------------- one lock

    def _account(self, fact: AnyLockFact, sent: Instant) -> list[Verdict]:
        """The one door for all facts about one lock: finding first, then what becomes of the lease.

        A refusal proves that the requests in flight did not save the lock: a lapse that waited for it comes before it.
        """
        lease = self._leases.get(fact.lock) or self._open_lease(fact.lock, fact.queue)
        now = fact.window.closed
        lease.touched = max(lease.touched, now)
        refused = isinstance(fact, REFUSALS)
        verdicts = self._settle(lease, now) if refused else []
        speaker = lease.speaker(fact.token)
        leaving = refused and self._flights.releasing(fact.lock, fact.token, fact.place.conn, lease.gone_after)
        before = lease.attempt_of(fact.token)
        finding, move = find(lease, before, fact, speaker, sent, leaving=leaving)
        age_ms, remaining_ms, grade = self._grading.figures(before, fact, sent)
        over = self._move(lease, fact, move, speaker, grade)
        holds = lease.holder is not None and lease.holder == fact.token
        verdict = Verdict(
            fact,
            finding,
            grade=grade,
            age_ms=age_ms,
            remaining_ms=remaining_ms,
            ttl_ms=lease.ttl_ms if holds else None,
            attempt=lease.attempt_of(fact.token),
            over=() if over is None else (over,),
            at=now,
        )
        return [*verdicts, verdict, *self._settle(lease, now)]

    def _move(self, lease: Lease, fact: LockFact, move: Move, speaker: Speaker, grade: Grade | None) -> Attempt | None:
        """What becomes of the lease; the attempt that ended by it."""
        window = fact.window
        if isinstance(fact, (Granted, Renewed)) and move is Move.HOLD:
            return self._hold(lease, fact, speaker, grade)
        if speaker is Speaker.HOLDER:
            if isinstance(fact, NotMine) and fact.renewal and move is not Move.KEEP:
                lease.refused += 1
            elif isinstance(fact, Perhaps):
                lease.perhaps(window, fact.ttl_ms)
        if move is Move.KEEP:
            return None
        over = self._end(lease, end_by(fact, lease, speaker), window)
        lease.rest = {Move.FREE: LeaseState.FREE, Move.ELSEWHERE: LeaseState.ELSEWHERE}.get(move, LeaseState.UNSEEN)
        return over

    def _hold(self, lease: Lease, fact: Granted | Renewed, speaker: Speaker, grade: Grade | None) -> Attempt | None:
        conn = fact.place.conn
        if isinstance(fact, Renewed) and speaker is Speaker.HOLDER:
            if lease.conn != conn or lease.deserted:
                self._of_conn.get(lease.conn, set()).discard(lease.lock)
                self._of_conn.setdefault(conn, set()).add(lease.lock)
            lease.prove(fact.window, fact.ttl_ms, conn)
            lease.renewals += 1
            lease.late += grade in {Grade.LATE, Grade.CRITICAL}
            return None
        over = self._end(lease, End.SUPERSEDED, fact.window)
        lease.begin(fact.token, fact.window, fact.ttl_ms, conn, partial=isinstance(fact, Renewed))
        lease.renewals += isinstance(fact, Renewed)
        self._of_conn.setdefault(conn, set()).add(lease.lock)
        return over

    # ---------------------------------------------------------------- many locks

    def _wipe(self, fact: Wiped) -> Verdict:
        among = self._leases.values() if fact.lock is None else filter(None, [self._leases.get(fact.lock)])
        hit = [
            lease
            for lease in among
            if (fact.db is None or lease.lock.db == fact.db) and lease.lock.key.startswith(fact.prefix)
        ]
        over = [self._end(lease, End.WIPED, fact.window) for lease in hit]
        for lease in hit:
            lease.rest = LeaseState.FREE if fact.proved_absent else LeaseState.UNSEEN
        return Verdict(fact, None, over=tuple(a for a in over if a is not None), at=fact.window.closed)

    def _desert(self, fact: Sighted) -> Verdict:
        """A connection closed: attempts past their deadline that it spoke for are over, others when they lapse."""
        over: list[Attempt] = []
        for lock in self._of_conn.pop(fact.place.conn, ()):
            lease = self._leases.get(lock)
            if lease is None or lease.holder is None or lease.conn != fact.place.conn:
                continue
            lease.deserted = True
            if lease.lapsed:
                ended = self._end(lease, End.LAPSED, Window(lease.alive_until, fact.window.closed), keep=True)
                over += [ended] if ended else []
        return Verdict(fact, None, over=tuple(over), at=fact.window.closed)

    # ---------------------------------------------------------------- small parts

    def _open_lease(self, lock: Lock, queue: Queue) -> Lease:
        if len(self._leases) >= self._locks_max:
            oldest = [lease for lease, _ in zip(self._leases.values(), range(16), strict=False)]
            self._drop(next((lease for lease in oldest if lease.holder is None), oldest[0]))
            self.evicted += 1
        lease = self._leases[lock] = Lease(lock, queue)
        return lease

    def _drop(self, lease: Lease) -> None:
        del self._leases[lease.lock]
        self._deadlines.drop(lease.lock)
        self._of_conn.get(lease.conn, set()).discard(lease.lock)

    def _end(self, lease: Lease, end: End, window: Window, *, keep: bool = False) -> Attempt | None:
        """Ends the holder's attempt, once; `keep`: the lease goes on to stand as lapsed."""
        if lease.holder is None:
            return None
        self._of_conn.get(lease.conn, set()).discard(lease.lock)
        if not keep:
            return lease.finish(end, window)
        was_open, lease.open = lease.open, False
        return lease.attempt(end, window) if was_open else None
