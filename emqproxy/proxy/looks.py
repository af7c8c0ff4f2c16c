"""What has been read and given to the loop to be written, and is looked at when it has been: the bytes come first.

The loop writes at the end of the turn in which it was told to. Whoever looked at bytes at once would keep those of all
connections of that turn waiting, and Redis idle. So looks are put off to the next turn, and to later ones where there
are many: one client's pipeline must not keep the bytes of all others waiting for its account. All looks keep the order
of their reads, so an answer is never looked at before its question.

Time must not overtake them: nothing has been seen yet of what was read since `oldest`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from emqproxy.locks.events import Instant
from emqproxy.proxy import clock

Look: TypeAlias = Callable[[bytes, Instant], None]
"""Bytes, and when they were read. Must not raise; any cut of the same bytes must do."""

SLICE_BYTES: Final = 16 * 1024
"""Some 120 renewals: a few milliseconds."""
TURN_NS: Final = 500_000
"""So long is looked in one turn of the loop, and to the end of the slice: then bytes go on."""
MANY: Final = 64
LONG_TURN_NS: Final = 4_000_000
"""So long where so many looks wait: bytes would only run further ahead of them, until their connections must wait."""


class Looks:
    """Of one loop: one line for all connections."""

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self._waiting: deque[tuple[Look, bytes, Instant]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: dict[object, Instant] = {}

    @property
    def oldest(self) -> Instant | None:
        """When the first of what waits was read, here or before a gate; None where nothing waits."""
        oldest = self._waiting[0][2] if self._waiting else None
        if self._held:
            held = min(self._held.values())
            return held if oldest is None else min(held, oldest)
        return oldest

    def hold(self, gate: object, since: Instant | None) -> None:
        """What was read of a connection at `since` waits to be judged, before it goes on; None: nothing of it waits."""
        if since is None:
            self._held.pop(gate, None)
        else:
            self._held[gate] = since

    def later(self, look: Look, data: bytes, now: Instant, *, sliced: bool = False) -> None:
        """Looks at bytes when what was read in this turn has been written; `sliced`: a piece at a time."""
        if not self._waiting:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._turn)
        self.waiting_bytes += len(data)
        if sliced and len(data) > SLICE_BYTES:
            self._waiting.extend((look, data[at : at + SLICE_BYTES], now) for at in range(0, len(data), SLICE_BYTES))
        else:
            self._waiting.append((look, data, now))

    def run(self) -> None:
        """All that was put off, now."""
        waiting = self._waiting
        while waiting:
            look, data, now = waiting.popleft()
            self.waiting_bytes -= len(data)
            look(data, now)

    def _turn(self) -> None:
        waiting = self._waiting
        until = clock.now() + (TURN_NS if len(waiting) < MANY else LONG_TURN_NS)
        while waiting:
            look, data, now = waiting.popleft()
            self.waiting_bytes -= len(data)
            look(data, now)
            if waiting and clock.now() > until:
                assert self._loop is not None
                self._loop.call_soon(self._turn)
                break
