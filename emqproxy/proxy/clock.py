"""The only clock of the data plane, and how late its loop is.

An instant is taken once per read from a socket. What a peer sent may have lain unread while our loop was busy or our
process was stopped: `lag_ns` says for how long, at most, so that nobody is blamed for our own pause.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from emqproxy.locks.events import Instant, Window

BEAT_S: Final = 0.02
_BEAT_NS: Final = int(BEAT_S * 1e9)
PAUSE_NS_MIN: Final = 10_000_000
"""A shorter lag matters to no lock."""
PAUSES_MAX: Final = 512
_FRESH_NS: Final = 5 * _BEAT_NS
"""How long a measured lag is held against what is read: the reads of one stall come right after it."""

now = time.monotonic_ns


def wall_ns() -> int:
    """Unix nanoseconds; only ever sent along, so that the observer can map instants."""
    return time.time_ns()


class LoopLag:
    """A beat on the loop. Between two beats should lie BEAT_S; what lies more is lag, and `paused` is told of it."""

    def __init__(
        self, paused: Callable[[Window], None] = lambda _: None, late: Callable[[int], None] = lambda _: None
    ) -> None:
        """`late` is told of each beat by how many nanoseconds it was late."""
        self._paused, self._tell_late = paused, late
        self.pauses: deque[Window] = deque(maxlen=PAUSES_MAX)
        """Those that nobody has taken from here yet, the last ones."""
        self._due: Instant = 0
        self._late: Instant = 0
        self._late_at: Instant = 0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins to beat, on the running loop."""
        loop = asyncio.get_running_loop()

        def beat() -> None:
            at = now()
            late = at - self._due
            self._tell_late(max(0, late))
            if late > self._late or at - self._late_at > _FRESH_NS:
                self._late, self._late_at = max(0, late), at
            if late > PAUSE_NS_MIN:
                pause = Window(self._due, at)
                self._paused(pause)
                self.pauses.append(pause)
            self._due = at + _BEAT_NS
            self._handle = loop.call_later(BEAT_S, beat)

        self._due = now() + _BEAT_NS
        self._handle = loop.call_later(BEAT_S, beat)

    def stop(self) -> None:
        """Ends the beat."""
        if self._handle is not None:
            self._handle.cancel()

    def lag_ns(self, at: Instant) -> int:
        """How long something read at this instant may have lain unread on our account."""
        overdue = at - self._due
        recent = self._late if at - self._late_at <= _FRESH_NS else 0
        return max(overdue, recent)
