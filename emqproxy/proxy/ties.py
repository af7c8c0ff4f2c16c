"""How many connections to Redis stand, and the moment in which Redis has ended the last of them.

A Redis that was killed, restarted or has given its place to another lets go of all at once, and when it answers again
it may have lost what it had. One client that is thrown out says nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Callable


class Ties:
    """Counts; `lost` is called when Redis has ended the last connection."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self.count = 0

    def made(self) -> None:
        """A client is connected to Redis."""
        self.count += 1

    def gone(self, *, by_redis: bool) -> None:
        """One is over; `by_redis`: not because its client had gone."""
        self.count -= 1
        if by_redis and not self.count:
            self._lost()
