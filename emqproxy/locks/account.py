"""The account of one lock: what can be true of it, the facts that are not settled, and the attempts as they are told.

Two layers. `ends` are the worlds that can be true now: they judge. Attempts are the story: one begins with each grant
(or the first proof of a holding whose grant was not seen) and ends when no world has its token as the holder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from emqproxy.locks.events import Granted, Instant, Lock, NotMine, Place, Queue, Renewed, Window
from emqproxy.locks.grading import Grading, end_by
from emqproxy.locks.orders import FACTS_MAX, Heard, Meaning, clusters, weigh
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade, Suspect, Verdict
from emqproxy.locks.worlds import MS, PAST_MAX, World

RETENTION_NS_MIN: Final = 60_000 * MS
"""An account is kept for twice this, or twice its time to live, after it was last heard of."""
_HARMLESS = frozenset({None, Grade.ON_TIME, Grade.UNKNOWN})
_LATE = frozenset({Grade.LATE, Grade.CRITICAL})


class Pending(msgspec.Struct, eq=False):
    """A fact that something still unanswered may explain."""

    heard: Heard
    waits: set[Place]
    """Requests that were out when it was observed, had been sent before it was closed, and may bear on its lock."""
    said: bool = False


class Telling(msgspec.Struct, eq=False):
    """An attempt that is open."""

    attempt: Attempt
    deserted: bool = False
    """The connection that spoke for it last is closed."""
    over: bool = False
    """Told to be over, and still the holder: lapsed with nobody left to speak for it."""


class Account(msgspec.Struct, eq=False):
    """One lock. Facts come in by `hear`; `review` says what can be said, in the order in which it happened."""

    lock: Lock
    queue: Queue
    settled: tuple[World, ...] = (World(),)
    """What can have been true before the pending facts."""
    ends: tuple[World, ...] = (World(),)
    """What can be true after them."""
    pending: list[Pending] = msgspec.field(default_factory=list)
    lapse_waits: set[Place] = msgspec.field(default_factory=set)
    """A lapse is due and waits for these."""
    open: dict[bytes, Telling] = msgspec.field(default_factory=dict)
    """By token: the attempts that are open; nearly always one or none."""
    past: dict[bytes, Attempt] = msgspec.field(default_factory=dict)
    """By token: the last attempt that ended; at most PAST_MAX."""
    taken: dict[bytes, int] = msgspec.field(default_factory=dict)
    """By token: how often it took this job; at most PAST_MAX."""
    heard_at: Instant = 0
    """When the last fact was closed."""

    # ---------------------------------------------------------------- getters

    @property
    def sure_holder(self) -> bytes | None:
        """The token that holds the lock in every world."""
        holder = self.ends[0].holder
        return holder if all(world.holder == holder for world in self.ends) else None

    @property
    def lapses_at(self) -> Instant | None:
        """When its lapse is to be told, if time brings nothing else; None where none is to be told."""
        holder = self.sure_holder
        telling = self.open.get(holder) if holder is not None else None
        if telling is None or telling.attempt.lapsed:
            return None
        return max(world.gone_after for world in self.ends)

    @property
    def forget_at(self) -> Instant:
        """When nobody will ask for it any more."""
        since = max(self.heard_at, *(world.gone_after for world in self.ends))
        return since + 2 * max(RETENTION_NS_MIN, *(world.ttl_ms * MS for world in self.ends))

    # ---------------------------------------------------------------- facts

    def hear(self, heard: Heard, waits: set[Place], grading: Grading) -> list[Verdict]:
        """A fact; what can be said now, of it and of those before it."""
        self.heard_at = max(self.heard_at, heard.fact.window.closed)
        if not self.pending and not waits:  # nearly every fact: nothing to weigh it against
            meaning = weigh(self.settled, (heard,))
            self.settled = self.ends = meaning.ends
            return [self._say(0, (heard,), meaning, grading)]
        self.pending.append(Pending(heard, waits))
        return self._give_up(grading) if len(self.pending) > FACTS_MAX else self.review(grading)

    def review(self, grading: Grading) -> list[Verdict]:
        """What can be said now; settles what nothing can change any more."""
        heard = tuple(p.heard for p in self.pending)
        meaning = weigh(self.settled, heard)
        self.ends = meaning.ends
        verdicts = []
        for i in meaning.order:
            pending = self.pending[i]
            if not pending.said and (not pending.waits or self._harmless(i, heard, meaning, grading)):
                pending.said = True
                verdicts.append(self._say(i, heard, meaning, grading))
        self._settle()
        return verdicts

    def _harmless(self, index: int, group: Sequence[Heard], meaning: Meaning, grading: Grading) -> bool:
        """Nobody is suspected, and nobody called late: nothing unanswered can make it milder."""
        fact, sent = group[index]
        grade = grading.figures(meaning.kindest[index], fact, sent).grade
        return meaning.findings[index].suspects is Suspect.NOBODY and grade in _HARMLESS

    def _settle(self) -> None:
        """Groups that wait for nothing are final, the first ones first."""
        if not any(p.waits for p in self.pending):
            self.settled, self.pending = self.ends, []
            return
        for group in clusters([p.heard for p in self.pending]):
            places = {h.fact.place for h in group}
            members = [p for p in self.pending if p.heard.fact.place in places]
            if any(p.waits or not p.said for p in members):
                return
            self.settled = weigh(self.settled, group).ends
            self.pending = [p for p in self.pending if p.heard.fact.place not in places]

    def _give_up(self, grading: Grading) -> list[Verdict]:
        """Too many facts at once: nothing is claimed of any of them, and nothing is known afterwards."""
        untold = sorted((p.heard for p in self.pending if not p.said), key=lambda heard: heard.fact.window)
        nothing = (World(),)
        self.settled = self.ends = nothing
        self.pending = []
        meaning = Meaning((Finding.DOUBTFUL,), (0,), nothing, nothing, nothing)
        return [self._say(0, (heard,), meaning, grading) for heard in untold]

    # ---------------------------------------------------------------- the story

    def _say(self, index: int, group: Sequence[Heard], meaning: Meaning, grading: Grading) -> Verdict:
        fact, sent = group[index]
        figures = grading.figures(meaning.kindest[index], fact, sent)
        over: list[Attempt] = []
        if isinstance(fact, Granted):
            if fact.token in self.open:
                attempt = self.close(fact.token, End.SUPERSEDED, fact.window)
                over += [attempt] if attempt is not None else []
            self._begin(fact, partial=False)
        elif isinstance(fact, Renewed):
            self._renewed(fact, figures.grade)
        elif isinstance(fact, NotMine) and fact.renewal and (telling := self.open.get(fact.token)) is not None:
            telling.attempt = msgspec.structs.replace(telling.attempt, refused=telling.attempt.refused + 1)
        over += self._close_unheld(index, group, meaning)
        still = self.open.get(fact.token)
        holds = all(world.holder == fact.token for world in meaning.ends)
        return Verdict(
            fact,
            meaning.findings[index],
            grade=figures.grade,
            age_ms=figures.age_ms,
            remaining_ms=figures.remaining_ms,
            ttl_ms=meaning.ends[0].ttl_ms if holds else None,
            attempt=still.attempt if still is not None else self.past.get(fact.token),
            over=tuple(over),
            at=self.heard_at,
        )

    def _begin(self, fact: Granted | Renewed, *, partial: bool) -> None:
        number = self.taken.pop(fact.token, 0)
        self.taken[fact.token] = number + 1
        _bound(self.taken)
        attempt = Attempt(
            self.lock,
            self.queue,
            fact.token,
            number,
            started=fact.window,
            partial=partial,
            conn=fact.place.conn,
            proved=fact.window,
            ttl_ms=fact.ttl_ms,
            renewals=1 if partial else 0,
            late=0,
            refused=0,
            lapsed=False,
        )
        self.open[fact.token] = Telling(attempt)

    def _renewed(self, fact: Renewed, grade: Grade | None) -> None:
        telling = self.open.get(fact.token)
        if telling is None:
            if any(w.holder == fact.token for w in self.ends):
                self._begin(fact, partial=True)
            return
        attempt = telling.attempt
        telling.deserted = False
        telling.attempt = msgspec.structs.replace(
            attempt,
            conn=fact.place.conn,
            proved=max(attempt.proved, fact.window),
            ttl_ms=fact.ttl_ms,
            renewals=attempt.renewals + 1,
            late=attempt.late + (grade in _LATE),
            lapsed=False,
        )

    def _close_unheld(self, index: int, group: Sequence[Heard], meaning: Meaning) -> list[Attempt]:
        """Attempts whose token holds the lock in no world any more."""
        over: list[Attempt] = []
        for token in [t for t in self.open if not any(world.holder == t for world in meaning.ends)]:
            taker = _taker(token, meaning)
            at = index if taker is None else taker
            attempt = self.close(token, end_by(group[at].fact, meaning.before[at], token), group[at].fact.window)
            over += [attempt] if attempt is not None else []
        return over

    def close(self, token: bytes, end: End, window: Window) -> Attempt | None:
        """Ends an attempt; None where it had been told to be over before."""
        telling = self.open.pop(token)
        attempt = telling.attempt if telling.over else msgspec.structs.replace(telling.attempt, end=end, ended=window)
        self.past.pop(token, None)
        self.past[token] = attempt
        _bound(self.past)
        return None if telling.over else attempt

    def _close_all(self, end: End, window: Window) -> list[Attempt]:
        closed = [self.close(token, end, window) for token in list(self.open)]
        return [attempt for attempt in closed if attempt is not None]

    def lapse(self, token: bytes) -> Attempt:
        """Its deadline has passed unrenewed; the attempt stays open until something proves that its holder lost."""
        telling = self.open[token]
        telling.attempt = msgspec.structs.replace(telling.attempt, lapsed=True)
        return telling.attempt

    def desert(self, conn: int, window: Window) -> list[Attempt]:
        """A connection is closed: attempts it spoke for last are over now if their deadline has passed, else then."""
        over: list[Attempt] = []
        for token, telling in self.open.items():
            if telling.attempt.conn == conn:
                telling.deserted = True
                ended = self.end_if_deserted(token, window) if telling.attempt.lapsed else None
                over += [ended] if ended is not None else []
        return over

    def end_if_deserted(self, token: bytes, window: Window) -> Attempt | None:
        """Ends the story of an attempt that has lapsed with nobody left to speak for it; the lock stands as lapsed."""
        telling = self.open[token]
        if telling.over or not telling.deserted:
            return None
        telling.over = True
        telling.attempt = msgspec.structs.replace(telling.attempt, end=End.LAPSED, ended=window)
        return telling.attempt

    def wipe(self, worlds: tuple[World, ...], end: End, window: Window) -> list[Attempt]:
        """Whatever was known is no longer: the lock went away by hand, or was forgotten."""
        self.settled = self.ends = worlds
        self.lapse_waits.clear()
        return self._close_all(end, window)

    def doubt(self, worlds: list[World]) -> None:
        """More can be true than was known."""
        self.settled = tuple(dict.fromkeys((*self.settled, *worlds)))
        self.ends = tuple(dict.fromkeys((*self.ends, *worlds)))


def _taker(token: bytes, meaning: Meaning) -> int | None:
    """Which fact took the lock from its holder, in the order chosen; None where that was before all of them."""
    for at in reversed(range(len(meaning.order))):
        i = meaning.order[at]
        after = meaning.before[meaning.order[at + 1]].holder if at + 1 < len(meaning.order) else None
        if meaning.before[i].holder == token and after != token:
            return i
    return None


def _bound(of: dict[bytes, int] | dict[bytes, Attempt]) -> None:
    while len(of) > PAST_MAX:
        del of[next(iter(of))]
