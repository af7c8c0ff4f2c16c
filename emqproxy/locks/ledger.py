"""The account of all locks. Four kinds of method:

    getters      open_attempts(), next_deadline(), certain, len()
    facts in     asked(intent, opened) · observe(fact) → verdicts · abandoned(intent, now) → verdicts · paused(window)
    a question   judge(intent, now) → verdict, reads only
    time         tick(now) → verdicts, at or after next_deadline()

For each request: `asked` its intents before its answer can come, then `observe` its facts in the order of its answer;
every intent is answered by one fact of the same Place, or abandoned. `now` never runs backwards.

The law: it accuses only when no order inside the Windows explains what was seen. A finding that suspects nobody is
given at once; one that suspects somebody, and a lapse, waits for requests sent before that could explain it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from msgspec.structs import replace

from emqproxy.locks.account import RETENTION_NS_MIN, Account
from emqproxy.locks.accounts import Accounts
from emqproxy.locks.certain import Certain
from emqproxy.locks.deadlines import Deadlines
from emqproxy.locks.events import (
    AnyFact,
    AnyIntent,
    AnyLockFact,
    Blinded,
    Instant,
    Lock,
    LockFact,
    LockIntent,
    Met,
    Nothing,
    PerhapsGranted,
    Place,
    Released,
    Sighted,
    Untouched,
    Window,
    Wiped,
)
from emqproxy.locks.flights import Flights
from emqproxy.locks.grading import Grading
from emqproxy.locks.healthy import HealthyLane
from emqproxy.locks.orders import Heard, weigh
from emqproxy.locks.verdicts import Attempt, Finding, Suspect, Verdict
from emqproxy.locks.worlds import LeaseState, World

TICK_MAX: Final = 200
"""Accounts one tick looks at: the rest is due at once, and the loop gets its turn between."""
LOCKS: Final = 50_000
"""The default of `limits.locks`."""


class LockLedger:
    """All accounts, by lock, and the instants at which something must be said of one."""

    def __init__(
        self, *, late: float = 0.60, critical: float = 0.80, locks_max: int = LOCKS, sole_path: bool = False
    ) -> None:
        self._grading = self.grading = Grading(late, critical)
        self._sole_path = sole_path
        self._accounts, self.locks_max = Accounts(locks_max), locks_max
        self._flights = Flights()
        self._deadlines = Deadlines()
        self._lane = HealthyLane(self._accounts, self._flights, self._deadlines, self._grading)
        self.waiting: dict[Place, dict[Lock, None]] = {}
        """Which accounts wait for an answer, in the order in which they began to."""
        self._blind: set[int] = set()
        """Connections that are OPAQUE."""
        self.certain = Certain(self._accounts, self._flights, self._blind)
        self._unsure_until: Instant = 0
        """What was sent before may have run before or after a wipe, a failed pickup or something unseen."""

    # ---------------------------------------------------------------- getters

    def __len__(self) -> int:
        return len(self._accounts)

    @property
    def evicted(self) -> int:
        """Accounts forgotten for want of room."""
        return self._accounts.evicted

    def open_attempts(self) -> tuple[Attempt, ...]:
        """Attempts that have not ended, as they stand."""
        return tuple(t.attempt for account in self._accounts for t in account.story.open.values() if not t.over)

    def next_deadline(self) -> Instant | None:
        """When `tick` has something to say next, at the earliest."""
        return self._deadlines.first()

    # ---------------------------------------------------------------- facts in

    def asked(self, intent: AnyIntent, opened: Instant) -> None:
        """A request is about to be sent. Its answer comes as a fact of the same Place."""
        self._flights.depart(intent, opened)

    def abandoned(self, intent: AnyIntent, now: Instant) -> list[Verdict]:
        """It was not sent, or did nothing. What may have been done is told by `observe(flights.perhaps(…))`."""
        verdicts = self.tick(now)
        self._flights.arrive(intent.place)
        return verdicts + self._resolve(intent.place, now)

    def paused(self, pause: Window) -> None:
        """We ourselves stood still: no age of a renewal counts it."""
        self._grading.paused(pause)

    def observe(self, fact: AnyFact) -> list[Verdict]:
        """What can be said now: of this fact, of those it explains, and of what time has brought before it.

        Its own request is in flight until then: a lapse that it may explain has waited for it.
        """
        if fact.place not in self.waiting and (healthy := self._lane.hear(fact, self._unsure_until)) is not None:
            return [healthy]
        verdicts = self.tick(fact.window.closed) + self._caught_up(fact)
        flight = self._flights.arrive(fact.place)
        match fact:
            case Nothing() | Untouched() | Met():
                verdicts.append(Verdict(fact, None, at=fact.window.closed))
            case LockFact():
                verdicts += self._account(fact, fact.window.opened if flight is None else flight.opened)
            case Wiped():
                verdicts += self._wipe(fact)
            case Sighted():
                verdicts.append(self._sighted(fact))
            case Blinded():
                verdicts += self._blinded(fact)
            case PerhapsGranted():
                verdicts += self._perhaps_granted(fact)
            case _:
                assert_never(fact)
        return verdicts + self._resolve(fact.place, fact.window.closed)

    # ---------------------------------------------------------------- the question

    def judge(self, intent: AnyIntent, now: Instant) -> Verdict:
        """What would be found if Redis granted the request at this instant. Changes nothing."""
        place, queue, window = intent.place, intent.queue, Window(now, now)
        if not isinstance(intent, LockIntent):
            return Verdict(Nothing(place, window, queue), None, at=now)
        fact = Released(place, window, intent.lock, queue, intent.token)
        worlds = (World(),) if (account := self._accounts.get(intent.lock)) is None else account.ends
        (finding,) = weigh(worlds, [Heard(fact, now)]).findings
        return Verdict(fact, finding, scope=self._scope(finding), at=now)

    # ---------------------------------------------------------------- time

    def tick(self, now: Instant) -> list[Verdict]:
        """Lapses whose bound has passed, once each; then call again at `next_deadline()`."""
        verdicts: list[Verdict] = []
        for _ in range(TICK_MAX):
            if (lock := self._deadlines.take(now)) is None:
                break
            if (account := self._accounts.get(lock)) is not None:
                self._due(account, now, verdicts)
        return verdicts

    def _caught_up(self, fact: AnyFact) -> list[Verdict]:
        """A tick stops at so many: what time has brought before a fact is told before it all the same."""
        verdicts: list[Verdict] = []
        now, due = fact.window.closed, self._deadlines.first()
        if due is None or due > now:
            return verdicts
        if not isinstance(fact, LockFact):
            while more := self.tick(now):
                verdicts += more
        elif (account := self._accounts.get(fact.lock)) is not None:
            self._due(account, now, verdicts)
        return verdicts

    def _due(self, account: Account, now: Instant, verdicts: list[Verdict]) -> None:
        """An account's time has come: its lapse, its being forgotten, or nothing yet."""
        if (gone := account.lapses_at) is not None:
            if gone <= now and not account.lapse_waits:
                account.lapse_waits = self._wait(account, gone)
                if not account.lapse_waits:
                    verdicts.append(account.lapse(sure=not self._blind))
                    self._accounts.note_speakers(account)
        elif account.forget_at <= now and account.pending:  # an answer is still out, after all that time
            self._deadlines.no_later(account.lock, now + RETENTION_NS_MIN)
            return
        elif account.forget_at <= now:
            over = account.end_all()
            self._accounts.drop(account)
            self._deadlines.drop(account.lock)
            nothing = Nothing(Place(0, 0), Window(now, now), account.queue)
            verdicts += [Verdict(nothing, None, over=(attempt,), at=now) for attempt in over]
            return
        self._arm(account)

    # ---------------------------------------------------------------- one lock

    def _account(self, fact: AnyLockFact, sent: Instant) -> list[Verdict]:
        if self._accounts.is_no_news(fact, self._flights):
            return [Verdict(fact, Finding.UNWITNESSED, at=fact.window.closed)]
        account, evicted = self._accounts.open(fact.lock, fact.queue)
        verdicts: list[Verdict] = []
        if evicted is not None:
            self._deadlines.drop(evicted.lock)
            verdicts = evicted.give_up(self._grading)
        waits = self._wait(account, fact.window.closed, fact.place.conn)
        heard = account.hear(Heard(fact, sent), waits, self._grading, self._unsure_until)
        return verdicts + self._heard(account, heard)

    def _wait(self, account: Account, before: Instant, conn: int | None = None) -> set[Place]:
        """What an account has to wait for: it is told when each of them is answered."""
        waits = self._flights.bearing_on(account.lock, account.queue, before, conn)
        for place in waits:
            self.waiting.setdefault(place, {})[account.lock] = None
        return waits

    def _resolve(self, place: Place, now: Instant) -> list[Verdict]:
        """A request is out no more: those who waited for it may have something to say."""
        verdicts: list[Verdict] = []
        for lock in self.waiting.pop(place, ()):
            account = self._accounts.get(lock)
            if account is None:
                continue
            if account.answered(place):
                verdicts += self._heard(account, account.review(self._grading))
            if place in account.lapse_waits:
                account.lapse_waits.discard(place)
                if not account.lapse_waits:
                    self._due(account, now, verdicts)
        return verdicts

    def _heard(self, account: Account, verdicts: list[Verdict]) -> list[Verdict]:
        """After facts: who speaks for the lock now, when it is due, and how far what was said can be claimed."""
        self._accounts.note_speakers(account)
        self._arm(account)
        return [self._scoped(verdict) for verdict in verdicts]

    def _scoped(self, verdict: Verdict) -> Verdict:
        if verdict.finding is Finding.SOUND:  # nearly every one
            return verdict
        scope = self._scope(verdict.finding)
        return verdict if scope is None else replace(verdict, scope=scope)

    def _scope(self, finding: Finding | None) -> str | None:
        """How far an accusation of anybody but the speaker can be claimed."""
        if finding is None or finding.suspects not in {Suspect.BYPASSER, Suspect.CLOCK}:
            return None
        return "whole" if self._sole_path and not self._blind else "here"

    # ---------------------------------------------------------------- many locks

    def _wipe(self, fact: Wiped) -> list[Verdict]:
        verdicts, over = self._unsure(hit := self._accounts.hit_by(fact), fact), []
        for account in hit:
            over += account.wipe(fact.window)
            self._accounts.note_speakers(account)
            self._arm(account)
        return [*verdicts, Verdict(fact, None, over=tuple(over), at=fact.window.closed)]

    def _unsure(self, accounts: Iterable[Account], fact: AnyFact) -> list[Verdict]:
        """No order can be weighed with it: what is not settled, and what comes late, claims nothing."""
        self._unsure_until = max(self._unsure_until, fact.window.closed)
        given_up = [(a, a.give_up(self._grading)) for a in accounts if a.pending]
        return [verdict for account, said in given_up for verdict in self._heard(account, said)]

    def _sighted(self, fact: Sighted) -> Verdict:
        """A connection closed: attempts past their deadline that it spoke for are over, others when they lapse."""
        self._blind.discard(conn := fact.place.conn)
        over = [a for account in self._accounts.spoken_for_by(conn) for a in account.story.desert(conn, fact.window)]
        self._accounts.hang_up(conn)
        return Verdict(fact, None, over=tuple(over), at=fact.window.closed)

    def _blinded(self, fact: Blinded) -> list[Verdict]:
        """From here on its renewals and releases are unseen: nothing is sure of the locks it spoke for."""
        self._blind.add(fact.place.conn)
        verdicts = self._unsure(accounts := self._accounts.spoken_for_by(fact.place.conn), fact)
        for account in accounts:
            account.doubt([World(past=world.past) for world in account.ends])
            self._arm(account)
        return [*verdicts, Verdict(fact, None, at=fact.window.closed)]

    def _perhaps_granted(self, fact: PerhapsGranted) -> list[Verdict]:
        """It may have granted any waiting job of its queue: each lock that need not have lived may have this holder.
        After a call that could not be read, of no lock of its queue is known what it was."""
        verdicts = self._unsure(accounts := [a for a in self._accounts if a.queue == fact.queue], fact)
        for account in accounts:
            closed, anything = fact.window.closed, fact.anything
            lost = [w for w in account.ends if anything or w.state(closed) is not LeaseState.HELD]
            ttl_ms = fact.ttl_ms
            maybe = [World(past=w.past) if ttl_ms is None else w.held(fact.token, fact.window, ttl_ms) for w in lost]
            account.doubt(maybe)
            self._arm(account)
        return [*verdicts, Verdict(fact, None, at=fact.window.closed)]

    def _arm(self, account: Account) -> None:
        """Due at its lapse, if one is to be told by time; else when it is to be forgotten."""
        lapses_at = account.lapses_at
        if lapses_at is None:
            self._deadlines.no_later(account.lock, account.forget_at)
        elif not account.lapse_waits:
            self._deadlines.no_later(account.lock, lapses_at)
