"""The figures of a fact as they stood when its request was sent, a renewal's grade, and how a holding ended.

Of one world: `before` is what the fact found in the order that was chosen for it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from emqproxy.locks.events import (
    Absent,
    Deleted,
    Granted,
    HeldByOther,
    Instant,
    LockFact,
    NotMine,
    Released,
    Renewed,
    Window,
)
from emqproxy.locks.verdicts import End, Grade
from emqproxy.locks.worlds import MS, Past, World


class Figures(NamedTuple):
    """As they stood before the fact; None where there is nothing to measure from."""

    age_ms: float | None
    remaining_ms: float | None
    grade: Grade | None
    """Of renewals only."""


_ON_TIME, _LATE, _CRITICAL = Grade.ON_TIME, Grade.LATE, Grade.CRITICAL

PAUSES_MAX: Final = 256
"""Our own pauses that are remembered at least: of the longest lock, the last ones are what matters."""


class Grading:
    """The thresholds, as shares of the lock's time to live; and our own pauses, which are no worker's fault."""

    def __init__(self, late: float, critical: float) -> None:
        self.late, self.critical = late, critical
        self._opened: list[Instant] = []
        self._closed: list[Instant] = []
        self._before: list[int] = []
        """Our own pauses in the order in which they were, and how much of them came before each: looked up for every
        fact, and on a busy machine there are hundreds."""

    def paused(self, pause: Window) -> None:
        """We stood still: what a worker asked or was to hear meanwhile waited for us."""
        opened, closed, before = self._opened, self._closed, self._before
        begin = max(pause.opened, closed[-1]) if closed else pause.opened
        if begin >= pause.closed:
            return
        before.append(before[-1] + closed[-1] - opened[-1] if closed else 0)
        opened.append(begin)
        closed.append(pause.closed)
        if len(opened) > 2 * PAUSES_MAX:
            del opened[:PAUSES_MAX], closed[:PAUSES_MAX], before[:PAUSES_MAX]

    def own_lag_ns(self, begin: Instant, end: Instant) -> int:
        """How much of a time we stood still."""
        closed = self._closed
        if not closed or closed[-1] <= begin:
            return 0
        return self._stood_still(end) - self._stood_still(begin)

    def _stood_still(self, until: Instant) -> int:
        at = bisect_right(self._opened, until) - 1
        return 0 if at < 0 else self._before[at] + min(until, self._closed[at]) - self._opened[at]

    def figures(self, before: World, fact: LockFact, sent: Instant) -> Figures:
        """Of the speaker's own holding, now or before."""
        grades = isinstance(fact, Renewed) or (isinstance(fact, NotMine) and fact.renewal)
        last = before.last_of(fact.token) if fact.token else None
        if last is None or last.left or isinstance(fact, Granted):
            return Figures(None, None, Grade.UNKNOWN if grades else None)
        age_ms = self.age_ms(last.proved.closed, sent)
        holds = before.holder == fact.token
        grade = self._grade(last, fact, age_ms, sent, holds=holds) if grades else None
        return Figures(age_ms, last.ttl_ms - age_ms, grade)

    def held_renewal(self, proved: Instant, ttl_ms: int, sent: Instant) -> tuple[float, Grade]:
        """Age and grade of a success by the holder, which proved last that it held at `proved`."""
        age_ms = self.age_ms(proved, sent)
        return age_ms, self._in_time(age_ms, ttl_ms)

    def _in_time(self, age_ms: float, ttl_ms: int) -> Grade:
        if age_ms < self.late * ttl_ms:
            return _ON_TIME
        return _LATE if age_ms < self.critical * ttl_ms else _CRITICAL

    def age_ms(self, proved: Instant, sent: Instant) -> float:
        """From the last proof of holding to a request's sending, less our own pauses in it."""
        return max(0.0, (sent - proved - self.own_lag_ns(proved, sent)) / MS)

    def _grade(self, last: Past, fact: LockFact, age_ms: float, sent: Instant, *, holds: bool) -> Grade:
        if isinstance(fact, NotMine):
            return Grade.TOO_LATE if sent >= last.proved.opened + last.ttl_ms * MS else Grade.UNKNOWN
        if not holds:
            return Grade.UNKNOWN
        return self._in_time(age_ms, last.ttl_ms)


def end_by(fact: LockFact, world: World, token: bytes) -> End:
    """How a token's holding ended, by the fact that took it and the world that fact found."""
    last = world.last_of(token)
    if world.holder != token and last is not None and last.left:
        return End.RELEASED  # before the fact: by a finish whose answer was not read
    if isinstance(fact, Released):
        return End.RELEASED if fact.token == token else End.SUPERSEDED
    if isinstance(fact, (Granted, Renewed, HeldByOther)):
        return End.SUPERSEDED
    if isinstance(fact, Absent) and fact.swept:
        return End.REAPED
    if world.holder not in {None, token}:
        return End.SUPERSEDED  # before the fact, too
    alive_until = 0 if last is None else world.alive_until if world.holder == token else last.alive_until
    return End.LAPSED if fact.window.closed >= alive_until else End.WIPED


def takes(fact: LockFact, token: bytes) -> bool:
    """Whether a fact proves that a token does not hold the lock, whatever was before."""
    if isinstance(fact, NotMine):
        return fact.token == token
    return isinstance(fact, (Granted, Renewed, Released, Absent, HeldByOther, Deleted))
