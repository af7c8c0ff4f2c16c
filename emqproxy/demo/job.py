"""One job as its worker sees it: what the pickup's reply says, and what is to be done when an attempt on it fails.

Values only: nothing here speaks to Redis.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

STACKTRACES_MAX: Final = 10
"""Of failed attempts, the newest: a job that is retried for days does not grow without end."""


class UnrecoverableError(Exception):
    """Raised by a process: the job fails for good, whatever attempts it has left."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job in one attempt. Its lock holds `token` for as long as this attempt owns it."""

    id: str
    name: str
    data: Any
    """What its producer gave it, out of its JSON."""
    token: str = field(repr=False)
    attempts: int = 1
    """How many it may have."""
    attempts_made: int = 0
    """How many have ended before this one. A stall is none."""
    stalled: int = 0
    """How often a sweep has put it back."""
    deferred_failure: str | None = None
    """Why it is to be failed without an attempt: a sweep found that it stalled too often, or it cannot be read."""
    backoff_ms: int = 0
    """How long it is to wait after this attempt, should it fail."""
    opts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    stacktrace: tuple[str, ...] = field(default=(), repr=False)
    """Of the attempts before, oldest first."""

    @property
    def retries(self) -> bool:
        """Whether it has another attempt after this one."""
        return self.attempts_made + 1 < self.attempts


def read_job(job_id: str, fields: list[str], token: str) -> Job:
    """The job out of a pickup's reply. One that is no job, or cannot be read, comes as one that fails unprocessed: else
    each worker that picks it up would end by it.
    """
    found = dict(zip(fields[::2], fields[1::2], strict=True))
    deferred = found.get("defa")
    name, stalled = found.get("name", ""), int(found.get("stc", 0))
    attempts_made = int(found.get("atm", 0))
    try:
        data, opts = json.loads(found["data"]), json.loads(found.get("opts", "{}"))
        return Job(
            job_id, name, data, token, int(opts.get("attempts") or 1), attempts_made, stalled, deferred,
            backoff_ms(opts.get("backoff") or 0, attempts_made), opts,
            tuple(map(str, json.loads(found.get("stacktrace") or "[]"))),
        )  # fmt: skip
    except KeyError:
        deferred = deferred or "the job is gone: only its id was left"
    except (AttributeError, TypeError, ValueError):
        deferred = deferred or "the job's data or options cannot be read"
    return Job(job_id, name, None, token, 1, attempts_made, stalled, deferred)


def backoff_ms(backoff: Any, attempts_made: int) -> int:  # noqa: ANN401  whatever stands in the job's JSON
    """How long a job waits after an attempt, as its producer said: so many ms, or a map with `delay` that is doubled
    for each attempt before this one where the `type` is `exponential`, less up to the share `jitter` of it. Types that
    a producer made up count as `fixed`. Raises TypeError and ValueError for what is neither.
    """
    if not isinstance(backoff, Mapping):
        return int(backoff)
    delay_ms = float(backoff.get("delay") or 0)
    if backoff.get("type") == "exponential":
        delay_ms *= 2**attempts_made
    return round(delay_ms * (1 - random.random() * float(backoff.get("jitter") or 0)))  # noqa: S311  no secret
