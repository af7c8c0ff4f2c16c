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

import heapq
from typing import Final, assert_never

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
from emqproxy.locks.grading import Grading, end_by, modest, state_for
from emqproxy.locks.lease import MS, TRANSITIONS, Lease, LeaseState, Move, Speaker
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade, Verdict

RETENTION_NS_MIN: Final = 60_000 * MS
TICK_MAX: Final = 1_000
"""Heap entries one tick takes: the rest is due at once, and the loop gets its turn between."""
LOCKS: Final = 50_000
"""The default of `limits.locks`."""


class LockLedger:
    """All leases, by lock, and a heap of the instants at which something must be said of one."""

    def __init__(self, *, late: float = 0.60, critical: float = 0.80, locks_max: int = LOCKS) -> None:
        self.evicted = 0
        """Leases forgotten for want of room."""
        self._grading = Grading(late, critical)
        self._locks_max = locks_max
        self._leases: dict[Lock, Lease] = {}
        self._flights = Flights()
        self._heap: list[tuple[Instant, int, Lock, int]] = []
        """(instant, tie-breaker, lock, incarnation). A renewal leaves its old entry behind: it is looked at when its
        time comes and pushed again; removing it would cost a search."""
        self._pushed = 0
        self._told: Instant = 0
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
        return self._heap[0][0] if self._heap else None

    # ---------------------------------------------------------------- facts in

    def asked(self, intent: AnyIntent, opened: Instant) -> None:
        """A request is about to be sent. Its answer comes as a fact of the same Place."""
        self._flights.depart(intent, opened)

    def abandoned(self, intent: AnyIntent, now: Instant) -> list[Verdict]:
        """The answer will never come, and there is nothing to be said of what it may have done."""
        self._flights.arrive(intent.place)
        return self.tick(now)

    def observe(self, fact: AnyFact) -> list[Verdict]:
        """What the fact means, and what time has brought before it."""
        verdicts = self.tick(fact.window.opened)
        sent = self._flights.arrive(fact.place)
        match fact:
            case LockFact():
                verdicts.append(self._account(fact, fact.window.opened if sent is None else sent))
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
        finding, _ = TRANSITIONS["Released", lease.state(now), lease.speaker(intent.token)]
        return Verdict(fact, modest(finding), at=now)

    # ---------------------------------------------------------------- time

    def tick(self, now: Instant) -> list[Verdict]:
        """Lapses whose bound has passed, once each; then call again at `next_deadline()`."""
        self._told = max(self._told, now)
        verdicts: list[Verdict] = []
        for _ in range(TICK_MAX):
            if not self._heap or self._heap[0][0] > now:
                break
            _, _, lock, incarnation = heapq.heappop(self._heap)
            lease = self._leases.get(lock)
            if lease is not None and lease.incarnation == incarnation:
                self._due(lease, now, verdicts)
        return verdicts

    def _due(self, lease: Lease, now: Instant, verdicts: list[Verdict]) -> None:
        """A lease's time has come: its lapse, its being forgotten, or nothing yet."""
        if lease.holder is not None and not lease.lapsed:
            if lease.gone_after > now:
                self._push(lease, lease.gone_after)
            elif self._flights.opened_before(lease.lock, lease.gone_after):
                lease.waiting = True
            else:
                verdicts.append(self._lapse(lease, now))
        elif self._forget_at(lease) > now:
            self._push(lease, self._forget_at(lease))
        else:
            over = self._end(lease, End.LAPSED, Window(lease.alive_until, now))
            del self._leases[lease.lock]
            if over is not None:
                nothing = Nothing(Place(lease.conn, 0), Window(now, now), lease.queue)
                verdicts.append(Verdict(nothing, None, over=(over,), at=now))

    def _lapse(self, lease: Lease, now: Instant) -> Verdict:
        assert lease.holder is not None
        lease.lapsed, lease.waiting = True, False
        window = Window(lease.alive_until, lease.gone_after)
        fact = Lapsed(Place(lease.conn, 0), window, lease.lock, lease.queue, lease.holder)
        age_ms = (now - lease.proved.closed) / MS
        attempt = lease.attempt()
        over = self._end(lease, End.LAPSED, Window(lease.alive_until, now), keep=True) if lease.deserted else None
        self._push(lease, self._forget_at(lease))
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

    def _account(self, fact: AnyLockFact, sent: Instant) -> Verdict:
        """The one door for all facts about one lock: finding first, then what becomes of the lease."""
        lease = self._leases.get(fact.lock) or self._open_lease(fact.lock, fact.queue)
        speaker = lease.speaker(fact.token)
        finding, move = TRANSITIONS[type(fact).__name__, state_for(lease, fact, speaker, sent), speaker]
        before = lease.attempt() if speaker is Speaker.HOLDER else lease.past.get(fact.token)
        age_ms, remaining_ms, grade = self._grading.figures(before, fact, sent)
        over = self._move(lease, fact, move, speaker, grade)
        if lease.waiting and not self._flights.opened_before(lease.lock, lease.gone_after):
            self._push(lease, lease.gone_after)
        holds = lease.holder is not None and lease.holder == fact.token
        return Verdict(
            fact,
            modest(finding),
            grade=grade,
            age_ms=age_ms,
            remaining_ms=remaining_ms,
            ttl_ms=lease.ttl_ms if holds else None,
            attempt=lease.attempt() if holds else lease.past.get(fact.token),
            over=() if over is None else (over,),
            at=fact.window.closed,
        )

    def _move(self, lease: Lease, fact: LockFact, move: Move, speaker: Speaker, grade: Grade | None) -> Attempt | None:
        """What becomes of the lease; the attempt that ended by it."""
        window = fact.window
        if isinstance(fact, (Granted, Renewed)):
            return self._hold(lease, fact, speaker, grade)
        if speaker is Speaker.HOLDER:
            if isinstance(fact, NotMine) and fact.renewal:
                lease.refused += 1
            elif isinstance(fact, Perhaps) and fact.ttl_ms is None:  # it may have been released
                lease.alive_until = min(lease.alive_until, window.opened)
            elif isinstance(fact, Perhaps) and fact.ttl_ms is not None:
                lease.gone_after = max(lease.gone_after, window.closed + fact.ttl_ms * (MS + MS // 1000) + MS)
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
            due = lease.gone_after
            lease.prove(fact.window, fact.ttl_ms, conn)
            lease.renewals += 1
            lease.late += grade in {Grade.LATE, Grade.CRITICAL}
            if lease.gone_after < due:  # renewed for a shorter time than was left
                self._push(lease, lease.gone_after)
            return None
        over = self._end(lease, End.SUPERSEDED, fact.window)
        lease.begin(fact.token, fact.window, fact.ttl_ms, conn, partial=isinstance(fact, Renewed))
        lease.renewals += isinstance(fact, Renewed)
        self._of_conn.setdefault(conn, set()).add(lease.lock)
        self._push(lease, lease.gone_after)
        return over

    # ---------------------------------------------------------------- many locks

    def _wipe(self, fact: Wiped) -> Verdict:
        hit = [
            lease
            for lock, lease in self._leases.items()
            if (fact.lock is None or lock == fact.lock)
            and (fact.db is None or lock.db == fact.db)
            and lock.key.startswith(fact.prefix)
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
            self._evict()
        lease = self._leases[lock] = Lease(lock, queue)
        self._push(lease, self._told + RETENTION_NS_MIN)
        return lease

    def _evict(self) -> None:
        """Makes room: one of the oldest that has ended, else the oldest."""
        oldest = [lock for lock, _ in zip(self._leases, range(16), strict=False)]
        lock = next((k for k in oldest if self._leases[k].holder is None), oldest[0])
        lease = self._leases.pop(lock)
        self._of_conn.get(lease.conn, set()).discard(lock)
        self.evicted += 1

    def _end(self, lease: Lease, end: End, window: Window, *, keep: bool = False) -> Attempt | None:
        """Ends the holder's attempt, once; `keep`: the lease goes on to stand as lapsed."""
        if lease.holder is None:
            return None
        self._of_conn.get(lease.conn, set()).discard(lease.lock)
        if not keep:
            return lease.finish(end, window)
        was_open, lease.open = lease.open, False
        return lease.attempt(end, window) if was_open else None

    def _forget_at(self, lease: Lease) -> Instant:
        since = max(lease.gone_after, lease.proved.closed) if lease.holder is not None else self._last(lease)
        return since + 2 * max(lease.ttl_ms * MS, RETENTION_NS_MIN)

    def _last(self, lease: Lease) -> Instant:
        ended = [a.ended.closed for a in lease.past.values() if a.ended is not None]
        return max(ended, default=lease.proved.closed)

    def _push(self, lease: Lease, at: Instant) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (at, self._pushed, lease.lock, lease.incarnation))
