"""What a ledger says of a recorded history, and which of it is untrue.

A history is what reached the ledger: requests, facts and the instants at which it was looked at. The same history can
be told to another ledger, or to one that is looked at other instants.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import NamedTuple

from emqproxy.locks.events import (
    AnyFact,
    AnyIntent,
    Granted,
    HeldByOther,
    Instant,
    Lapsed,
    Lock,
    LockFact,
    NotMine,
    Perhaps,
    Place,
    Released,
    Renewed,
    Window,
)
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade, Suspect, Verdict
from tests.locks.monitored import MS, Holding

LATER_NS = 40_000 * MS
"""After the last fact: every lock of a history has ended by then."""
NEAR_NS = MS
"""Redis's expiry is in whole milliseconds."""


class Event(NamedTuple):
    """Something that reached the ledger."""

    at: Instant
    what: AnyIntent | AnyFact | None
    """A request that is about to be sent, a fact, or None: it was looked at."""


class Told(NamedTuple):
    """What a ledger made of a history."""

    verdicts: list[Verdict]
    open: tuple[Attempt, ...]


def tell(ledger: LockLedger, events: list[Event], chance: random.Random | None = None) -> Told:
    """The history, told to a ledger. With `chance` it is looked at other instants than it was."""
    verdicts: list[Verdict] = []
    for event, after in zip(events, [*events[1:], Event(events[-1].at + LATER_NS, None)], strict=True):
        if isinstance(event.what, LockFact) or hasattr(event.what, "window"):
            verdicts += ledger.observe(event.what)  # type: ignore[arg-type]
        elif event.what is not None:
            ledger.asked(event.what, event.at)  # type: ignore[arg-type]
        elif chance is None:
            verdicts += ledger.tick(event.at)
        if chance is not None:
            looks = sorted(chance.randint(event.at, after.at) for _ in range(chance.choice((0, 0, 1, 3))))
            for now in looks:
                verdicts += ledger.tick(now)
    verdicts += ledger.tick(events[-1].at + LATER_NS)
    return Told(verdicts, ledger.open_attempts())


class Truth:
    """What really happened to the locks of one queue, and when each request was sent."""

    def __init__(self, held: dict[bytes, list[Holding]], sent: dict[Place, Instant], events: list[Event]) -> None:
        self.held, self.sent = held, sent
        self._unheard = {
            (e.what.lock, e.what.token) for e in events if isinstance(e.what, Perhaps) and e.what.ttl_ms is None
        }
        self._proofs: dict[tuple[Lock, bytes], list[Window]] = defaultdict(list)
        for event in events:
            if isinstance(event.what, (Granted, Renewed)):
                self._proofs[event.what.lock, event.what.token].append(event.what.window)

    def of(self, lock: Lock, token: bytes) -> list[Holding]:
        return [holding for holding in self.held.get(lock.key, ()) if holding.token == token]

    def sent_at(self, fact: AnyFact) -> Instant:
        return self.sent[fact.place._replace(part=0)]

    def unheard(self, lock: Lock, token: bytes) -> bool:
        """Whether a finish or move of the token was never answered."""
        return (lock, token) in self._unheard

    def set_by(self, lock: Lock, token: bytes) -> Instant:
        """When the request was sent that set the lock for this token last."""
        last = max((at for h in self.of(lock, token) for at in h.sets), default=0)
        windows = [w for w in self._proofs[lock, token] if w.opened - NEAR_NS <= last <= w.closed + NEAR_NS]
        return min((w.opened for w in windows), default=last)

    def lost_before(self, lock: Lock, token: bytes, at: Instant) -> list[Holding] | None:
        """The token's holdings that were over at an instant; None where it held the lock then or never had before."""
        mine = [holding for holding in self.of(lock, token) if holding.sets[0] < at]
        return mine if mine and all(holding.ended <= at for holding in mine) else None


def untruths(told: Told, truth: Truth) -> list[str]:
    """Everything that was said and is not so."""
    found = [f"{why}: {verdict}" for verdict in told.verdicts for why in _untrue(verdict, truth)]
    return found + _unconserved(told)


