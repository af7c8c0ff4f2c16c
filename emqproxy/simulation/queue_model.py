"""What Redis keeps of one job, and what the scripts make of it. No judge: it answers as Redis would, and no more.

The lock is a key with a time to live. Stalls are found in two passes: a sweep marks every active job, a renewal takes
its job's mark away, and the next sweep puts back what is still marked and has no lock; past the limit it notes a
deferred failure first. Source: `lua/moveStalledJobsToWait-8.lua`, `lua/extendLock-2.lua`, `lua/includes/pickup.lua`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Swept(enum.Enum):
    """What a sweep did with the job."""

    NOTHING = "nothing"
    """It was not active."""
    MARKED = "marked"
    RECOVERED = "recovered"
    """Put back to wait."""
    OVER_LIMIT = "over_limit"
    """Put back, and to be failed by whoever takes it next."""


@dataclass
class QueuedJob:
    """One job. Times are milliseconds; `now_ms` never runs backwards."""

    max_stalled: int
    token: bytes = b""
    """Whose the lock was last."""
    lock_until_ms: int = -1
    """At this instant it lives still: a renewal that comes just as the lock ends is in time, as the documents say."""
    active: bool = False
    marked: bool = False
    stalls: int = 0
    deferred_failure: bool = False

    def is_locked(self, now_ms: int) -> bool:
        return now_ms <= self.lock_until_ms

    def take(self, token: bytes, ttl_ms: int, now_ms: int) -> None:
        """A pickup: it has no need of the lock to be free."""
        self.token, self.lock_until_ms, self.active = token, now_ms + ttl_ms, True

    def renew(self, token: bytes, ttl_ms: int, now_ms: int) -> bool:
        """Whether the lock is this token's, and now renewed."""
        if not self.is_locked(now_ms) or token != self.token:
            return False
        self.lock_until_ms = now_ms + ttl_ms
        self.marked = False
        return True

    def sweep(self, now_ms: int) -> Swept:
        """One pass."""
        swept = Swept.NOTHING
        if self.marked and self.active and not self.is_locked(now_ms):
            self.active = False
            self.stalls += 1
            self.deferred_failure = self.deferred_failure or self.stalls > self.max_stalled
            swept = Swept.OVER_LIMIT if self.deferred_failure else Swept.RECOVERED
        self.marked = self.active
        return Swept.MARKED if self.marked else swept

    def finish(self) -> None:
        """Its holder fails or completes it: the lock goes, and it is active no more."""
        self.lock_until_ms, self.active, self.marked = -1, False, False
