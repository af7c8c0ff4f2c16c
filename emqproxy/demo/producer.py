"""The other end of a queue: adds jobs, so that any worker of the protocol can take them."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from redis.asyncio import Redis

from emqproxy.demo.scripts_client import Scripts, now_ms

_STANDARD: Final = ("wait", "paused", "meta", "id", "completed", "delayed", "active", "events", "marker")
_DELAYED: Final = ("marker", "meta", "id", "delayed", "completed", "events")


async def add(
    client: Redis,
    queue: str,
    name: str,
    data: object,
    *,
    prefix: str = "emq",
    job_id: str | None = None,
    attempts: int = 1,
    delay_ms: int = 0,
    backoff_ms: int = 0,
) -> str:
    """Adds a job and gives its id: the one it is to have, else the queue's next number. An id that is taken is added
    no second time.

    `delay_ms`: from now on, before it may be taken. `backoff_ms`: after its first failed attempt, then twice as long
    after each. Raises TypeError for data that is no JSON, and redis-py's errors.
    """
    scripts = Scripts(client, queue, prefix)
    opts: dict[str, Any] = {"attempts": attempts}
    if backoff_ms:
        opts["backoff"] = {"type": "exponential", "delay": backoff_ms}
    script, keys = "addStandardJob-9", list(_STANDARD)
    if delay_ms:
        opts["delay"] = delay_ms
        script, keys = "addDelayedJob-6", list(_DELAYED)
    # Of what follows the time, parent, scheduler and deduplication, this producer says nothing.
    what = msgspec.msgpack.encode([scripts.prefix, job_id or "", name, now_ms(), None, None, None, None, None])
    reply: str | bytes = await scripts.run(script, keys, what, json.dumps(data), msgspec.msgpack.encode(opts))
    return reply if isinstance(reply, str) else reply.decode()
