"""As node/fixed.mjs, by an unmodified PyPI bullmq: two workers by hand that use one token."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from bullmq import Queue, Worker
from python_worker import connection, say  # beside it

TOKEN = "SAME"


def hand(config: dict[str, Any], lock_ms: int) -> Worker:
    options = {"connection": connection(config), "prefix": config["prefix"], "autorun": False}
    return Worker(config["queue"], None, {**options, "lockDuration": lock_ms, "stalledInterval": 60})


async def finish(who: str, job: Any) -> None:
    try:
        await job.moveToCompleted(who, TOKEN, False)
        say("told", who=who, job=job.id)
    except Exception as error:
        say("told", who=who, job=job.id, message=str(error))


async def recovered(worker: Worker) -> Any:
    """Sweeps until it has put a job back, and takes that."""
    stalled: list[str] = []
    worker.on("stalled", stalled.append)
    while not stalled:
        await worker.runStalledJobsCheck()
        await asyncio.sleep(0)
    return await worker.getNextJob(TOKEN)


async def main(config: dict[str, Any]) -> None:
    queue = Queue(config["queue"], {"connection": connection(config), "prefix": config["prefix"]})
    await queue.add("first", {}, {"jobId": "one"})
    slow, quick = hand(config, 80), hand(config, 60_000)
    lost = await slow.getNextJob(TOKEN)
    say("took", who="slow", job=lost.id)
    taken = await recovered(quick)
    say("took", who="quick", job=taken.id)
    await finish("slow", lost)
    await finish("quick", taken)
    await queue.add("second", {}, {"jobId": "two"})
    slow.opts["lockDuration"] = 60_000
    await finish("slow", await slow.getNextJob(TOKEN))
    say("result", value=(await queue.getJob("one")).returnvalue)
    await slow.close(force=True)
    await quick.close(force=True)
    await queue.close()
    say("ended")


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
