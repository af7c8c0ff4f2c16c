"""What the reference worker and its producer leave in Redis is what the unmodified libraries read, npm's and PyPI's."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from bullmq import Job as BullJob
from bullmq import Queue as BullQueue

from emqproxy.demo.worker import Job
from tests.demo.queues import Queue, play, until
from tests.e2e.peers import Peer
from tests.processes import RedisServer

WANTED: dict[str, dict[str, Any]] = {
    "good": {"state": "completed", "attemptsMade": 1, "returnvalue": {"sum": 3}, "failedReason": None},
    "flaky": {"state": "completed", "attemptsMade": 2, "returnvalue": 1, "failedReason": "once"},
    "bad": {"state": "failed", "attemptsMade": 2, "returnvalue": None, "failedReason": "always"},
    "put off": {"state": "delayed", "attemptsMade": 1, "returnvalue": None, "failedReason": "always", "delay": 90_000},
    "later": {"state": "delayed", "attemptsMade": 0, "returnvalue": None, "failedReason": None, "delay": 80_000},
    "dead": {"state": "failed", "attemptsMade": 1, "failedReason": "job stalled more than allowable limit"},
}
TRACES = {"good": 0, "flaky": 1, "bad": 2, "put off": 1, "later": 0, "dead": 1}


async def process(job: Job) -> object:
    if job.id in ("bad", "put off"):
        raise RuntimeError("always")
    if job.id == "flaky" and not job.attempts_made:
        raise RuntimeError("once")
    return {"sum": sum(job.data)} if job.id == "good" else 1


async def work(queue: Queue) -> list[str]:
    """Everything that a job of ours may go through; the names of the workers that npm's library sees meanwhile."""
    await queue.add("dead")
    await queue.taken_by_one_who_dies("dead")
    await queue.add("good", "sum", [1, 2])
    await queue.add("flaky", attempts=2)
    await queue.add("bad", attempts=2, backoff_ms=10)
    await queue.add("put off", attempts=2, backoff_ms=90_000)
    await queue.add("later", attempts=2, delay_ms=80_000)
    async with queue.worker(process, name="ours", stalled_ms=50, max_stalled=0):
        await until(queue.is_in, "completed", "good", "flaky")
        await until(queue.is_in, "failed", "bad", "dead")
        await until(queue.is_in, "delayed", "put off", "later")
        config = {"port": queue.client.connection_pool.connection_kwargs["port"], "prefix": queue.prefix}
        return await asyncio.to_thread(read_by_npm, config | {"queue": queue.name, "read": list(WANTED)})


def read_by_npm(config: dict[str, Any]) -> list[str]:
    """Checks the jobs; the names of the workers it lists."""
    peer = Peer("ioredis", "reader", config)
    try:
        counts = peer.wait(event="counts")
        for job_id, wanted in WANTED.items():
            (told,) = peer.find(event="read", job=job_id)
            assert {name: told.get(name) for name in wanted} == wanted, told
            assert told["traces"] == TRACES[job_id], told
        assert peer.find(job="good", name="sum", data=[1, 2], processedBy="ours")
        assert peer.find(job="bad")[0]["backoff"] == {"type": "exponential", "delay": 10}
        assert peer.find(job="dead")[0]["stalledCounter"] == 1
        assert {name: counts["counts"][name] for name in ("completed", "failed", "delayed", "active", "waiting")} == {
            "completed": 2, "failed": 2, "delayed": 2, "active": 0, "waiting": 0
        }  # fmt: skip
        workers: list[str] = counts["workers"]
        return workers
    finally:
        peer.end()


@pytest.mark.parametrize("prefix", ["emq", "bull"])
def test_the_libraries_read_what_ours_wrote(prefix: str) -> None:
    async def story(queue: Queue) -> None:
        listed = base64.b64encode(queue.name.encode()).decode()
        assert await work(queue) == [f"{prefix}:{listed}:w:ours"]  # once, of its two connections
        port = queue.client.connection_pool.connection_kwargs["port"]
        theirs = BullQueue(queue.name, {"connection": {"host": "127.0.0.1", "port": port}, "prefix": prefix})
        for job_id, wanted in WANTED.items():
            job = await BullJob.fromId(theirs, job_id)
            told = {"state": await job.getState()} | {name: getattr(job, name) for name in wanted if name != "state"}
            assert told == wanted
            assert len(job.stacktrace) == TRACES[job_id]
        await theirs.close()

    with RedisServer() as server:
        queue = Queue(server, prefix)
        play(queue, story(queue))
