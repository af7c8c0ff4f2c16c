"""What has been asked and not been answered: a fact is never judged as if these did not exist."""

from __future__ import annotations

from emqproxy.locks.events import AnyIntent, Instant, Lock, LockIntent, Place


class Flights:
    """Requests in flight, by place and by lock."""

    def __init__(self) -> None:
        self._intents: dict[Place, tuple[AnyIntent, Instant]] = {}
        self._of_lock: dict[Lock, dict[Place, Instant]] = {}
        """Every entry has one in `_intents`; a lock without any has no entry."""

    def __len__(self) -> int:
        return len(self._intents)

    def depart(self, intent: AnyIntent, opened: Instant) -> None:
        """A request was sent."""
        self._intents[intent.place] = (intent, opened)
        if isinstance(intent, LockIntent):
            self._of_lock.setdefault(intent.lock, {})[intent.place] = opened

    def arrive(self, place: Place) -> Instant | None:
        """Its answer is known, or never will be: when it was sent. None: nothing was asked from there."""
        found = self._intents.pop(place, None)
        if found is None:
            return None
        intent, opened = found
        if isinstance(intent, LockIntent):
            of_lock = self._of_lock[intent.lock]
            del of_lock[place]
            if not of_lock:
                del self._of_lock[intent.lock]
        return opened

    def opened_before(self, lock: Lock, at: Instant) -> bool:
        """Whether a request on this lock is out that was sent before an instant."""
        of_lock = self._of_lock.get(lock)
        return of_lock is not None and any(opened < at for opened in of_lock.values())
