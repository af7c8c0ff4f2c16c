"""Where token, duration and job id stand: the roles of KEYS and ARGV, per script, arity and release range, as data.

Name and arity alone do not settle the positions (`moveToDelayed-8` has five rows): a sha settles them by its
releases, a learned text by the suffixes of its keys. Source: `data/layouts.json`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Final, NamedTuple, TypeAlias

import msgspec

from emqproxy.scripts.arguments import Call
from emqproxy.session.exchange import Word

Release: TypeAlias = tuple[int, ...]
"""`(5, 65, 1)`."""

LOCK_SUFFIX: Final = b":lock"

SUFFIXES: Final[dict[str, tuple[bytes, ...]]] = {
    "wait": (b":wait",),
    "active": (b":active",),
    "prioritized": (b":prioritized",),
    "events": (b":events",),
    "stalled": (b":stalled",),
    "stalled_check": (b":stalled-check",),
    "limiter": (b":limiter",),
    "delayed": (b":delayed",),
    "paused": (b":paused",),
    "meta": (b":meta",),
    "priority_counter": (b":pc",),
    "marker": (b":marker",),
    "finished_set": (b":completed", b":failed"),
    "completed": (b":completed",),
    "failed": (b":failed",),
    "metrics": (b":metrics:completed", b":metrics:failed"),
    "waiting_children": (b":waiting-children",),
    "job_dependencies": (b":dependencies",),
    "job_unsuccessful": (b":unsuccessful",),
    "job_logs": (b":logs",),
    "repeat": (b":repeat",),
    "id_counter": (b":id",),
    "lock": (LOCK_SUFFIX,),
    "prefix": (b":",),
}
"""What the key of a role ends with; roles not named here end with anything."""

_SCHEDULED: Final = re.compile(rb"(.*?:)repeat:.+:\d+\Z", re.DOTALL)
"""The key of a job that a scheduler made: its id is `repeat:`, the scheduler's name and a time."""

_QUEUE_ROLES: Final = ("stalled", "events", "meta", "active", "wait", "delayed", "prioritized")
"""Roles of keys that stand beside a job's in its own queue."""

QUEUES_MAX: Final = 10_000
"""Past it no more are noted."""
PREFIX_BYTES_MAX: Final = 512
"""A longer one is not noted, so that a key full of colons costs little."""


class Row(msgspec.Struct, frozen=True):
    """One row of the data, as it is written."""

    script: str
    arity: int
    first: str
    last: str
    keys: tuple[str, ...]
    args: tuple[str, ...]


class NamedJob(NamedTuple):
    """A job, as the ledger knows it."""

    lock: bytes
    """Its lock's key."""
    prefix: bytes
    """Its queue's, with the colon."""


class Queues:
    """Whose job a key is, where nothing but the key tells: an id may hold colons, and a prefix, too."""

    __slots__ = ("_prefixes", "_seen")

    def __init__(self, prefixes: Sequence[bytes] = ()) -> None:
        """`prefixes` are the configured ones, each with its colon."""
        self._prefixes = sorted(prefixes, key=len, reverse=True)
        self._seen: set[bytes] = set()

    def saw(self, prefix: bytes) -> None:
        """A queue's prefix, with its colon, that a pickup names: no job is held that was not picked up."""
        if prefix in self._seen or len(self._seen) >= QUEUES_MAX or len(prefix) > PREFIX_BYTES_MAX:
            return
        if prefix.endswith(b":") and prefix not in self._prefixes:
            self._seen.add(prefix)

    def prefix_of(self, job_key: bytes) -> bytes:
        """The prefix, with its colon, of the queue that a job's key is of.

        That of the longest queue seen that it is in; else, within a configured prefix, up to the next colon, as a
        queue's name holds none; else up to the last one, as ids rarely hold any.
        """
        end = job_key.rfind(b":", 0, PREFIX_BYTES_MAX) if self._seen else -1
        while end > 0:
            head = job_key[: end + 1]
            if head in self._seen and head != job_key:
                return head
            end = job_key.rfind(b":", 0, end)
        for start in self._prefixes:
            if job_key.startswith(start):
                end = job_key.find(b":", len(start)) + 1
                if len(start) + 1 < end < len(job_key):
                    return job_key[:end]
        scheduled = _SCHEDULED.match(job_key)
        if scheduled is not None:
            return scheduled[1]
        head, colon, _ = job_key.rpartition(b":")
        return head + colon


