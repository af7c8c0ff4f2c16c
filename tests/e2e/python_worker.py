"""An unmodified PyPI `bullmq` worker (or producer) whose processors are chosen by the job's name.

The same protocol as node/worker.mjs and node/producer.mjs: argv[1] is the configuration (with `jobs` it is a
producer), JSON lines come out, commands go in.
"""

# ruff: noqa: ARG002  every processor has the shape that bullmq calls

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter, defaultdict
from importlib.metadata import version
from typing import Any

import redis
from bullmq import Queue, Worker
from bullmq.custom_errors import WaitingChildrenError

try:
    from bullmq.custom_errors import DelayedError
except ImportError:  # releases for npm 5.65 have none: a job does not delay itself there
    DelayedError = WaitingChildrenError


def say(event: str, **fields: Any) -> None:
    """One line out."""
    print(json.dumps({"event": event, **fields}), flush=True)


def connection(config: dict[str, Any]) -> dict[str, Any]:
    """What bullmq hands to redis-py; with `ca`, an authority's file, over TLS."""
    tls = {"ssl": True, "ssl_ca_certs": config["ca"]} if config.get("ca") else {}
    return {
        **tls,
        "host": "127.0.0.1",
        "port": config["port"],
        "username": config.get("username"),
        "password": config.get("password"),
    }


class Processors:
    """A method a job name; each gets the job, its token, and whether this is the first time here."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.times: Counter[str] = Counter()
        self.gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.renewals: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def run(self, job: Any, token: str) -> Any:
        """The worker's processor."""
        self.times[job.id] += 1
        say("active", job=job.id, name=job.name, times=self.times[job.id], token=token)
        return await getattr(self, job.name)(job, token, self.times[job.id] == 1)

    async def complete(self, job: Any, token: str, first: bool) -> Any:
        return {"returned": job.data.get("secret")}

    async def fail(self, job: Any, token: str, first: bool) -> None:
        raise RuntimeError(f"reason {job.data['secret']}")

    async def flaky(self, job: Any, token: str, first: bool) -> None:
        if first:
            raise RuntimeError(f"reason {job.data['secret']}")

    async def delay(self, job: Any, token: str, first: bool) -> None:
        if first:
            await job.moveToDelayed(int(time.time() * 1000) + job.data["ms"], token)
            raise DelayedError

    async def parent(self, job: Any, token: str, first: bool) -> None:
        if not first:
            return
        queue = Queue(self.config["queue"], {"connection": connection(self.config), "prefix": self.config["prefix"]})
        parent = {"id": job.id, "queue": f"{self.config['prefix']}:{self.config['queue']}"}
        await queue.add("complete", {"secret": job.data["secret"]}, {"jobId": job.data["child"], "parent": parent})
        await queue.close()
        if await job.moveToWaitingChildren(token, {}):
            raise WaitingChildrenError

    async def block(self, job: Any, token: str, first: bool) -> None:
        if first:
            time.sleep(job.data["ms"] / 1000)  # noqa: ASYNC251  the whole point: the loop stands still
            await self.renewals[job.id].wait()  # the overdue timer speaks before the job ends

    async def hold(self, job: Any, token: str, first: bool) -> None:
        await self.gates[job.id].wait()

    async def hang(self, job: Any, token: str, first: bool) -> None:
        await asyncio.Event().wait()

    async def nap(self, job: Any, token: str, first: bool) -> None:
        await asyncio.sleep(job.data["ms"] / 1000)

    async def stumble(self, job: Any, token: str, first: bool) -> None:
        await asyncio.sleep(job.data["ms"] / 1000)
        if job.attemptsMade < job.data["fails"]:
            raise RuntimeError(f"stumbled {job.attemptsMade}")


async def produce(config: dict[str, Any]) -> None:
    """Adds the jobs, says their ids, ends."""
    queue = Queue(config["queue"], {"connection": connection(config), "prefix": config["prefix"]})
    for job in config["jobs"]:
        added = await queue.add(job["name"], job["data"], job.get("opts", {}))
        say("added", job=added.id)
    await queue.close()


def listen(worker: Worker, processors: Processors) -> None:
    """The worker's events become lines."""
    worker.on("completed", lambda job, _result: say("completed", job=job.id))
    worker.on("failed", lambda job, error: say("failed", job=job.id, reason=str(error)))
    worker.on("stalled", lambda job_id: say("stalled", job=job_id))
    worker.on("error", lambda error, *_job: say("error", message=str(error)))

    def answered(event: str, ids: list[str]) -> None:
        for job_id in ids:
            say(event, job=job_id)
            processors.renewals[job_id].set()

    worker.on("locksRenewed", lambda renewed: answered("renewed", renewed["jobIds"]))
    worker.on("lockRenewalFailed", lambda ids: answered("renewal_refused", ids))


def watch_lag(lag_us_min: int) -> None:
    """A beat on the event loop: what lies between two beats beyond its 10 ms is the loop's own lag.

    The instants are those of the machine's monotonic clock, which every process on it shares.
    """
    loop = asyncio.get_running_loop()

    def beat(due: int) -> None:
        at = time.monotonic_ns() // 1000
        if at - due >= lag_us_min:
            say("lag", at_us=at, lag_us=at - due)
        loop.call_later(0.01, beat, at + 10_000)

    loop.call_later(0.01, beat, time.monotonic_ns() // 1000 + 10_000)


async def work(config: dict[str, Any]) -> None:
    """Works until it is told to close or its stdin ends."""
    processors = Processors(config)
    options = {**config["options"], "connection": connection(config), "prefix": config["prefix"]}
    worker = Worker(config["queue"], processors.run, options)
    listen(worker, processors)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    if "lag_us_min" in config:
        watch_lag(config["lag_us_min"])
    say("ready", bullmq=version("bullmq"), driver=redis.__version__)
    while line := await commands.readline():
        command = json.loads(line)
        if command["do"] == "close":
            break
        processors.gates[command["job"]].set()
    await worker.close()
    say("closed")


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    asyncio.run(produce(settings) if "jobs" in settings else work(settings))
