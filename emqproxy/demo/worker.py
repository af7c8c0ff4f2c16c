"""The reference worker: how a worker of the job-lock protocol behaves, to be read in ten minutes and to be copied.

What keeps a job its owner's, and what this worker does for it:

- Each pickup locks the job with a new token (UUID v4). Whoever speaks for the job later shows the token.
- One timer renews the locks of all jobs held, in one call, every quarter of the lock: three in a row must fail before
  one ends.
- A renewal that is refused is proof that the job is lost: another may be at work on it. Its processing is cancelled,
  and nothing is said for it any more.
- Whoever dies renews nothing. After the lock has ended, two passes of any worker's sweep put the job back.

All scripts go over one connection, one after the other, so Redis runs them in the order in which they are decided on:
no renewal speaks for a job that a finish before it has released. To wait for jobs blocks a connection: it has its own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from emqproxy.demo.job import STACKTRACES_MAX, Job, UnrecoverableError
from emqproxy.demo.scripts_client import REFUSALS, Nothing, Scripts, now_ms

__all__ = ["Job", "UnrecoverableError", "Worker"]

T = TypeVar("T")

BLOCK_S_MAX: Final = 5.0
"""The longest wait on the marker. Then it is asked anyway: whoever took the marker may have died of it."""
BLOCK_S_MIN: Final = 0.01
RETRY_S: Final = 0.5
"""Between two tries after an error of Redis or of the way to it."""

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Attempt:
    """A job that this worker holds, and its processing."""

    job: Job
    processing: asyncio.Task[str]
    """Its outcome: the result as JSON, or what was raised."""
    lost: bool = False
    """Proved: the lock is not ours any more. Never false again."""


class Worker:
    """Takes jobs of one queue and calls `process` with each; what that returns is the job's result.

    A job whose `process` raises is tried again after its back-off, as often as it has attempts; then, or at once after
    an UnrecoverableError, it has failed. `process` must not hold up the event loop: the renewals run on it. Raises
    ValueError for a name that Redis does not take.
    """

    def __init__(
        self,
        url: str,
        queue: str,
        process: Callable[[Job], Awaitable[object]],
        *,
        prefix: str = "emq",
        lock_ms: int = 30_000,
        renew_ms: int | None = None,
        stalled_ms: int = 30_000,
        max_stalled: int = 1,
        concurrency: int = 1,
        name: str = "",
    ) -> None:
        self.name = name or f"worker-{uuid.uuid4().hex[:8]}"
        if not all("!" <= letter <= "~" for letter in self.name):
            raise ValueError(f"name {name!r}: Redis takes only ASCII without blanks, for it names the connections, too")
        self._process = process
        self._lock_ms, self._renew_ms = lock_ms, renew_ms or max(lock_ms // 4, 1)
        self._stalled_ms, self._max_stalled, self._concurrency = stalled_ms, max_stalled, concurrency
        # A call whose answer does not come must not keep the renewals behind it waiting until the locks have ended.
        self._commands = _client(url, self.name, max(lock_ms / 2000, 1.0))
        # By such a name the protocol's other libraries list a queue's workers.
        listed = f"{prefix}:{base64.b64encode(queue.encode()).decode()}:w:{self.name}"
        self._waiting = _client(url, listed, BLOCK_S_MAX + 5)
        self._scripts = Scripts(self._commands, queue, prefix)
        self._held: dict[str, Attempt] = {}
        """By job id: whatever is in here is renewed."""
        self._speaking = asyncio.Lock()
        """Over `_commands`, one call at a time; whoever has it may rely on `_held`."""
        self._asking = asyncio.Lock()
        """One at a time asks for jobs and waits for them; the others are at work, or next."""
        self._slots: list[asyncio.Task[None]] = []
        self._closing, self._ended = asyncio.Event(), asyncio.Event()
        self._ended.set()

    async def run(self) -> None:
        """Works until it is closed. Loses no connection for good; raises only what is a fault of its own."""
        self._ended.clear()
        try:
            async with asyncio.TaskGroup() as tasks:
                timers = [tasks.create_task(self._renew_regularly()), tasks.create_task(self._sweep_regularly())]
                self._slots = [tasks.create_task(self._work()) for _ in range(self._concurrency)]
                try:
                    await asyncio.wait(self._slots)
                finally:  # not before: what still runs while closing is renewed to its end
                    await _stop(*self._slots, *timers)
        finally:
            self._held.clear()
            await self._commands.aclose()
            await self._waiting.aclose()
            self._ended.set()

    async def close(self, *, force: bool = False) -> None:
        """Takes no more jobs, and returns when those at work are done. With `force` they are cancelled, and left: their
        locks end by themselves, and then a sweep puts them back.
        """
        self._closing.set()
        if force:
            await _stop(*self._slots)
        await self._ended.wait()

    # --- From one job to the next -----------------------------------------------------------------------------------

    async def _work(self) -> None:
        job: Job | None = None
        while job or not self._closing.is_set():
            job = await self._attempt(job) if job else await self._next_job()

    async def _next_job(self) -> Job | None:
        """The next job there is; None when closing."""
        async with self._asking:
            while not self._closing.is_set():
                try:
                    async with self._speaking:
                        found = await self._scripts.pick_up(str(uuid.uuid4()), self._lock_ms, self.name)
                    if isinstance(found, Job):
                        return found
                    await self._wait_for_job(found)
                except RedisError as error:
                    # Where the answer was lost, a job may be locked that we know nothing of: it counts as stalled.
                    log.warning("%s: no job could be asked for: %s", self.name, error)
                    await self._unless_closing(asyncio.sleep(RETRY_S))
        return None

    async def _wait_for_job(self, found: Nothing) -> None:
        """Until there may be one: the marker says so, or the first delayed one falls due, or the limiter lets it."""
        if found.limited_ms > 0:
            await self._unless_closing(asyncio.sleep(found.limited_ms / 1000))
            return
        due_ms: float | None = found.due_ms
        while due_ms is not None:  # else nothing was said in time: ask, whatever it was
            wait_s = min((due_ms - now_ms()) / 1000, BLOCK_S_MAX) if due_ms else BLOCK_S_MAX
            due_ms = await self._unless_closing(self._scripts.marked(self._waiting, max(wait_s, BLOCK_S_MIN)))
            if due_ms is not None and due_ms <= now_ms():
                return
            # A delayed job's marker: whoever took it waits for the job.

    async def _unless_closing(self, what: Coroutine[object, object, T]) -> T | None:
        """What it gives; None, and it is cancelled, when the worker is to close meanwhile."""
        task, closing = asyncio.create_task(what), asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait({task, closing}, return_when=asyncio.FIRST_COMPLETED)
            return await task if task.done() else None
        finally:
            await _stop(task, closing)

    # --- One attempt ------------------------------------------------------------------------------------------------

    async def _attempt(self, job: Job) -> Job | None:
        """Processes the job and ends the attempt. The next job, where the end's answer brings one."""
        if job.id in self._held:
            self._lose(job.id, "this worker was given it anew")
        attempt = Attempt(job, asyncio.create_task(self._outcome(job)))
        self._held[job.id] = attempt
        try:
            await asyncio.wait({attempt.processing})
            found = await self._settle(attempt)
        finally:
            attempt.processing.cancel()
            if self._held.get(job.id) is attempt:
                del self._held[job.id]
        return found if isinstance(found, Job) else None

    async def _outcome(self, job: Job) -> str:
        if job.deferred_failure is not None:
            raise UnrecoverableError(job.deferred_failure)
        return json.dumps(await self._process(job), allow_nan=False)

    async def _settle(self, attempt: Attempt) -> int | Job | Nothing | None:
        """Tells Redis the outcome, and again where no answer came, while the job is held. None where it is lost."""
        job, until = attempt.job, time.monotonic() + self._lock_ms / 1000
        while time.monotonic() < until:
            async with self._speaking:
                if attempt.lost:  # a renewal before us was refused
                    return None
                try:
                    answer = await self._tell(attempt)
                except RedisError as error:
                    log.warning("%s: the end of job %s was not answered: %s", self.name, job.id, error)
                else:
                    del self._held[job.id]  # before any renewal has its turn
                    if isinstance(answer, int) and answer < 0:
                        why = REFUSALS.get(answer, "an unknown code")
                        log.error("%s: the end of job %s was refused: %d %s", self.name, job.id, answer, why)
                    return answer
            await asyncio.sleep(RETRY_S)
        log.error("%s: the end of job %s could not be told, and is given up", self.name, job.id)
        return None

    def _tell(self, attempt: Attempt) -> Awaitable[int | Job | Nothing]:
        """The one call that ends the attempt: completed, failed, or put back for the next."""
        job, processing = attempt.job, attempt.processing
        error = asyncio.CancelledError("cancelled") if processing.cancelled() else processing.exception()
        if error is None:
            return self._finish(job, "completed", processing.result(), {})
        traces = [*job.stacktrace, "".join(traceback.format_exception(error))][-STACKTRACES_MAX:]
        reason = str(error) or type(error).__name__
        fields = {"failedReason": reason, "stacktrace": json.dumps(traces)}
        if not job.retries or isinstance(error, UnrecoverableError):
            return self._finish(job, "failed", reason, fields)
        if job.backoff_ms > 0:
            return self._scripts.delay(job, job.backoff_ms, fields)
        return self._scripts.retry(job, fields)

    def _finish(self, job: Job, target: str, value: str, fields: dict[str, str]) -> Awaitable[int | Job | Nothing]:
        fetch = not self._closing.is_set()
        return self._scripts.finish(job, target, value, fields, lock_ms=self._lock_ms, name=self.name, fetch=fetch)

    # --- What keeps time --------------------------------------------------------------------------------------------

    async def _renew_regularly(self) -> None:
        wait_s = self._renew_ms / 1000
        while True:
            await asyncio.sleep(wait_s)
            wait_s = self._renew_ms / 1000
            try:
                await self._renew()
            except RedisError as error:
                log.warning("%s: the locks were not renewed: %s", self.name, error)
                wait_s = min(wait_s, RETRY_S)

    async def _renew(self) -> None:
        async with self._speaking:
            jobs = [attempt.job for attempt in self._held.values()]
            for job_id in await self._scripts.renew(jobs, self._lock_ms) if jobs else []:
                self._lose(job_id, "its lock was not renewed: it ended, or is another's")

    def _lose(self, job_id: str, why: str) -> None:
        """The job is another's now, or will be: whatever we did for it further would be done twice."""
        if attempt := self._held.pop(job_id, None):
            attempt.lost = True
            attempt.processing.cancel()
            log.error("%s: job %s is lost, and cancelled: %s", self.name, job_id, why)

    async def _sweep_regularly(self) -> None:
        while True:
            try:
                async with self._speaking:
                    stalled = await self._scripts.sweep(self._max_stalled, self._stalled_ms)
                for job_id in stalled:
                    log.warning("%s: job %s had stalled, and waits again", self.name, job_id)
            except RedisError as error:
                log.warning("%s: no stalled jobs were looked for: %s", self.name, error)
            await asyncio.sleep(self._stalled_ms / 1000)


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancels until they have ended: before Python 3.12 `asyncio.wait_for`, which redis-py uses, may lose one."""
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=RETRY_S)


def _client(url: str, name: str, timeout_s: float) -> Redis:
    """A client of one connection that says its name. It tries nothing twice: only the caller knows what may be."""
    return Redis.from_url(
        url,
        max_connections=1,
        client_name=name,
        decode_responses=True,
        encoding_errors="replace",
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
    )
