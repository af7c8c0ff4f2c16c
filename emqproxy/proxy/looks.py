"""What has been read and given to the loop to be written, and is looked at when it has been: the bytes come first.

The loop writes at the end of the turn in which it was told to. Whoever looked at bytes at once would keep those of all
connections of that turn waiting, and Redis idle. So looks are put off to the next turn's beginning, which comes before
anything else is read: an answer is never looked at before its question, and all looks keep the order of their reads.

Time must not overtake them: whoever asks what time has brought looks first (`run`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from emqproxy.locks.events import Instant

Look: TypeAlias = Callable[[bytes, Instant], None]
"""Bytes, and when they were read. Must not raise."""


class Looks:
    """Of one loop: one line for all connections."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Look, bytes, Instant]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    def later(self, look: Look, data: bytes, now: Instant) -> None:
        """Looks at bytes when what was read in this turn has been written."""
        if not self._waiting:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self.run)
        self._waiting.append((look, data, now))

    def run(self) -> None:
        """All that was put off, now."""
        waiting = self._waiting
        while waiting:
            look, data, now = waiting.popleft()
            look(data, now)
