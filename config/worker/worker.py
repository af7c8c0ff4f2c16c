"""A BullMQ worker to look at: adds a job each second and works on it. Nothing in it knows of emqproxy but its address.

REDIS_URL says where Redis is, QUEUE the queue's name (demo). Each tenth job blocks its worker past its whole lock.
"""

# ruff: noqa: INP001  a program, no package

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

from bullmq import Job, Queue, Worker

LOCK_MS = 3000
NAPS_S = 0.4
BLOCK_S = 1.3 * LOCK_MS / 1000


async def process(job: Job, _token: str) -> str:
    """What a worker does: waits for something, or holds up its own loop, as worker code ought not to."""
    if job.name == "blocking":
        time.sleep(BLOCK_S)  # noqa: ASYNC251  that is the point
    await asyncio.sleep(NAPS_S)
    return "done"


async def main() -> None:
    """Until SIGTERM or SIGINT."""
    name, connection = os.environ.get("QUEUE", "demo"), {"connection": os.environ["REDIS_URL"]}
    over = asyncio.Event()
    for ends in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(ends, over.set)
    queue = Queue(name, connection)
    worker = Worker(name, process, {**connection, "lockDuration": LOCK_MS, "stalledInterval": LOCK_MS})
    worker.on("completed", lambda job, _result: say(f"completed {job.id}"))
    worker.on("failed", lambda job, error: say(f"failed {job.id}: {error}"))
    worker.on("error", lambda error, *_job: say(f"error: {error}"))
    number = 0
    while not over.is_set():
        number += 1
        await queue.add("blocking" if number % 10 == 0 else "healthy", {}, {"removeOnComplete": 1000})
        try:
            await asyncio.wait_for(over.wait(), 1)
        except TimeoutError:
            pass
    await worker.close()
    await queue.close()


def say(line: str) -> None:
    """One line out, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
