"""The scripts of `lua/` over redis-py: each move a worker makes, as one call. Knows KEYS and ARGV; decides nothing.

A script is run by its sha. Only a server that does not know it yet (NOSCRIPT: the first call since it started, or since
SCRIPT FLUSH) is sent the text, once, by SCRIPT LOAD. What each position means stands on top of the script's own file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from emqproxy.demo.job import Job, read_job
from emqproxy.scripts import texts

REFUSALS: Final = {
    -1: "JobNotExist", -2: "JobLockNotExist", -3: "JobNotInState", -4: "JobPendingChildren",
    -6: "JobLockMismatch", -9: "JobHasFailedChildren",
}  # fmt: skip
"""What a move answers that did not move the job. -2 and -6: the lock is no longer the caller's. After -4 and -9 it
still is: a job with children that have not ended well is not for a worker that knows of none, and stalls.
"""

_PICKUP: Final = ("wait", "active", "prioritized", "events", "stalled", "limiter", "delayed", "paused", "meta", "pc")
"""The keys that moveToActive and moveToFinished share, by the words behind the queue's prefix."""


class Nothing(NamedTuple):
    """A pickup's reply where there is no job to take now."""

    limited_ms: int = 0
    """For how long the limiter lets none through; 0 where it is not that."""
    due_ms: int = 0
    """When the first delayed job falls due, in ms since 1970; 0 where none is delayed."""


class Scripts:
    """The moves of one queue. `client` decodes its replies. Errors are redis-py's; nothing is tried twice."""

    def __init__(self, client: Redis, queue: str, prefix: str) -> None:
        self._client = client
        self.prefix = f"{prefix}:{queue}:"

    async def pick_up(self, token: str, lock_ms: int, name: str) -> Job | Nothing:
        """Takes the next job and locks it with this token, for so long."""
        packed = _pack({"token": token, "lockDuration": lock_ms, "name": name})
        reply = await self.run("moveToActive-11", [*_PICKUP, "marker"], self.prefix, now_ms(), packed)
        return _picked(reply, token)

    async def renew(self, jobs: Sequence[Job], lock_ms: int) -> list[str]:
        """Renews the locks of all these jobs. The ids of those that are no longer theirs."""
        tokens, ids = _pack([job.token for job in jobs]), _pack([job.id for job in jobs])
        refused: list[str] = await self.run("extendLocks-1", ["stalled"], self.prefix, tokens, ids, lock_ms)
        return refused

    async def finish(
        self, job: Job, target: str, value: str, fields: dict[str, str], *, lock_ms: int, name: str, fetch: bool
    ) -> int | Job | Nothing:
        """Ends the job: `target` is `completed` or `failed`, `value` the result as JSON or the reason. With `fetch` the
        same call takes the next job, under the same token. 0, or one of REFUSALS.
        """
        keys = [*_PICKUP, target, job.id, f"metrics:{target}", "marker"]
        options = {
            "token": job.token, "lockDuration": lock_ms, "name": name, "attempts": job.attempts,
            "keepJobs": _kept(job, target), "maxMetricsSize": "",
        }  # fmt: skip
        kind = "returnvalue" if target == "completed" else "failedReason"
        reply = await self.run(
            "moveToFinished-14", keys, job.id, now_ms(), kind, value, target, "1" if fetch else "0", self.prefix,
            _pack(options), _flat(fields),
        )  # fmt: skip
        return reply if isinstance(reply, int) else _picked(reply, job.token)

    async def delay(self, job: Job, delay_ms: int, fields: dict[str, str]) -> int:
        """Puts the job off, for its next attempt. 0, or one of REFUSALS."""
        keys = ["marker", "active", "prioritized", "delayed", job.id, "events", "meta", "stalled"]
        code: int = await self.run(
            "moveToDelayed-8", keys, self.prefix, now_ms(), job.id, job.token, delay_ms, "0", _flat(fields)
        )
        return code

    async def retry(self, job: Job, fields: dict[str, str]) -> int:
        """Puts the job back where jobs wait, for its next attempt. 0, or one of REFUSALS."""
        keys = [
            "active", "wait", "paused", job.id, "meta", "events", "delayed", "prioritized", "pc", "marker", "stalled"
        ]  # fmt: skip
        end = "RPUSH" if job.opts.get("lifo") else "LPUSH"
        code: int = await self.run("retryJob-11", keys, self.prefix, now_ms(), end, job.id, job.token, _flat(fields))
        return code

    async def sweep(self, stalled_max: int, interval_ms: int) -> list[str]:
        """Puts stalled jobs back: the ids of those. Of all workers' sweeps one in each interval does so."""
        keys = ["stalled", "wait", "active", "stalled-check", "meta", "paused", "marker", "events"]
        ids: list[str] = await self.run(
            "moveStalledJobsToWait-8", keys, stalled_max, self.prefix, now_ms(), interval_ms
        )
        return ids

    async def marked(self, waiting: Redis, timeout_s: float) -> float | None:
        """Blocks the client `waiting` until the marker says when a job may be taken, in ms since 1970, and takes the
        marker away. 0 for at once; None where nothing was said in time.
        """
        popped = await _call(waiting, "BZPOPMIN", f"{self.prefix}marker", timeout_s)
        return float(popped[2]) if popped else None

    async def run(self, script: str, keys: Sequence[str], *arguments: str | bytes | int) -> Any:  # noqa: ANN401
        """Runs one script of `lua/`. `keys`: the words behind the queue's prefix, in the script's order."""
        text = texts.load(script)
        assert len(keys) == text.arity, (script, keys)
        call = ["EVALSHA", text.sha, len(keys), *(self.prefix + word for word in keys), *arguments]
        try:
            return await _call(self._client, *call)
        except NoScriptError:
            await _call(self._client, "SCRIPT LOAD", text.text)
            return await _call(self._client, *call)


def now_ms() -> int:
    """Since 1970. The scripts take it from their caller; locks end by Redis's own clock."""
    return time.time_ns() // 1_000_000


async def _call(client: Redis, *words: object) -> Any:  # noqa: ANN401  a reply can be anything
    return await client.execute_command(*words)  # type: ignore[no-untyped-call]


def _picked(reply: list[Any], token: str) -> Job | Nothing:
    fields, job_id, limited_ms, due_ms = reply
    return read_job(str(job_id), fields, token) if fields else Nothing(int(limited_ms), int(due_ms))


def _kept(job: Job, target: str) -> dict[str, int]:
    """How many ended jobs the queue keeps, as the job's producer said: all, unless told; true: not even this one."""
    keep = job.opts.get("removeOnComplete" if target == "completed" else "removeOnFail")
    if isinstance(keep, dict):
        return keep
    return {"count": keep if isinstance(keep, int) and not isinstance(keep, bool) else 0 if keep else -1}


def _pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def _flat(fields: dict[str, str]) -> bytes:
    """Fields to set, name and value in turn; nothing where there are none."""
    return _pack([word for pair in fields.items() for word in pair]) if fields else b""
