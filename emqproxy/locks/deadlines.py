"""When something must be looked at next: one instant a lock, in a heap.

A deadline is only ever moved forward: a later one finds the lock when the earlier comes, and is set again then. So a
renewal costs a look-up and no heap work, and the heap holds a small multiple of the locks, whatever is asked of it.
"""

from __future__ import annotations

import heapq
from typing import Final

from emqproxy.locks.events import Instant, Lock

STALE_MAX: Final = 1_000
"""Entries that stand for nothing any more, beyond one a lock, before the heap is built anew."""


class Deadlines:
    """The instants at which locks are due."""

    def __init__(self) -> None:
        self._at: dict[Lock, Instant] = {}
        self._heap: list[tuple[Instant, Lock]] = []
        """An entry counts only while `_at` has the same instant."""

    def __len__(self) -> int:
        return len(self._heap)

    def no_later(self, lock: Lock, at: Instant) -> None:
        """The lock is due at an instant, unless it is due before anyway."""
        armed = self._at.get(lock)
        if armed is not None and armed <= at:
            return
        self._at[lock] = at
        heapq.heappush(self._heap, (at, lock))
        if len(self._heap) > 2 * len(self._at) + STALE_MAX:
            self._heap = [(due, each) for each, due in self._at.items()]
            heapq.heapify(self._heap)

    def drop(self, lock: Lock) -> None:
        """The lock is never due."""
        self._at.pop(lock, None)

    def first(self) -> Instant | None:
        """The next instant at which a lock is due."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now: Instant) -> Lock | None:
        """A lock that is due by now, the earliest first; it is due no more."""
        at = self.first()
        if at is None or at > now:
            return None
        lock = heapq.heappop(self._heap)[1]
        del self._at[lock]
        return lock
