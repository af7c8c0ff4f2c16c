"""What has been asked and not been answered: a fact is never judged as if these did not exist.

A request on a named lock bears on that lock; a pickup, a fetch-next, a sweep or a forced obliterate bears on every lock
of its queue; what wipes a database bears on all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, assert_never

from emqproxy.locks.events import (
    AnyFact,
    AnyIntent,
    Instant,
    Lock,
    LockIntent,
    Nothing,
    Overwrite,
    Overwritten,
    Perhaps,
    PerhapsGranted,
    Place,
    Queue,
    Release,
    Remove,
    Renew,
    Sweep,
    Take,
    Window,
    Wipe,
    Wiped,
    Write,
)

EVERYTHING: Final = Queue(-1, b"")
"""Stands for all locks of all databases."""


class Flight(NamedTuple):
    """A request that is out."""

    intent: AnyIntent
    opened: Instant


class Flights:
    """Requests in flight, by place, by lock and by queue."""

    def __init__(self) -> None:
        self._flights: dict[Place, Flight] = {}
        self._over: dict[Lock | Queue, dict[int, dict[Place, Instant]]] = {}
        """By what they bear on and by connection, in the order sent; each is one of `_flights`, nothing is empty."""

    def __len__(self) -> int:
        return len(self._flights)

    def depart(self, intent: AnyIntent, opened: Instant) -> None:
        """A request was sent. A second one from the same place stands for the first. A write bears on no lock."""
        place = intent.place
        if place in self._flights:
            self.arrive(place)
        if isinstance(intent, Write):
            return
        self._flights[place] = Flight(intent, opened)
        reach, conn = _reach(intent), place.conn
        over = self._over.get(reach)
        if over is None:
            self._over[reach] = {conn: {place: opened}}
        elif conn in over:
            over[conn][place] = opened
        else:
            over[conn] = {place: opened}

    def arrive(self, place: Place) -> Flight | None:
        """Its answer is known, or never will be. None: nothing was asked from there."""
        flight = self._flights.pop(place, None)
        if flight is not None:
            reach = _reach(flight.intent)
            over = self._over[reach]
            of_conn = over[place.conn]
            del of_conn[place]
            if not of_conn:
                del over[place.conn]
                if not over:
                    del self._over[reach]
        return flight

    def sent(self, place: Place, opened: Instant) -> Instant:
        """When the request of this place was sent; `opened` if nothing was asked from there."""
        flight = self._flights.get(place)
        return opened if flight is None else flight.opened

    def only_from(self, conn: int, lock: Lock, queue: Queue) -> bool:
        """Whether nothing that is out may bear on a lock, but for what is out on this connection."""
        over = self._over
        if not over:
            return True
        for reach in (lock, queue, EVERYTHING):
            conns = over.get(reach)
            if conns is not None and (len(conns) > 1 or conn not in conns):
                return False
        return True

    def over(self, lock: Lock, queue: Queue) -> Iterator[Flight]:
        """All that is out and may bear on a lock."""
        for reach in (lock, queue, EVERYTHING):
            for of_conn in self._over.get(reach, _NONE).values():
                yield from (self._flights[place] for place in of_conn)

    def of_queue(self, queue: Queue) -> Iterator[AnyIntent]:
        """All that is out and bears on a whole queue."""
        for of_conn in self._over.get(queue, _NONE).values():
            yield from (self._flights[place].intent for place in of_conn)

    def bearing_on(self, lock: Lock, queue: Queue, before: Instant, conn: int | None = None) -> set[Place]:
        """Requests that are out, were sent before an instant, and may bear on a lock: the last of each connection.

        A connection is answered in order: when its last is, so are those before it. `conn` is the connection that was
        just answered: what else is out on it runs later, and explains nothing. So a pipeline, however deep, costs one
        look; without this, a flood of renewals of one job would take a time that grows with its square.
        """
        found: set[Place] = set()
        for reach in (lock, queue, EVERYTHING):
            for each, of_conn in self._over.get(reach, _NONE).items():
                if each != conn:
                    found.update(_last_before(of_conn, before))
        return found


_NONE: Final[dict[int, dict[Place, Instant]]] = {}


def _last_before(of_conn: dict[Place, Instant], before: Instant) -> tuple[Place, ...]:
    for place in reversed(of_conn):
        if of_conn[place] < before:
            return (place,)
    return ()


def _reach(intent: AnyIntent) -> Lock | Queue:
    if isinstance(intent, Wipe):
        return intent.queue if intent.queue.prefix else EVERYTHING
    return intent.lock if isinstance(intent, LockIntent) else intent.queue


def perhaps(intent: AnyIntent, window: Window) -> AnyFact:
    """What is proved by an answer that will never be known: the bounds widen."""
    place, queue = intent.place, intent.queue
    match intent:
        case Renew():
            return Perhaps(place, window, intent.lock, queue, intent.token, intent.ttl_ms)
        case Release():
            return Perhaps(place, window, intent.lock, queue, intent.token, None)
        case Take():
            return PerhapsGranted(place, window, queue, intent.token, intent.ttl_ms, intent.anything)
        case Overwrite():
            return Overwritten(place, window, intent.lock, queue, b"", intent.unread)
        case Wipe():
            return Wiped(place, window, queue.db if queue.prefix else None, queue.prefix)
        case Sweep() | Write() | Remove():
            return Nothing(place, window, queue)
        case _:
            assert_never(intent)
