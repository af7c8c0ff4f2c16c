"""The story of one lock: its attempts, from each one's beginning to its end, as they are told.

One begins with each grant, or with the first proof of a holding whose grant was not seen; each ends once.
"""

from __future__ import annotations

import msgspec

from emqproxy.locks.events import Granted, Lock, Queue, Renewed, Window
from emqproxy.locks.verdicts import Attempt, End, Grade
from emqproxy.locks.worlds import PAST_MAX

_LATE = frozenset({Grade.LATE, Grade.CRITICAL})


class Telling(msgspec.Struct, eq=False, gc=False):
    """An attempt that is open."""

    attempt: Attempt
    deserted: bool = False
    """The connection that spoke for it last is closed."""
    perhaps_left: bool = False
    """It was sent a finish or a move whose answer was not read: it may have given the lock back."""
    over: bool = False
    """Told to be over, and still the holder: lapsed with nobody left to speak for it."""


class Story(msgspec.Struct, eq=False, gc=False):
    """The attempts on one lock."""

    lock: Lock
    queue: Queue
    open: dict[bytes, Telling] = msgspec.field(default_factory=dict)
    """By token: the attempts that are open; nearly always one or none."""
    past: dict[bytes, Attempt] = msgspec.field(default_factory=dict)
    """By token: the last attempt that ended; at most PAST_MAX."""
    taken: dict[bytes, int] = msgspec.field(default_factory=dict)
    """By token: how often it took this job; at most PAST_MAX."""

    def begin(self, fact: Granted | Renewed, *, partial: bool) -> None:
        """An attempt begins, the next of its token."""
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

    def renewed(self, fact: Renewed, grade: Grade | None) -> bool:
        """A success belongs to the attempt of its token; False: there is none that is open."""
        telling = self.open.get(fact.token)
        if telling is None:
            return False
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
        return True

    def is_past(self, fact: Renewed) -> bool:
        """Whether a success can have come before its token's last attempt ended: then it begins no other."""
        past = self.past.get(fact.token)
        return past is not None and past.ended is not None and fact.window.opened <= past.ended.closed

    def refused(self, token: bytes) -> None:
        """A renewal of an open attempt was refused."""
        if (telling := self.open.get(token)) is not None:
            telling.attempt = msgspec.structs.replace(telling.attempt, refused=telling.attempt.refused + 1)

    def perhaps_left(self, token: bytes) -> None:
        """An open attempt may have given the lock back."""
        if (telling := self.open.get(token)) is not None:
            telling.perhaps_left = True

    def of(self, token: bytes) -> Attempt | None:
        """The token's attempt, open or the last that ended."""
        telling = self.open.get(token)
        return telling.attempt if telling is not None else self.past.get(token)

    def close(self, token: bytes, end: End, window: Window) -> Attempt | None:
        """Ends an open attempt; None where it had been told to be over before."""
        telling = self.open.pop(token)
        if telling.perhaps_left and end in {End.LAPSED, End.WIPED}:
            end = End.RELEASED  # nobody can know: the kinder word
        attempt = telling.attempt if telling.over else msgspec.structs.replace(telling.attempt, end=end, ended=window)
        self.past.pop(token, None)
        self.past[token] = attempt
        _bound(self.past)
        return None if telling.over else attempt

    def close_all(self, ends: dict[bytes, End], window: Window) -> list[Attempt]:
        """Ends every open attempt of these tokens; those that are told to be over only now."""
        closed = [self.close(token, end, window) for token, end in ends.items()]
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


def _bound(of: dict[bytes, int] | dict[bytes, Attempt]) -> None:
    while len(of) > PAST_MAX:
        del of[next(iter(of))]