def _untrue(verdict: Verdict, truth: Truth) -> list[str]:
    fact, finding = verdict.fact, verdict.finding
    found: list[str] = []
    if finding is not None and finding.suspects in {Suspect.BYPASSER, Suspect.CLOCK}:
        found.append(f"accused: {finding.word}")
    if isinstance(fact, Lapsed):
        expired = [h.ended for h in truth.of(fact.lock, fact.token) if h.how == "expired"]
        if not any(fact.window.opened - NEAR_NS <= at <= fact.window.closed + NEAR_NS for at in expired):
            found.append(f"no such lapse, in truth {truth.of(fact.lock, fact.token)}")
    elif isinstance(fact, LockFact):
        sent = truth.sent_at(fact)
        lost = truth.lost_before(fact.lock, fact.token, sent)
        if finding is Finding.STRAGGLER and (lost is None or lost[-1].how == "deleted"):
            found.append(f"no straggler, sent at {sent}, in truth {truth.of(fact.lock, fact.token)}")
        if verdict.grade is Grade.TOO_LATE and not _too_late(fact, sent, truth):
            found.append(f"not too late, sent at {sent}, in truth {truth.of(fact.lock, fact.token)}")
        if verdict.grade in {Grade.LATE, Grade.CRITICAL}:
            assert isinstance(fact, Renewed)
            sets = [at for h in truth.of(fact.lock, fact.token) for at in h.sets if at <= sent]
            if not sets or sent - max(sets) < 0.6 * fact.ttl_ms * MS:
                found.append(f"not that late, sent at {sent}, in truth {truth.of(fact.lock, fact.token)}")
    return found + [why for attempt in verdict.over for why in _untrue_end(attempt, truth)]


def _too_late(fact: LockFact, sent: Instant, truth: Truth) -> bool:
    """It was sent past the bound up to which the lock was certainly alive, and time had ended it when it ran."""
    assert isinstance(fact, NotMine)
    assert fact.ttl_ms is not None
    before = [h for h in truth.of(fact.lock, fact.token) if h.sets[0] <= fact.window.closed]
    expired = bool(before) and before[-1].how != "deleted" and before[-1].ended <= fact.window.closed + NEAR_NS
    return expired and sent >= truth.set_by(fact.lock, fact.token) + fact.ttl_ms * MS


def _untrue_end(attempt: Attempt, truth: Truth) -> list[str]:
    """An attempt's end is how a holding of its token can be heard to have ended, not before the attempt began."""
    after = [h for h in truth.of(attempt.lock, attempt.token) if h.ended >= attempt.started.opened]
    ways = {
        End.RELEASED: {"deleted"},
        # What proves the end may be read before the holder's own finish is: it ends by what was heard first.
        End.REAPED: {"expired", "deleted"},
        End.LAPSED: {"expired", "deleted"},
        End.SUPERSEDED: {"expired", "taken", "deleted"},
        # Past six facts at once its bounds are not known: that it expired cannot be told from its going early.
        End.WIPED: {"expired"},
    }
    assert attempt.end is not None
    if truth.unheard(attempt.lock, attempt.token) and attempt.end is not End.WIPED:
        return []  # whether its finish came in time nobody can know: the kinder word will do, and what was seen will
    return [] if any(h.how in ways[attempt.end] for h in after) else [f"no {attempt.end.value}, in truth {after}"]


def _unconserved(told: Told) -> list[str]:
    """Law 6: each grant begins one attempt, and each attempt ends once or is open."""
    named = {_name(v.attempt) for v in told.verdicts if v.attempt is not None}
    ended = Counter(_name(attempt) for v in told.verdicts for attempt in v.over)
    still = Counter(_name(attempt) for attempt in told.open)
    begun = {name for name in named | set(ended) | set(still) if not name[-1]}
    grants = sum(isinstance(v.fact, Granted) for v in told.verdicts)
    found = [f"an attempt ended {times} times: {name}" for name, times in ended.items() if times > 1]
    found += [f"ended and still open: {name}" for name in ended if name in still]
    found += [f"neither ended nor open: {name}" for name in named if name not in ended and name not in still]
    if len(begun) != grants:
        found.append(f"{grants} grants and {len(begun)} attempts that began with one")
    return found


def _name(attempt: Attempt) -> tuple[object, ...]:
    return attempt.lock, attempt.token, attempt.number, attempt.started, attempt.partial


def incomplete(events: list[Event], truth: Truth) -> list[str]:
    """The truth is whole: each success that was answered has its write inside its Window, and nothing else has one."""
    found = []
    for event in events:
        fact = event.what
        if isinstance(fact, (Granted, Renewed)):
            sets = [at for h in truth.of(fact.lock, fact.token) for at in h.sets]
            if not any(fact.window.opened - NEAR_NS <= at <= fact.window.closed + NEAR_NS for at in sets):
                found.append(f"no write of {fact} in {truth.of(fact.lock, fact.token)}")
        elif isinstance(fact, Released):
            if not any(
                h.how == "deleted" and h.ended <= fact.window.closed + NEAR_NS for h in truth.of(fact.lock, fact.token)
            ):
                found.append(f"no deletion of {fact} in {truth.of(fact.lock, fact.token)}")
        elif isinstance(fact, (NotMine, HeldByOther)):
            whole = [
                h
                for h in truth.of(fact.lock, fact.token)
                if h.sets[0] < fact.window.opened and h.ended - NEAR_NS > fact.window.closed
            ]
            if whole:
                found.append(f"{fact}, and it held throughout: {whole}")
    return found
