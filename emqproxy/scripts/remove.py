"""Remove: removeJob, cleanJobsInSet, removeOrphanedJobs, obliterate and drain.

removeJob removes only where there is no lock: 1 proves that there was none, 0 that some lock lives, the job's own, if
its children were not looked at (before 4.5.0 they always were). A clean of the active list names jobs that it found
without a lock; of other sets it looks at none. A forced obliterate and removeOrphanedJobs delete locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from emqproxy.locks.events import (
    Absent,
    AnyFact,
    AnyIntent,
    Deleted,
    HeldByOther,
    Lock,
    Nothing,
    Overwritten,
    Place,
    Queue,
    Remove,
    Sweep,
    Untouched,
    Wipe,
    Wiped,
)
from emqproxy.records import Line
from emqproxy.scripts.answers import (
    JOB_LOCKED,
    OBLITERATE_CODES,
    answered,
    code_of,
    failure,
    named,
    nothing_ran,
    part,
    window,
)
from emqproxy.scripts.arguments import Call, plain, whole
from emqproxy.scripts.layouts import Layout, NamedJob, lock_key, named_job
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.session.exchange import Exchange, Word

WORDS_MAX: Final = 64
"""So many words of a command are held: one that has as many may have had more."""
_OWNERLESS: Final = b""
_LOCK: Final = b"lock"


class JobRemoval(msgspec.Struct, frozen=True):
    """A call of removeJob."""

    script: Script
    job: NamedJob
    children: bool
    """Locks of its children are looked at, too."""

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return (Remove(at, Queue(db, self.job.prefix), Lock(db, self.job.lock), _OWNERLESS),)

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        queue = Queue(exchange.db, self.job.prefix)
        about = (at, window(exchange), Lock(exchange.db, self.job.lock), queue, _OWNERLESS)
        if not answered(exchange.reply):
            return (Happening(Untouched(*about), failure(exchange, "remove")),)
        match code_of(exchange.reply):
            case 1:
                return (Happening(Absent(*about), Line("remove", "ok", code=1)),)
            case 0:
                line = Line("remove", "refused", code=0, code_name=JOB_LOCKED)
                return (Happening(Untouched(*about) if self.children else HeldByOther(*about), line),)
            case None:
                return (Happening(Untouched(*about), Line("remove", "unknown")),)
            case _:
                return (Happening(Untouched(*about), named("remove", exchange.reply)),)


class Clean(msgspec.Struct, frozen=True):
    """A call of cleanJobsInSet. The ids it names are parts from 1; its own place is part 0, answered last."""

    script: Script
    prefix: bytes
    active: bool

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return (Sweep(at, Queue(db, self.prefix)),) if self.active else ()

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        span, queue = window(exchange), Queue(exchange.db, self.prefix)
        reply = exchange.reply if isinstance(exchange.reply, list) else []
        ids = [job_id for job_id in map(plain, reply) if job_id]
        proof, line = Absent if self.active else Untouched, Line("remove", "ok", batch_size=len(ids))
        found = [
            Happening(proof(part(at, i), span, Lock(exchange.db, lock_key(self.prefix, job_id)), queue, b""), line)
            for i, job_id in enumerate(ids, start=1)
        ]
        return (*found, Happening(Nothing(at, span, queue), None))


class Orphans(msgspec.Struct, frozen=True):
    """A call of removeOrphanedJobs: of the jobs it names, those in no list lose what is named behind their keys."""

    script: Script
    prefix: bytes
    ids: tuple[bytes, ...]
    locks: bool
    """The lock's is one of those keys."""
    whole: bool
    """All ids are known to us."""

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return (Wipe(at, Queue(db, self.prefix)),) if self.locks else ()

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        span, queue, reply = window(exchange), Queue(exchange.db, self.prefix), exchange.reply
        removed = code_of(reply)
        line = Line("wipe", "ok") if removed else None if answered(reply) else failure(exchange, "wipe")
        end: AnyFact = Nothing(at, span, queue)
        if nothing_ran(reply) or removed == 0:
            return (Happening(end, line),)
        if not self.whole:
            return (Happening(Wiped(at, span, exchange.db, self.prefix) if self.locks else end, line),)
        every = removed == len(self.ids)
        proof = (Deleted if every else Overwritten) if self.locks else Untouched
        told = Line("remove", "ok", batch_size=removed) if every else None
        found = [
            Happening(proof(part(at, i), span, Lock(exchange.db, lock_key(self.prefix, job_id)), queue, b""), told)
            for i, job_id in enumerate(self.ids, start=1)
        ]
        return (*found, Happening(end, None if every else line))


class Obliteration(msgspec.Struct, frozen=True):
    """A call of obliterate, or of drain, which touches no lock. Its line has a queue and no job."""

    script: Script
    prefix: bytes
    force: bool
    """It deletes the locks of active jobs. Otherwise it refuses where there are any."""

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return (Wipe(at, Queue(db, self.prefix)),) if self.force else ()

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        span, reply = window(exchange), exchange.reply
        code = code_of(reply)
        refused = code in OBLITERATE_CODES
        fact: AnyFact = Nothing(at, span, Queue(exchange.db, self.prefix))
        if self.force and not refused and not nothing_ran(reply):
            fact = Wiped(at, span, exchange.db, self.prefix)
        line = failure(exchange, "wipe")
        if answered(reply):
            name = OBLITERATE_CODES.get(code) if code is not None else None
            line = Line("wipe", "refused" if refused else "ok", code=code, code_name=name)
        return (Happening(fact, line),)


def recognise_removal(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A removeJob; None where its job cannot be read."""
    job = named_job(layout, call)
    if job is None:
        return None
    return JobRemoval(script, job, layout.word(call, "remove_children") == b"1" or not _may_spare_children(layout))


def _may_spare_children(layout: Layout) -> bool:
    return "remove_children" in layout.row.args


def recognise_clean(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A cleanJobsInSet; None where prefix or state cannot be read."""
    prefix, state = layout.word(call, "prefix"), layout.word(call, "state")
    return Clean(script, prefix, state == b"active") if prefix and state else None


def recognise_orphans(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A removeOrphanedJobs; None where its prefix or its counts cannot be read."""
    prefix, args = layout.word(call, "prefix"), call.args
    states = whole(args[0]) if args else None
    at = None if states is None else 1 + states
    subkeys = whole(args[at]) if at is not None and at < len(args) else None
    if not prefix or at is None or subkeys is None:
        return None
    ids: Sequence[Word] = args[at + 1 + subkeys :]
    known = tuple(job_id for job_id in ids if job_id is not None)
    complete = len(known) == len(ids) and len(args) + len(call.keys) + 3 < WORDS_MAX
    return Orphans(script, prefix, known, _LOCK in args[at + 1 : at + 1 + subkeys], complete)


def recognise_obliteration(script: Script, layout: Layout, call: Call) -> Operation | None:
    """An obliterate or a drain; None where the prefix cannot be read."""
    prefix = layout.word(call, "prefix")
    if not prefix:
        return None
    return Obliteration(script, prefix, script.name == "obliterate" and layout.word(call, "force") != b"")
