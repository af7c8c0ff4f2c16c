"""How keys are told: prefix, queue and job as strings.

Bytes that are not UTF-8 are told with backslashes (`\\xff`), so that every line and span is valid UTF-8; ids are
computed from the bytes themselves.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from emqproxy.locks.events import AnyFact, Lock, LockFact, Queue, QueueFact, Wiped

_LOCK_SUFFIX: Final = b":lock"
_SYSTEMS: Final = {"emq": "echomq", "bull": "bullmq"}


class QueueName(NamedTuple):
    """The queue is the last part of the prefix; what stands before it may contain colons and braces."""

    prefix: str
    queue: str


def text(raw: bytes) -> str:
    """Bytes of a key, a token or a name, as valid UTF-8 text."""
    return raw.decode("utf-8", "backslashreplace")


@lru_cache(maxsize=1024)
def queue_name(queue: Queue) -> QueueName:
    """`bull:q:` is prefix `bull`, queue `q`."""
    prefix, _, name = queue.prefix.removesuffix(b":").rpartition(b":")
    return QueueName(text(prefix), text(name))


def job_key(lock: Lock) -> bytes:
    """The key of the job's hash, `emq:orders:42`: a lock's key less its suffix."""
    return lock.key.removesuffix(_LOCK_SUFFIX)


def job_id(queue: Queue, lock: Lock) -> str:
    """`42`: the job's key less the queue's prefix."""
    return text(job_key(lock).removeprefix(queue.prefix))


def messaging_system(prefix: str) -> str:
    """The semantic conventions' `messaging.system`: `echomq` for `emq`, `bullmq` for all others, braces ignored."""
    return _SYSTEMS.get(prefix.strip("{}"), "bullmq")


def queue_of(fact: AnyFact) -> Queue | None:
    """The queue a fact is about, or None where it is about a connection or a whole database."""
    if isinstance(fact, Wiped):
        return None if fact.db is None or not fact.prefix else Queue(fact.db, fact.prefix)
    return fact.queue if isinstance(fact, LockFact | QueueFact) and fact.queue.prefix else None


class Subject(NamedTuple):
    """What a line is about; None where it is about no such thing, or about more than one."""

    db: int | None
    prefix: str | None
    queue: str | None
    job: str | None


def subject(fact: AnyFact) -> Subject:
    """Of a fact."""
    queue = queue_of(fact)
    if queue is None:
        db = fact.db if isinstance(fact, Wiped) else fact.queue.db if isinstance(fact, QueueFact) else None
        return Subject(db, None, None, None)
    name = queue_name(queue)
    job = job_id(queue, fact.lock) if isinstance(fact, LockFact) else None
    return Subject(queue.db, name.prefix, name.queue, job)
