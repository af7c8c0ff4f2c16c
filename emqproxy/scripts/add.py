"""Add: the scripts that make a job. The id stands in the answer, unless its producer chose one.

addStandardJob, addDelayedJob, addPrioritizedJob, addParentJob, before 4.14.2 addJob; addJobScheduler from 5.34.7 on and
updateJobScheduler add a scheduler's next job. A producer that adds a known id is answered with it: nothing says that
the job was there. An added job has no lock: nothing is proved of one, and the ledger is told of none.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy.locks.events import AnyIntent, Lock, Nothing, Place, Queue, Untouched
from emqproxy.records import JobFields, Line
from emqproxy.scripts.answers import CODE_NAMES, answered, code_of, failure, window
from emqproxy.scripts.arguments import Call, entry, plain, unpack
from emqproxy.scripts.jobs import read_added
from emqproxy.scripts.layouts import Layout, lock_key
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.scripts.unfenced import recognise_queue_write
from emqproxy.session.exchange import Exchange, Reply

_OWNERLESS: Final = b""


class Adding(msgspec.Struct, frozen=True):
    """A call that adds one job."""

    script: Script
    prefix: bytes
    chosen_id: bytes | None
    """By its producer; None: the script gives one."""
    job: JobFields

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:  # noqa: ARG002  as every operation's
        """None: it bears on no lock."""
        return ()

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        reply = exchange.reply
        if not answered(reply):
            line = failure(exchange, "add")
            return (self._happening(exchange, at, self.chosen_id, line),)
        code = code_of(reply)
        if code is not None and code < 0:
            line = Line("add", "refused", code=code, code_name=CODE_NAMES.get(code), job=self.job)
            return (self._happening(exchange, at, self.chosen_id, line),)
        if reply is None:
            return ()  # a scheduler that had nothing to add
        job_id = read_id(reply)
        line = Line("add", "ok" if job_id else "unknown", job=self.job)
        return (self._happening(exchange, at, job_id or self.chosen_id, line),)

    def _happening(self, exchange: Exchange, at: Place, job_id: bytes | None, line: Line | None) -> Happening:
        span, queue = window(exchange), Queue(exchange.db, self.prefix)
        if not job_id:
            return Happening(Nothing(at, span, queue), line)
        lock = Lock(exchange.db, lock_key(self.prefix, job_id))
        return Happening(Untouched(at, span, lock, queue, _OWNERLESS), line)


def read_id(reply: Reply) -> bytes | None:
    """The id of the job that was added: the answer itself, or the first of what a scheduler answers."""
    return plain(reply[0] if isinstance(reply, list) and reply else reply) or None


def recognise_add(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A call that adds a job; None where its packed arguments cannot be read."""
    arguments, options = unpack(layout.word(call, "packed_arguments")), unpack(layout.word(call, "packed_options"))
    if not isinstance(arguments, list) or len(arguments) < 2 or not isinstance(arguments[0], bytes) or not arguments[0]:
        return None
    return Adding(script, arguments[0], plain(arguments[1]) or None, read_added(arguments, None, options))


def recognise_scheduler(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A scheduler that is made, changed or due; in the older releases it only makes itself known, and adds no job."""
    prefix, options = layout.word(call, "prefix"), layout.word(call, "packed_options")
    if options is None:
        return recognise_queue_write(script, layout, call)
    name = entry(unpack(layout.word(call, "scheduler_options")), b"name")
    return Adding(script, prefix, None, read_added((), name, unpack(options))) if prefix else None
