"""Unfenced writes: scripts that change a job or its lists and ask for no token. Whoever holds the lock holds it still.

updateProgress, updateData, addLog, saveStacktrace, changePriority, changeDelay, promote, reprocessJob and others name
one job; moveJobsToWait and what is done to schedulers name none: their lines have a queue and no job.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy.locks.events import AnyIntent, Lock, Nothing, Place, Queue, Untouched, Write
from emqproxy.records import Line
from emqproxy.scripts.answers import answered, failure, named, window
from emqproxy.scripts.arguments import Call
from emqproxy.scripts.layouts import Layout, NamedJob, named_job
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.session.exchange import Exchange

_OWNERLESS: Final = b""
_REPEAT: Final = b"repeat"


class JobWrite(msgspec.Struct, frozen=True):
    """A write to one job."""

    script: Script
    job: NamedJob

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return (Write(at, Queue(db, self.job.prefix), Lock(db, self.job.lock), _OWNERLESS),)

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        lock, queue = Lock(exchange.db, self.job.lock), Queue(exchange.db, self.job.prefix)
        return (Happening(Untouched(at, window(exchange), lock, queue, _OWNERLESS), self._line(exchange)),)

    def _line(self, exchange: Exchange) -> Line | None:
        if not answered(exchange.reply):
            return failure(exchange, "write")
        line = named("write", exchange.reply)
        if self.script.name == "addLog" and line.outcome == "ok":
            return Line("write", "ok")  # it answers how many rows there are: that is no code
        return line


class QueueWrite(msgspec.Struct, frozen=True):
    """A write that names no job."""

    script: Script
    prefix: bytes

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:  # noqa: ARG002  as every operation's
        """None: it bears on no lock."""
        return ()

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        fact = Nothing(at, window(exchange), Queue(exchange.db, self.prefix))
        line = named("write", exchange.reply) if answered(exchange.reply) else failure(exchange, "write")
        return (Happening(fact, line),)


def recognise_job_write(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A write to the job that the call names."""
    job = named_job(layout, call)
    if job is None:
        return None
    return JobWrite(script, job)


def recognise_queue_write(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A write to a queue, whose prefix stands in the call or before the key of its schedulers."""
    prefix, repeat = layout.word(call, "prefix"), layout.word(call, "repeat")
    if not prefix and repeat is not None and repeat.endswith(b":" + _REPEAT):
        prefix = repeat[: -len(_REPEAT)]
    return QueueWrite(script, prefix) if prefix else None
