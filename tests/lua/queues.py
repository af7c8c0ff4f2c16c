"""What stands in the released scripts' database, as a step looks at it to choose a job, a token, a parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgpack

from tests.lua.calls import key

QUEUES: Final = ("q", "r")
MOSTLY: Final = ("q", "q", "q", "r")
"""For a choice: more happens in one of them."""
_NOT_JOBS: Final = frozenset(("meta",))
STATES: Final = ("wait", "paused", "active", "prioritized", "delayed", "waiting-children", "completed", "failed")


def unpacked(kind: bytes, value: Any) -> Any:
    """A value as it is: hashes and streams come as msgpack."""
    return msgpack.unpackb(value, raw=True) if kind in (b"hash", b"stream") else value


class Job(NamedTuple):
    """A job by its name; whether there is such a job is another question."""

    queue: str
    id: str

    @property
    def key(self) -> str:
        return key(self.queue, self.id)

    def __str__(self) -> str:
        return f"{self.queue}/{self.id}"


class Queues:
    """A look at a keyspace: key → (type, value) as the snapshot gives them."""

    def __init__(self, flat: Sequence[Any] = ()) -> None:
        self.values: dict[str, tuple[bytes, Any]] = {
            name.decode(): (kind, value) for name, kind, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        }

    def value(self, name: str) -> Any:
        return unpacked(*self.values.get(name, (b"none", None)))

    def listed(self, queue: str, state: str) -> list[Job]:
        """The jobs in one of the states, in its order."""
        kind, value = self.values.get(key(queue, state), (b"none", []))
        return [Job(queue, member.decode()) for member in (value[::2] if kind == b"zset" else value)]

    def all_listed(self, state: str) -> list[Job]:
        return [job for queue in QUEUES for job in self.listed(queue, state)]

    def jobs(self) -> list[Job]:
        """All that have a hash, whatever their state."""
        found = []
        for name, (kind, _) in self.values.items():
            parts = name.split(":", 2)
            if kind == b"hash" and ":" not in parts[2] and parts[2] not in _NOT_JOBS:
                found.append(Job(parts[1], parts[2]))
        return found

    def lock(self, job: Job) -> bytes | None:
        """The token that stands in a job's lock."""
        return self.value(f"{job.key}:lock")

    def marked(self) -> list[str]:
        """The queues that the last sweep marked jobs of."""
        return [queue for queue in QUEUES if self.value(key(queue, "stalled"))]

    def children(self, job: Job) -> list[str]:
        """The keys of those that are pending."""
        return [member.decode() for member in self.value(f"{job.key}:dependencies") or ()]

    def active_parents(self) -> list[Job]:
        """Jobs that are active and have children that are pending or have failed."""
        return [
            job for job in self.all_listed("active")
            if self.value(f"{job.key}:dependencies") or self.value(f"{job.key}:unsuccessful")
        ]  # fmt: skip
