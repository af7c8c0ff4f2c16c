"""Calls all that an unmodified PyPI bullmq offers which speaks to a script. argv[1] as the workers' configuration.

stdout: {event: 'called', what}, or {event: 'error', what, message}; it goes on.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from bullmq import FlowProducer, Job, Queue, Worker
from python_worker import connection, say  # beside it

TOKEN = "fixed-token-of-one-hand"


async def call(what: str, run: Callable[[], Any]) -> Any:
    try:
        result = run()
        result = await result if asyncio.iscoroutine(result) or asyncio.isfuture(result) else result
    except Exception as error:
        say("error", what=what, message=str(error))
        return None
    say("called", what=what)
    return result


async def method(of: Any, name: str, *args: Any) -> Any:
    """Where a release has it."""
    if callable(found := getattr(of, name, None)):
        return await call(name, lambda: found(*args))
    return None


async def fill(queue: Queue, config: dict[str, Any]) -> None:
    for name, opts in {
        "plain": {}, "delayed": {"delay": 100_000}, "urgent": {"priority": 5}, "named": {"jobId": "my-id"},
        "lifo": {"lifo": True}, "kept": {"removeOnComplete": True, "attempts": 3},
        "both": {"delay": 9_000, "priority": 3},
    }.items():  # fmt: skip
        await call(f"add {name}", lambda name=name, opts=opts: queue.add(name, {"a": 1}, opts))
    await method(queue, "addBulk", [{"name": "b", "data": {}}, {"name": "c", "data": {}, "opts": {"delay": 5000}}])
    flows = FlowProducer(connection(config))
    child = {"name": "leaf", "queueName": config["queue"], "data": {}, "opts": {"jobId": "leaf"}}
    tree = {"name": "root", "queueName": config["queue"], "data": {}, "opts": {"jobId": "root"}, "children": [child]}
    await call("flow", lambda: flows.add(tree, {"prefix": config["prefix"]}))
    await flows.close()


async def write(job: Any) -> None:
    await method(job, "updateProgress", 50)
    await method(job, "updateData", {"b": 2})
    await method(job, "log", "a row")
    await method(job, "changePriority", {"priority": 9})
    await method(job, "changeDelay", 90_000)
    for name in ("getState", "isCompleted", "isFailed", "isDelayed", "isActive", "isWaiting", "isWaitingChildren"):
        await method(job, name)


def late() -> int:
    return int(time.time() * 1000) + 30_000


async def work(worker: Worker) -> None:
    ends: list[Callable[[Any], Any]] = [
        lambda job: job.moveToCompleted({"ok": 1}, TOKEN, False),
        lambda job: job.moveToFailed(RuntimeError("no"), TOKEN, False),
        lambda job: job.moveToDelayed(late(), TOKEN),
        lambda job: job.moveToWaitingChildren(TOKEN, {}),
        lambda job: job.moveToWait(TOKEN),
    ]
    for turn in range(15):
        job = await call("getNextJob", lambda: worker.getNextJob(TOKEN))
        if job is None:
            break
        if turn < 2:
            await write(job)
        worker.jobs.add((job, TOKEN)) if hasattr(worker, "jobs") else None
        await method(worker, "extendLocks")
        worker.jobs.discard((job, TOKEN)) if hasattr(worker, "jobs") else None
        await call(f"end {turn % len(ends)}", lambda job=job, turn=turn: ends[turn % len(ends)](job))


async def manage(queue: Queue) -> None:
    for name in (
        "getJobCounts", "getGlobalConcurrency", "getRateLimitTtl", "pause", "isPaused", "resume", "get_workers",
        "getJobSchedulers", "getJobSchedulersCount", "getActive", "getWaitingChildren", "removeDeprecatedPriorityKey",
    ):  # fmt: skip
        await method(queue, name)
    await method(queue, "getCountsPerPriority", [0, 5])
    await method(queue, "getJobs", ["waiting", "delayed", "active"], 0, 10, True)
    await method(queue, "upsertJobScheduler", "nightly", {"every": 50_000}, {"name": "n", "data": {}, "opts": {}})
    await method(queue, "upsertJobScheduler", "nightly", {"every": 40_000}, {"name": "n", "data": {}, "opts": {}})
    await method(queue, "getJobScheduler", "nightly")
    await method(queue, "removeJobScheduler", "nightly")
    await method(queue, "getMetrics", "completed", 0, 5)
    await method(queue, "retryJobs", {"state": "failed"})
    await method(queue, "promoteJobs", {"count": 2})
    await method(queue, "trimEvents", 10)
    await method(queue, "setGlobalConcurrency", 3)
    for job_id in ("root", "leaf", "my-id"):
        job = await call("fromId", lambda job_id=job_id: Job.fromId(queue, job_id))
        await method(job, "promote")
        await method(job, "retry", "failed")
    for state in ("completed", "failed", "wait", "active", "delayed", "prioritized"):
        await method(queue, "clean", 0, 2, state)
    await method(queue, "remove", "my-id", {"removeChildren": True})
    await method(queue, "drain", True)
    await method(queue, "obliterate", False)


async def main(config: dict[str, Any]) -> None:
    queue = Queue(config["queue"], {"connection": connection(config), "prefix": config["prefix"]})
    options = {"connection": connection(config), "prefix": config["prefix"], "autorun": False, "lockDuration": 20_000}
    worker = Worker(config["queue"], None, options)
    await fill(queue, config)
    await work(worker)
    await method(worker, "runStalledJobsCheck")
    await manage(queue)
    await worker.close(force=True)
    await queue.close()
    say("ended")


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