class Layout:
    """The roles of one script's KEYS and ARGV in one release range."""

    __slots__ = ("_beside", "_places", "arity", "first", "last", "queues", "row", "script")

    def __init__(self, row: Row, queues: Queues) -> None:
        self.row = row
        self.queues = queues
        """Those of its catalogue: every layout has the same."""
        self.script = row.script
        self.arity = row.arity
        self.first = release(row.first)
        self.last = release(row.last)
        self._places = {role: (1, at) for at, role in enumerate(row.args)}
        self._places |= {role: (0, at) for at, role in enumerate(row.keys)}
        """By role: among the KEYS (0) or in ARGV (1), and where there."""
        self._beside = next((role for role in _QUEUE_ROLES if role in row.keys), None)

    def word(self, call: Call, role: str) -> Word:
        """The word in a role; None where the layout has no such role, or the call no such word or a too large one."""
        place = self._places.get(role)
        if place is None:
            return None
        words, at = call[place[0]], place[1]
        return words[at] if at < len(words) else None

    def has_key(self, role: str) -> bool:
        """Whether the role is one of the KEYS."""
        return role in self.row.keys

    def prefix_of(self, call: Call, job_key: bytes) -> bytes:
        """The prefix, with its colon, of the queue that a job's key is of: as the call names it, or as its id or a key
        beside it tells; else the likeliest."""
        prefix = self.word(call, "prefix")
        if prefix and job_key.startswith(prefix):
            return prefix
        if self._beside is not None:
            key, (suffix,) = self.word(call, self._beside), SUFFIXES[self._beside]
            if key is not None and key.endswith(suffix) and job_key.startswith(head := key[: 1 - len(suffix)]):
                return head
        job_id = self.word(call, "job_id")
        if job_id and job_key.endswith(b":" + job_id):
            return job_key[: -len(job_id)]
        return self.queues.prefix_of(job_key)

    def fits(self, call: Call) -> bool:
        """Whether the keys end as their roles say, and the job's key is of the job named.

        It tells apart layouts of one name and arity: for those of `moveToDelayed-8` that differ in no key,
        prefix and job id together are the job's key in one of them only.
        """
        if len(call.keys) != self.arity:
            return False
        for role, key in zip(self.row.keys, call.keys, strict=True):
            if role in SUFFIXES and (key is None or not key.endswith(SUFFIXES[role])):
                return False
        job, job_id, prefix = self.word(call, "job"), self.word(call, "job_id"), self.word(call, "prefix")
        if prefix is not None and not prefix.endswith(b":"):
            return False
        if job is None or job_id is None:
            return True
        return job == prefix + job_id if prefix is not None else job.endswith(b":" + job_id)


@functools.lru_cache(maxsize=2048)
def release(text: str) -> Release:
    """`5.65.1` as a tuple that compares."""
    return tuple(int(part) for part in text.split("."))


def load(queues: Queues | None = None) -> dict[tuple[str, int], tuple[Layout, ...]]:
    """All layouts by script and arity, in the order of their releases; they name queues by `queues`."""
    queues = Queues() if queues is None else queues
    raw = (files("emqproxy.scripts") / "data" / "layouts.json").read_bytes()
    found: dict[tuple[str, int], tuple[Layout, ...]] = {}
    for row in msgspec.json.decode(raw, type=list[Row]):
        found[row.script, row.arity] = (*found.get((row.script, row.arity), ()), Layout(row, queues))
    return found


def in_range(layouts: Iterable[Layout], first: str, last: str) -> Layout | None:
    """The one layout that holds for all releases from `first` to `last`; None where no single one does."""
    held = [layout for layout in layouts if layout.first <= release(first) and release(last) <= layout.last]
    return held[0] if len(held) == 1 else None


def named_job(layout: Layout, call: Call) -> NamedJob | None:
    """The job that a call names, by its key or by prefix and id; None where it names none that can be read."""
    job, job_id, prefix = layout.word(call, "job"), layout.word(call, "job_id"), layout.word(call, "prefix")
    if job is None and prefix and job_id:
        job = prefix + job_id
    if not job:
        return None
    return NamedJob(job + LOCK_SUFFIX, layout.prefix_of(call, job))


def lock_key(prefix: bytes, job_id: bytes) -> bytes:
    """The lock's key as the scripts build it from a prefix."""
    return prefix + job_id + LOCK_SUFFIX
