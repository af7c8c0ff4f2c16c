"""What went wrong here: counted always, said once a minute, never raised."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import ParamSpec, TypeVar

from emqproxy import logs

P = ParamSpec("P")
T = TypeVar("T")


class Guard:
    """Runs one consumer's code so that its fault stays its own.

    The log names the exception's type and where it was raised, never its text: a text may hold a token.
    """

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer
        self.faults = 0
        self._log = logs.RateLimited(logs.get())

    def call(self, act: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Calls it; an exception is counted."""
        try:
            act(*args, **kwargs)
        except Exception as fault:  # noqa: BLE001  whatever a consumer raises must not reach the next one
            self._count(fault)

    def each(self, act: Callable[[T], object], things: Iterable[T]) -> None:
        """Calls it with one after the other; an exception is counted, and the next one has its turn."""
        rest = iter(things)
        while True:
            try:
                for thing in rest:
                    act(thing)
            except Exception as fault:  # noqa: BLE001  as above
                self._count(fault)
            else:
                return

    def _count(self, fault: Exception) -> None:
        self.faults += 1
        self._log.error(
            "observer consumer failed",
            now=time.monotonic_ns(),
            consumer=self.consumer,
            fault=type(fault).__name__,
            where=_where(fault),
            faults=self.faults,
        )


def _where(fault: BaseException) -> str:
    frames = traceback.extract_tb(fault.__traceback__)
    return " < ".join(f"{PurePath(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
