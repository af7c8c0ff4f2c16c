"""Our reference worker as a process, with the protocol of python_worker.py: configuration in, JSON lines out.

It knows the processors `stumble` and `hang`, and says neither `completed` nor `failed`: Redis does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import Counter
from typing import Any

import redis

from emqproxy.demo.worker import Job, Worker

times: Counter[str] = Counter()


def say(event: str, **fields: Any) -> None:
    """One line out."""
    print(json.dumps({"event": event, **fields}), flush=True)


class Saying(logging.Handler):
    """What the worker logs becomes lines: whatever it has to say is an error of somebody."""

    def emit(self, record: logging.LogRecord) -> None:
        say("stalled" if "had stalled" in record.msg else "error", message=record.getMessage())


async def process(job: Job) -> None:
    times[job.id] += 1
    say("active", job=job.id, name=job.name, times=times[job.id], token=job.token)
    if job.name == "hang":
        await asyncio.Event().wait()
    await asyncio.sleep(job.data["ms"] / 1000)
    if job.attempts_made < job.data["fails"]:
        raise RuntimeError(f"stumbled {job.attempts_made}")


async def work(config: dict[str, Any]) -> None:
    """Works until it is told to close or its stdin ends."""
    options = config["options"]
    secret = f":{config['password']}@" if config.get("password") else ""
    worker = Worker(
        f"redis://{secret}127.0.0.1:{config['port']}",
        config["queue"],
        process,
        prefix=config["prefix"],
        lock_ms=options["lockDuration"],
        stalled_ms=options["stalledInterval"],
        max_stalled=options.get("maxStalledCount", 1),
        concurrency=options.get("concurrency", 1),
        name=options.get("name", ""),
    )
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    running = asyncio.create_task(worker.run())
    say("ready", driver=redis.__version__)
    await commands.readline()
    await worker.close()
    await running
    say("closed")


if __name__ == "__main__":
    logging.getLogger("emqproxy").addHandler(Saying())
    asyncio.run(work(json.loads(sys.argv[1])))
