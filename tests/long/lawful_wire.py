"""A connection of `lawful`'s processes, and the writes they make."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import hiredis

from tests.processes import inline
from tests.scripts.talk import PREFIX, evalsha, keys, sha_of

Call = Sequence[bytes | None]
LONG_S: Final = 60.0
NEW_JOB: Final = (
    b"name", b"n", b"data", b"{}", b"opts", b"{}", b"timestamp", b"1", b"delay", b"0", b"priority", b"0",
)  # fmt: skip
LABELS: Final = (
    "moveToActive-11", "moveToFinished-14", "moveToDelayed-11", "retryJob-11", "moveJobFromActiveToWait-9",
    "moveStalledJobsToWait-9", "extendLock-2", "extendLocks-1", "releaseLock-1", "removeJob-2", "updateProgress-3",
    "updateData-1", "addLog-2", "changePriority-7",
)  # fmt: skip


class BrokenOffError(Exception):
    """A sidecar closed a connection without a word, or did not answer: the machine stood still for so long."""


class Wire(asyncio.Protocol):
    """One connection to a sidecar: answers in the order of the questions."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self.transport: asyncio.Transport

    @property
    def address(self) -> str:
        host, port = self.transport.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            future = self._waiting.popleft()
            if not future.done():  # its history was broken off
                future.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(BrokenOffError(f"the sidecar closed the connection: {error}"))

    async def ask(self, *calls: Sequence[bytes]) -> list[Any]:
        futures = [asyncio.get_running_loop().create_future() for _ in calls]
        self._waiting.extend(futures)
        self.transport.write(b"".join(inline(*call) for call in calls))
        if self.transport.is_closing():
            raise BrokenOffError("the sidecar closed the connection")
        try:
            async with asyncio.timeout(LONG_S):
                return await asyncio.gather(*futures)
        except TimeoutError as error:
            raise BrokenOffError(f"no answer within {LONG_S} s") from error


def a_write(chance: random.Random, job: str) -> Call:
    """One that no token fences."""
    found: tuple[Call, ...] = (
        evalsha(sha_of("updateProgress-3"), keys(job, "events", "meta"), job, "5"),
        evalsha(sha_of("updateData-1"), keys(job), "{}"),
        evalsha(sha_of("addLog-2"), keys(job, f"{job}:logs"), job, "a row", ""),
        evalsha(
            sha_of("changePriority-7"),
            keys("wait", "paused", "meta", "prioritized", "active", "pc", "marker"),
            chance.choice((0, 1)), PREFIX, job, "0",
        ),
    )  # fmt: skip
    return chance.choice(found)
