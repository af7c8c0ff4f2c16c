"""Whether Redis throws keys away: what its INFO says of memory, heard now and then, and what that says of a time.

That keys were evicted in a time does not say which: a lock that is gone may be one of them, and no more is claimed.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from emqproxy.locks.events import Instant

POLICIES: Final = frozenset(
    (
        "noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "allkeys-lrm",
        "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "volatile-lrm",
    )
)  # fmt: skip
"""All but the first may throw away a lock: it has a time to live."""
KEPT_MAX: Final = 512


class Memory(NamedTuple):
    """What one INFO said."""

    at: Instant
    """When it was answered."""
    policy: str
    """`maxmemory_policy`"""
    maxmemory_bytes: int
    """0: as much as there is."""
    evicted_keys: int
    """Since that Redis began."""

    @property
    def evicts(self) -> bool:
        """Keys with a time to live may be thrown away."""
        return self.maxmemory_bytes > 0 and self.policy in POLICIES and self.policy != "noeviction"


class Evictions:
    """What was heard, as steps: what is as before is not kept."""

    def __init__(self) -> None:
        self._kept: deque[Memory] = deque(maxlen=KEPT_MAX)
        self._last: Memory | None = None

    def heard(self, memory: Memory) -> tuple[Memory, ...]:
        """What is new: this, and before it what was heard last; nothing where all is as it was."""
        last, self._last = self._last, memory
        if last is None or memory.evicted_keys < last.evicted_keys:  # another Redis, or its statistics were reset
            self._kept.clear()
            self._kept.append(memory)
            return (memory,)
        if last[1:] == memory[1:]:
            return ()
        if self._kept[-1] is not last:
            self._kept.append(last)
        self._kept.append(memory)
        return (last, memory)

    def since(self, instant: Instant) -> tuple[Memory, Memory] | None:
        """What was known at an instant (or first after it), and what is known now; None where no key is known to have
        been evicted between."""
        if not self._kept:
            return None
        last = self._kept[-1]
        before = next((memory for memory in reversed(self._kept) if memory.at <= instant), self._kept[0])
        return (before, last) if last.evicts and last.evicted_keys > before.evicted_keys else None
