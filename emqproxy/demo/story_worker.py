"""One of the demo's workers: the reference worker in a process of its own, and what befalls it in each job.

Run as `python -m emqproxy.demo.story_worker NAME SIDECAR_URL SERVER_URL`. Whoever copies one thing from here: a
processor that computes for long without awaiting holds up the renewal of its own lock (`compute`).

Its jobs and its lock go through emqproxy. To the server itself it goes only to ask how far the story is, so that no
step depends on how fast this machine is.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

from redis import Redis

from emqproxy.demo import plan
from emqproxy.demo.plan import (
    BLOCKED_TO,
    HEALTHY,
    KILLED,
    LINGER_S,
    LOCK_MS,
    OVER,
    PREFIX,
    QUEUE,
    ROBBED,
    SLOW,
    STALLS_MAX,
    STUCK,
    SWEEP_MS,
    gate_key,
    job_key,
)
from emqproxy.demo.worker import Job, Worker

_LOOK_S: Final = 0.05
_WORK_S: Final = {HEALTHY: 1.6, **dict.fromkeys((SLOW, ROBBED, STUCK, KILLED), 0.4)}
"""What a job takes besides."""
_ANSWER_S: Final = 10.0


class Processor:
    """What the worker does with a job, by its id."""

    def __init__(self, server_url: str) -> None:
        self._server = Redis.from_url(server_url, decode_responses=True, socket_timeout=_ANSWER_S)

    async def __call__(self, job: Job) -> str:
        played = plan.played(job.id)
        if played == SLOW:
            await self._compute_until_late(job)
        elif played == STUCK and not job.stalled:
            await self._renewed(job)
            self._compute_until_lost(job)
            return "a result for nobody"  # at once: no renewal comes in between, from which it would hear of its loss
        await self.gate(job.id)
        await asyncio.sleep(_WORK_S[played])
        return "done"

    async def gate(self, name: str) -> None:
        """Waits until the story lets it go on."""
        while not self._is_open(name):  # noqa: ASYNC110  another process opens it
            await asyncio.sleep(_LOOK_S)

    def arrived(self, name: str) -> None:
        """Says that this worker is there."""
        self._server.set(gate_key(name), "open")

    async def _renewed(self, job: Job) -> None:
        """Waits until the lock has just been renewed."""
        left_ms = before_ms = self._left_ms(job)
        while left_ms <= before_ms:
            await asyncio.sleep(_LOOK_S)
            left_ms, before_ms = self._left_ms(job), left_ms

    async def _compute_until_late(self, job: Job) -> None:
        """Blocks the event loop until most of the lock's time has passed, then lets the worker renew it. Again, where
        that was not late: emqproxy counts no time in which it stood still itself.
        """
        while not self._is_open(job.id):
            while self._left_ms(job) > (1 - BLOCKED_TO) * LOCK_MS:
                time.sleep(_LOOK_S)  # noqa: ASYNC251  the point of the story
            await self._renewed(job)
            await asyncio.sleep(10 * _LOOK_S)

    def _compute_until_lost(self, job: Job) -> None:
        """Blocks the event loop until another worker holds the job: however long that takes."""
        while self._server.get(f"{job_key(job.id)}:lock") in (job.token, None) and not self._is_open(job.id):
            time.sleep(_LOOK_S)
        time.sleep(LINGER_S)

    def _is_open(self, name: str) -> bool:
        return self._server.exists(gate_key(name)) == 1

    def _left_ms(self, job: Job) -> int:
        """How long the lock still lives; below 0 where there is none."""
        return int(str(self._server.pttl(f"{job_key(job.id)}:lock")))


async def main(name: str, sidecar_url: str, server_url: str) -> None:
    """Works until the story is over."""
    process = Processor(server_url)
    worker = Worker(
        sidecar_url,
        QUEUE,
        process,
        prefix=PREFIX,
        lock_ms=LOCK_MS,
        stalled_ms=SWEEP_MS,
        max_stalled=STALLS_MAX,
        name=name,
    )
    running = asyncio.create_task(worker.run())
    process.arrived(name)
    over = asyncio.create_task(process.gate(OVER))
    await asyncio.wait({running, over}, return_when=asyncio.FIRST_COMPLETED)
    over.cancel()
    await worker.close()
    await running


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
