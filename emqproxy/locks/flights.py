"""What has been asked and not been answered: a fact is never judged as if these did not exist.

A request on a named lock bears on that lock; a pickup, a fetch-next or a sweep bears on every lock of its queue; what
wipes a database bears on all.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from emqproxy.locks.events import AnyIntent, Instant, Lock, LockIntent, Place, Queue, Wipe

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
        self._over: dict[Lock | Queue, dict[Place, Instant]] = {}
        """Every entry is one of `_flights`; a lock or queue without any has no entry."""

    def __len__(self) -> int:
        return len(self._flights)

    def depart(self, intent: AnyIntent, opened: Instant) -> None:
        """A request was sent. A second one from the same place stands for the first."""
        self.arrive(intent.place)
        self._flights[intent.place] = Flight(intent, opened)
        self._over.setdefault(_reach(intent), {})[intent.place] = opened

    def arrive(self, place: Place) -> Flight | None:
        """Its answer is known, or never will be. None: nothing was asked from there."""
        flight = self._flights.pop(place, None)
        if flight is not None:
            reach = _reach(flight.intent)
            over = self._over[reach]
            del over[place]
            if not over:
                del self._over[reach]
        return flight

    def bearing_on(self, lock: Lock, queue: Queue, before: Instant) -> set[Place]:
        """Requests that are out, were sent before an instant, and may bear on a lock."""
        over = self._over
        if not over:
            return set()
        return {
            place
            for reach in (lock, queue, EVERYTHING)
            if reach in over
            for place, opened in over[reach].items()
            if opened < before
        }


def _reach(intent: AnyIntent) -> Lock | Queue:
    if isinstance(intent, Wipe):
        return EVERYTHING
    return intent.lock if isinstance(intent, LockIntent) else intent.queue
