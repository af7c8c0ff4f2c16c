"""One queue on a real Redis, and reference workers on it, for tests: all in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from redis.asyncio import Redis

from emqproxy.demo.producer import add
from emqproxy.demo.scripts_client import Scripts
from emqproxy.demo.worker import Job, Worker
from tests.processes import RedisServer

ENOUGH_S = 40.0
LOCK_MS = 30_000
_NUMBERS = itertools.count()


class Queue:
    """A queue that nothing else uses, on a server that only this module's tests use."""

    def __init__(self, server: RedisServer, prefix: str = "emq") -> None:
        self.url, self.prefix, self.name = server.url, prefix, f"q{next(_NUMBERS)}"
        self.client = Redis.from_url(server.url, decode_responses=True)

    def key(self, word: str) -> str:
        return f"{self.prefix}:{self.name}:{word}"

    async def add(self, job_id: str, name: str = "n", data: object = None, **opts: Any) -> str:
        return await add(self.client, self.name, name, data, prefix=self.prefix, job_id=job_id, **opts)

    @contextlib.asynccontextmanager
    async def worker(self, process: Callable[[Job], Awaitable[object]], **options: Any) -> AsyncIterator[Worker]:
        """A worker that runs, and is closed in the end; by force where the test has failed."""
        worker = Worker(self.url, self.name, process, prefix=self.prefix, **{"lock_ms": LOCK_MS} | options)
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0)  # it has begun
        force = True
        try:
            yield worker
            force = False
        finally:
            await asyncio.wait_for(worker.close(force=force), ENOUGH_S)
            await running

    async def taken_by_one_who_dies(self, job_id: str) -> None:
        """The job is picked up, under a lock that nobody renews and that is soon over."""
        found = await Scripts(self.client, self.name, self.prefix).pick_up("of one who died", 1, "dead")
        assert isinstance(found, Job)
        assert found.id == job_id
        await until(self.is_unlocked, job_id)

    async def state(self, job_id: str) -> str | None:
        """The one place where the job is."""
        lists, sets = ("wait", "paused", "active"), ("delayed", "completed", "failed")
        async with self.client.pipeline(transaction=True) as asked:  # at one instant: it may move meanwhile
            for place in lists:
                asked.lpos(self.key(place), job_id)
            for place in sets:
                asked.zscore(self.key(place), job_id)
            places = zip(lists + sets, await asked.execute(), strict=True)
        found = [place for place, there in places if there is not None]
        assert len(found) <= 1, found
        return found[0] if found else None

    async def is_in(self, place: str, *job_ids: str) -> bool:
        """Whether all these jobs are there."""
        return all([await self.state(job_id) == place for job_id in job_ids])

    async def is_unlocked(self, job_id: str) -> bool:
        return not await self.client.exists(self.key(f"{job_id}:lock"))

    async def hash(self, job_id: str, *fields: str) -> list[str | None]:
        found: list[str | None] = await self.client.hmget(self.key(job_id), list(fields))
        return found

    async def renewals(self, job_id: str, times: int) -> set[str]:
        """Waits until the lock was renewed so often: its time to live has risen. The tokens seen in it."""
        key, tokens, ttl_ms = self.key(f"{job_id}:lock"), set(), 10**9
        while times:
            tokens.add(await self.client.get(key))
            last_ms, ttl_ms = ttl_ms, await self.client.pttl(key)
            times -= ttl_ms > last_ms
            await asyncio.sleep(LOOK_S)
        return tokens


LOOK_S = 0.005


async def until(look: Callable[..., Awaitable[object]], *arguments: Any) -> None:
    """Looks again until it is so."""
    while not await look(*arguments):  # noqa: ASYNC110  what it waits for happens in Redis
        await asyncio.sleep(LOOK_S)


def play(queue: Queue, story: Coroutine[Any, Any, None]) -> None:
    """Runs a test's story in a loop of its own, to its end or the last moment; then nothing of it is left."""

    async def whole() -> None:
        async with queue.client:
            await asyncio.wait_for(story, ENOUGH_S)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if left:  # what was cancelled last is ended by now, or soon
            _, running = await asyncio.wait(left, timeout=ENOUGH_S)
            assert not running, running

    asyncio.run(whole())
