"""The demo's worker: an unmodified PyPI `bullmq` worker in a process of its own, three jobs one after the other.

Run as `python -m emqproxy.demo.story_worker PORT`. Whoever copies one thing from here: a processor that computes for
long without awaiting holds up the renewal of its own lock.
"""

from __future__ import annotations

import asyncio
import sys
import time

from bullmq import Job, Queue, Worker

from emqproxy.demo.worker_plan import BLOCK_MS, JOBS, LOCK_MS, PREFIX, QUEUE, RENEW_MS, SWEEP_MS, WORK_S


async def process(job: Job, _token: str) -> str:
    """Works on one job in the way its id says; the second time any job is healthy."""
    block_ms = BLOCK_MS.get(job.id, 0) if job.attemptsMade == 0 and job.stalledCounter == 0 else 0
    if block_ms:
        time.sleep(block_ms / 1000)  # noqa: ASYNC251  the story's point: nothing else runs in this worker meanwhile
    await asyncio.sleep(WORK_S[job.id])
    return "done"


async def main(port: int) -> None:
    """Adds a job, waits until it is completed, adds the next."""
    connection = {"host": "127.0.0.1", "port": port}
    queue = Queue(QUEUE, {"connection": connection, "prefix": PREFIX})
    completed = {job: asyncio.Event() for job in JOBS}
    worker = Worker(
        QUEUE,
        process,
        {
            "connection": connection,
            "prefix": PREFIX,
            "lockDuration": LOCK_MS,
            "lockRenewTime": RENEW_MS,
            "stalledInterval": SWEEP_MS,
        },
    )
    worker.on("completed", lambda job, _result: completed[job.id].set())
    worker.on("error", lambda error, *_job: print("worker:", error, flush=True))
    for job in JOBS:
        await queue.add("work", {}, {"jobId": job})
        await completed[job].wait()
    await worker.close()
    await queue.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
