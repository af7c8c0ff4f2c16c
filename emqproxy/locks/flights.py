"""What has been asked and not been answered: a fact is never judged as if these did not exist."""

from __future__ import annotations

from typing import NamedTuple

from emqproxy.locks.events import AnyIntent, Instant, Lock, LockIntent, Place, Release


class Flight(NamedTuple):
    """A request that is out."""

    intent: AnyIntent
    opened: Instant


class Flights:
    """Requests in flight, by place and by lock."""

    def __init__(self) -> None:
        self._flights: dict[Place, Flight] = {}
        self._of_lock: dict[Lock, dict[Place, Flight]] = {}
        """Every entry is one of `_flights`; a lock without any has no entry."""

    def __len__(self) -> int:
        return len(self._flights)

    def depart(self, intent: AnyIntent, opened: Instant) -> None:
        """A request was sent. A second one from the same place stands for the first."""
        self.arrive(intent.place)
        flight = self._flights[intent.place] = Flight(intent, opened)
        if isinstance(intent, LockIntent):
            self._of_lock.setdefault(intent.lock, {})[intent.place] = flight

    def arrive(self, place: Place) -> Flight | None:
        """Its answer is known, or never will be. None: nothing was asked from there."""
        flight = self._flights.pop(place, None)
        if flight is not None and isinstance(flight.intent, LockIntent):
            of_lock = self._of_lock[flight.intent.lock]
            del of_lock[place]
            if not of_lock:
                del self._of_lock[flight.intent.lock]
        return flight

    def opened_before(self, lock: Lock, at: Instant) -> bool:
        """Whether a request on this lock is out that was sent before an instant."""
        of_lock = self._of_lock.get(lock)
        return of_lock is not None and any(flight.opened < at for flight in of_lock.values())

    def releasing(self, lock: Lock, token: bytes, conn: int, at: Instant) -> bool:
        """Whether this token has a release of this lock out that was sent before an instant, and that may have run
        before what connection `conn` has just been answered: its own requests run in order, so it is on another."""
        return any(
            isinstance(flight.intent, Release)
            and flight.intent.token == token
            and flight.intent.place.conn != conn
            and flight.opened < at
            for flight in self._of_lock.get(lock, {}).values()
        )
