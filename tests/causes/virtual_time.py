"""An event loop whose time passes only where everybody waits: hours in seconds, and the same in each run of a seed.

The data plane's clock is this loop's while it runs, so that what waits by `call_later` and what is stamped agree.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

from emqproxy.proxy import clock

T = TypeVar("T")
BEGIN_NS: Final = 1_000_000_000_000


class _Leaping(selectors.DefaultSelector):
    """Waits for nothing: what it was asked to wait has passed."""

    now_ns = BEGIN_NS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits, and for nothing"
        if timeout > 0:
            self.now_ns += int(timeout * 1e9) + 1
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """As any loop, but for its time."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now_ns / 1e9

    def now_ns(self) -> int:
        return self._leaping.now_ns


@contextlib.contextmanager
def _clock_of(loop: VirtualLoop) -> Iterator[None]:
    real = clock.now
    clock.now = loop.now_ns
    try:
        yield
    finally:
        clock.now = real


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, in virtual time."""
    loop = VirtualLoop()
    with _clock_of(loop):
        try:
            return loop.run_until_complete(main)
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left))
            loop.close()


async def settle(s: float = 0.05) -> None:
    """What is under way arrives."""
    await asyncio.sleep(s)
