"""The account of all locks. Four kinds of method:

    getters      open_attempts(), next_deadline(), len()
    facts in     asked(intent, opened) · observe(fact) → verdicts · abandoned(intent, now) → verdicts
    a question   judge(intent, now) → verdict, reads only
    time         tick(now) → verdicts, at or after next_deadline()

For each request: `asked` its intents before its answer can come, then `observe` its facts in the order of its answer;
every intent is answered by one fact of the same Place, or abandoned. `now` never runs backwards.

The law: it accuses only when no order inside the Windows explains what was seen. A finding that suspects nobody is
given at once. One that suspects somebody, and a lapse, waits for the requests that were out, had been sent before,
and could explain it; and for no later one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from msgspec.structs import replace

from emqproxy.locks.account import Account
from emqproxy.locks.deadlines import Deadlines
from emqproxy.locks.events import (
    AnyFact,
    AnyIntent,
    AnyLockFact,
    Blinded,
    Instant,
    Lapsed,
    Lock,
    LockFact,
    LockIntent,
    Nothing,
    PerhapsGranted,
    Place,
    Queue,
    Released,
    Sighted,
    Window,
    Wiped,
)
from emqproxy.locks.flights import Flights
from emqproxy.locks.grading import Grading
from emqproxy.locks.orders import Heard, weigh
from emqproxy.locks.verdicts import Attempt, End, Finding, Suspect, Verdict
from emqproxy.locks.worlds import MS, LeaseState, World

RETENTION_NS_MIN: Final = 60_000 * MS
TICK_MAX: Final = 1_000
"""Accounts one tick looks at: the rest is due at once, and the loop gets its turn between."""
LOCKS: Final = 50_000
"""The default of `limits.locks`."""
EVICT_LOOK: Final = 16
"""How many of the oldest accounts are looked at for one that has ended."""


class LockLedger:
    """All accounts, by lock, and the instants at which something must be said of one."""

    def __init__(
        self, *, late: float = 0.60, critical: float = 0.80, locks_max: int = LOCKS, sole_path: bool = False
    ) -> None:
        self.evicted = 0
        """Accounts forgotten for want of room."""
        self._grading = Grading(late, critical)
        self._locks_max, self._sole_path = locks_max, sole_path
        self._accounts: dict[Lock, Account] = {}
        self._flights = Flights()
        self._deadlines = Deadlines()
        self._waiting: dict[Place, set[Lock]] = {}
        """Which accounts wait for an answer."""
        self._blind: set[int] = set()
        """Connections that are OPAQUE."""
        self._of_conn: dict[int, set[Lock]] = {}
        """Which locks each connection spoke for last, while their attempts are open."""

    # ---------------------------------------------------------------- getters

    def __len__(self) -> int:
        return len(self._accounts)

    def open_attempts(self) -> tuple[Attempt, ...]:
        """Attempts that have not ended, as they stand."""
        return tuple(t.attempt for account in self._accounts.values() for t in account.open.values() if not t.over)

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
        return verdicts + self._resolve(intent.place, now)

    def observe(self, fact: AnyFact) -> list[Verdict]:
        """What can be said now: of this fact, of those it explains, and of what time has brought before it."""
        verdicts = self.tick(fact.window.opened)
        flight = self._flights.arrive(fact.place)
        match fact:
            case LockFact():
                verdicts += self._account(fact, fact.window.opened if flight is None else flight.opened)
            case Wiped():
                verdicts.append(self._wipe(fact))
            case Sighted():
                verdicts.append(self._sighted(fact))
            case Blinded():
                verdicts.append(self._blinded(fact))
            case PerhapsGranted():
                verdicts.append(self._perhaps_granted(fact))
            case Nothing():
                verdicts.append(Verdict(fact, None, at=fact.window.closed))
            case _:
                assert_never(fact)
        return verdicts + self._resolve(fact.place, fact.window.closed)

    # ---------------------------------------------------------------- the question

    def judge(self, intent: AnyIntent, now: Instant) -> Verdict:
        """What would be found if Redis granted the request at this instant. Changes nothing."""
        window = Window(now, now)
        if not isinstance(intent, LockIntent):
            return Verdict(Nothing(intent.place, window, intent.queue), None, at=now)
        fact = Released(intent.place, window, intent.lock, intent.queue, intent.token)
        account = self._accounts.get(intent.lock)
        worlds = (World(),) if account is None else account.ends
        (finding,) = weigh(worlds, [Heard(fact, now)]).findings
        return Verdict(fact, finding, scope=self._scope(finding), at=now)

    # ---------------------------------------------------------------- time

    def tick(self, now: Instant) -> list[Verdict]:
        """Lapses whose bound has passed, once each; then call again at `next_deadline()`."""
        verdicts: list[Verdict] = []
        for _ in range(TICK_MAX):
            lock = self._deadlines.take(now)
            if lock is None:
                break
            account = self._accounts.get(lock)
            if account is not None:
                self._due(account, now, verdicts)
        return verdicts

    def _due(self, account: Account, now: Instant, verdicts: list[Verdict]) -> None:
        """An account's time has come: its lapse, its being forgotten, or nothing yet."""
        token = _sure_holder(account.ends)
        telling = account.open.get(token) if token is not None else None
        if telling is not None and not telling.attempt.lapsed and not account.lapse_waits:
            gone = max(world.gone_after for world in account.ends)
            if gone <= now:
                account.lapse_waits = self._wait(account, gone)
                if not account.lapse_waits:
                    verdicts.append(self._lapse(account, now))
        elif _forget_at(account) <= now and account.pending:  # an answer is still out, after all that time
            self._deadlines.no_later(account.lock, now + RETENTION_NS_MIN)
            return
        elif _forget_at(account) <= now:
            window = Window(account.heard_at, now)
            over = account.wipe((World(),), End.LAPSED, window)
            self._drop(account)
            verdicts += [Verdict(_nothing(account, now), None, over=(a,), at=now) for a in over]
            return
        self._arm(account)

    def _lapse(self, account: Account, now: Instant) -> Verdict:
        world = max(account.ends, key=lambda w: w.gone_after)
        assert world.holder is not None
        attempt = account.lapse(world.holder)
        place = Place(attempt.conn, 0)
        window = Window(min(w.alive_until for w in account.ends), world.gone_after)
        fact = Lapsed(place, window, account.lock, account.queue, world.holder)
        age_ms = (now - world.proved.closed) / MS
        over = account.desert(world.holder, attempt.conn, Window(window.opened, now)) if self._gone(account) else None
        self._let_go([over] if over is not None else [])
        return Verdict(
            fact,
            Finding.SOUND,
            age_ms=age_ms,
            remaining_ms=world.ttl_ms - age_ms,
            ttl_ms=world.ttl_ms,
            attempt=attempt,
            over=(over,) if over is not None else (),
            at=now,
        )

    def _gone(self, account: Account) -> bool:
        return any(telling.deserted for telling in account.open.values())

    # ---------------------------------------------------------------- one lock

    def _account(self, fact: AnyLockFact, sent: Instant) -> list[Verdict]:
        account = self._accounts.get(fact.lock) or self._open_account(fact.lock, fact.queue)
        waits = self._wait(account, fact.window.closed)
        return self._heard(account, account.hear(Heard(fact, sent), waits, self._grading))

    def _wait(self, account: Account, before: Instant) -> set[Place]:
        """What an account has to wait for: it is told when each of them is answered."""
        waits = self._flights.bearing_on(account.lock, account.queue, before)
        for place in waits:
            self._waiting.setdefault(place, set()).add(account.lock)
        return waits

    def _resolve(self, place: Place, now: Instant) -> list[Verdict]:
        """A request is out no more: those who waited for it may have something to say."""
        verdicts: list[Verdict] = []
        for lock in self._waiting.pop(place, ()):
            account = self._accounts.get(lock)
            if account is None:
                continue
            for pending in account.pending:
                pending.waits.discard(place)
            if account.pending:
                verdicts += self._heard(account, account.review(self._grading))
            if place in account.lapse_waits:
                account.lapse_waits.discard(place)
                if not account.lapse_waits:
                    self._due(account, now, verdicts)
        return verdicts

    def _heard(self, account: Account, verdicts: list[Verdict]) -> list[Verdict]:
        """After facts: who speaks for the lock now, when it is due, and how far what was said can be claimed."""
        for verdict in verdicts:
            for attempt in verdict.over:
                self._of_conn.get(attempt.conn, set()).discard(account.lock)
        for telling in account.open.values():
            self._of_conn.setdefault(telling.attempt.conn, set()).add(account.lock)
        self._arm(account)
        return [self._scoped(verdict) for verdict in verdicts]

    def _scoped(self, verdict: Verdict) -> Verdict:
        scope = self._scope(verdict.finding)
        return verdict if scope is None else replace(verdict, scope=scope)

    def _scope(self, finding: Finding | None) -> str | None:
        """How far an accusation of anybody but the speaker can be claimed."""
        if finding is None or finding.suspects not in {Suspect.BYPASSER, Suspect.CLOCK}:
            return None
        return "whole" if self._sole_path and not self._blind else "here"

    # ---------------------------------------------------------------- many locks

    def _wipe(self, fact: Wiped) -> Verdict:
        over: list[Attempt] = []
        rest = LeaseState.FREE if fact.proved_absent else LeaseState.UNSEEN
        for lock, account in self._accounts.items():
            hit = (fact.lock is None or lock == fact.lock) and (fact.db is None or lock.db == fact.db)
            if hit and lock.key.startswith(fact.prefix):
                over += account.wipe((World(None, rest),), End.WIPED, fact.window)
        self._let_go(over)
        return Verdict(fact, None, over=tuple(over), at=fact.window.closed)

    def _sighted(self, fact: Sighted) -> Verdict:
        """A connection closed: attempts past their deadline that it spoke for are over, others when they lapse."""
        conn, over = fact.place.conn, []
        self._blind.discard(conn)
        for lock in self._of_conn.pop(conn, set()):
            account = self._accounts.get(lock)
            for token in list(account.open) if account is not None else ():
                assert account is not None
                attempt = account.desert(token, conn, Window(fact.window.opened, fact.window.closed))
                over += [attempt] if attempt is not None else []
        return Verdict(fact, None, over=tuple(over), at=fact.window.closed)

    def _blinded(self, fact: Blinded) -> Verdict:
        """From here on its renewals and releases are unseen: nothing is sure of the locks it spoke for."""
        self._blind.add(fact.place.conn)
        for lock in self._of_conn.get(fact.place.conn, ()):
            account = self._accounts.get(lock)
            if account is not None:
                account.doubt([World(past=world.past) for world in account.ends])
        return Verdict(fact, None, at=fact.window.closed)

    def _perhaps_granted(self, fact: PerhapsGranted) -> Verdict:
        """It may have granted any job of its queue: each of its locks may have this holder now."""
        for account in self._accounts.values():
            if account.queue == fact.queue:
                if fact.ttl_ms is None:
                    account.doubt([World(past=world.past) for world in account.ends])
                else:
                    ttl_ms = fact.ttl_ms
                    account.doubt([world.held(fact.token, fact.window, ttl_ms) for world in account.ends])
                self._arm(account)
        return Verdict(fact, None, at=fact.window.closed)

    # ---------------------------------------------------------------- small parts

    def _open_account(self, lock: Lock, queue: Queue) -> Account:
        if len(self._accounts) >= self._locks_max:
            self._evict()
        account = self._accounts[lock] = Account(lock, queue)
        return account

    def _evict(self) -> None:
        """Makes room: one of the oldest that has ended, else the oldest."""
        oldest = [lock for lock, _ in zip(self._accounts, range(EVICT_LOOK), strict=False)]
        lock = next((k for k in oldest if not self._accounts[k].open and not self._accounts[k].pending), oldest[0])
        account = self._accounts[lock]
        self._let_go(telling.attempt for telling in account.open.values())
        self._drop(account)
        self.evicted += 1

    def _drop(self, account: Account) -> None:
        del self._accounts[account.lock]
        self._deadlines.drop(account.lock)

    def _let_go(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            self._of_conn.get(attempt.conn, set()).discard(attempt.lock)

    def _arm(self, account: Account) -> None:
        """Due at its lapse, if one is to be told by time; else when it is to be forgotten."""
        token = _sure_holder(account.ends)
        telling = account.open.get(token) if token is not None else None
        if telling is not None and not telling.attempt.lapsed:
            if not account.lapse_waits:
                self._deadlines.no_later(account.lock, max(world.gone_after for world in account.ends))
        else:
            self._deadlines.no_later(account.lock, _forget_at(account))


def _sure_holder(worlds: tuple[World, ...]) -> bytes | None:
    """The token that holds the lock in every world."""
    holder = worlds[0].holder
    return holder if all(world.holder == holder for world in worlds) else None


def _forget_at(account: Account) -> Instant:
    ttl_ms = max(world.ttl_ms for world in account.ends)
    since = max(account.heard_at, *(world.gone_after for world in account.ends))
    return since + 2 * max(ttl_ms * MS, RETENTION_NS_MIN)


def _nothing(account: Account, now: Instant) -> Nothing:
    return Nothing(Place(0, 0), Window(now, now), account.queue)
