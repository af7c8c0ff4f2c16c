"""Unread: a call of a script that is known to touch locks, whose arguments could not be read.

Too large a batch, packed options that are none, no token. What it did is not known: nothing may be claimed of the lock
it names, and where it names none, of no lock of its queue. It is one `raw` line where a job is known, and none else.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy.locks.events import (
    AnyIntent,
    Lock,
    Nothing,
    Overwrite,
    Overwritten,
    PerhapsGranted,
    Place,
    Queue,
    Take,
    Untouched,
)
from emqproxy.records import Line
from emqproxy.scripts.answers import answered, failure, nothing_ran, part, window
from emqproxy.scripts.arguments import Call
from emqproxy.scripts.layouts import LOCK_SUFFIX, SUFFIXES, Layout, NamedJob, named_job
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.session.exchange import Exchange

_OWNERLESS: Final = b""
_OF_ONE_LOCK: Final = frozenset(
    (
        "extendLock", "moveToFinished", "moveToDelayed", "retryJob", "moveToWaitingChildren",
        "moveJobFromActiveToWait", "releaseLock",
    )
)  # fmt: skip
_OF_A_QUEUE: Final = frozenset(("extendLocks", "moveToActive", "obliterate", "removeOrphanedJobs"))
_QUEUE_ROLES: Final = ("stalled", "wait", "active", "marker", "meta", "events", "delayed", "paused")


class Unread(msgspec.Struct, frozen=True):
    """The lock that it names is part 0 of its place; what it may do to others of its queue is part 1."""

    script: Script
    job: NamedJob | None
    prefix: bytes | None
    """Of the queue whose other locks it may bear on; None where it bears on the named one only."""
    anything: bool
    """It may do anything to those; else it may have granted one of them."""

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        found: list[AnyIntent] = []
        if self.job is not None:
            queue, lock = Queue(db, self.job.prefix), Lock(db, self.job.lock)
            found.append(Overwrite(at, queue, lock, _OWNERLESS, unread=True))
        if self.prefix is not None:
            found.append(Take(part(at, 1), Queue(db, self.prefix), _OWNERLESS, None, self.anything))
        return tuple(found)

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        span, db, idle = window(exchange), exchange.db, nothing_ran(exchange.reply)
        found: list[Happening] = []
        if self.job is not None:
            line = Line("raw", "ok") if answered(exchange.reply) else failure(exchange, "raw")
            about = (at, span, Lock(db, self.job.lock), Queue(db, self.job.prefix), _OWNERLESS)
            found.append(Happening(Untouched(*about) if idle else Overwritten(*about, unread=True), line))
        if self.prefix is not None:
            place, queue = part(at, 1), Queue(db, self.prefix)
            perhaps = PerhapsGranted(place, span, queue, _OWNERLESS, None, self.anything)
            found.append(Happening(Nothing(place, span, queue) if idle else perhaps, None))
        return tuple(found)


def recognise_unread(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A call that its family's recogniser did not take; None where it bears on no lock, or neither lock nor queue can
    be told."""
    name = layout.script
    if name in _OF_ONE_LOCK:
        key, fetches, prefix = layout.word(call, "lock"), layout.word(call, "fetch_next"), _queue_of(layout, call)
        if key is not None and not key.endswith(LOCK_SUFFIX):
            return None
        job = named_job(layout, call)
        if key is not None:
            job = NamedJob(key, layout.prefix_of(call, key[: -len(LOCK_SUFFIX)]))
        if job is not None:  # a fetch-next may grant any other job
            return Unread(script, job, prefix if fetches == b"1" else None, anything=False)
        return None if prefix is None else Unread(script, None, prefix, anything=True)
    if name not in _OF_A_QUEUE or (prefix := _queue_of(layout, call)) is None:
        return None
    return Unread(script, None, prefix, anything=name != "moveToActive")


def _queue_of(layout: Layout, call: Call) -> bytes | None:
    """The queue's prefix, with its colon: as the call says it, else by one of the queue's own keys."""
    if prefix := layout.word(call, "prefix"):
        return prefix
    for role in _QUEUE_ROLES:
        key, (end, *_) = layout.word(call, role), SUFFIXES[role]
        if key is not None and key.endswith(end):
            return key[: 1 - len(end)]
    return None
