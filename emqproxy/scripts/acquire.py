"""Acquire: moveToActive, and the fetch-next parts of moveToFinished and moveToDelayed, which share its reply.

The reply is an array of four. With a job: its hash, its id, 0, 0. Without: 0 first, then 0, a rate limit or the next
delayed job's time. The id stands only there: until the answer, a pickup may grant any job of its queue.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

import msgspec

from emqproxy.locks.events import AnyIntent, Granted, Lock, NoProof, Nothing, PerhapsGranted, Place, Queue, Take
from emqproxy.records import JobFields, Line
from emqproxy.scripts.answers import answered, failure, nothing_ran, window
from emqproxy.scripts.arguments import Call, Unreadable, Value, entry, plain, unpack_options, whole
from emqproxy.scripts.jobs import read_job
from emqproxy.scripts.layouts import Layout, lock_key
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.session.exchange import ErrorReply, Exchange, Reply, Word

WILDCARD: Final = b"0"
"""The token with which every lock check is skipped and no lock is set."""

_HASHES: Final = (list, dict)
"""A job's hash, in RESP 2 and 3."""


class NoGrant(enum.Enum):
    """Why a reply has no job to tell of."""

    EMPTY = "no job was given out"
    UNREADABLE = "no reply of a pickup, or its id could not be read"


class Grant(NamedTuple):
    """A job that was given out."""

    job_id: bytes
    job: JobFields


def read_grant(reply: Reply) -> Grant | NoGrant:
    """The job in a pickup's array. Never raises."""
    if not isinstance(reply, list) or len(reply) < 2:
        return NoGrant.UNREADABLE
    head = reply[0]
    if isinstance(head, _HASHES):
        job_id = plain(reply[1])
        return Grant(job_id, read_job(head)) if job_id else NoGrant.UNREADABLE
    return NoGrant.EMPTY if head == 0 and not isinstance(head, bool) else NoGrant.UNREADABLE


class Fetch(msgspec.Struct, frozen=True):
    """What a pickup or a fetch-next asks for."""

    prefix: bytes
    token: bytes | None
    """None: it could not be read."""
    ttl_ms: int | None
    """None: missing, zero or no whole number. The script then fails where it would set the lock."""
    fetched: bool = False
    """It rides on a finish or a delay."""

    def intent(self, place: Place, db: int) -> Take:
        return Take(place, Queue(db, self.prefix), self.token or b"", self.ttl_ms)

    def after(self, exchange: Exchange, place: Place) -> Happening:
        """What any answer of the whole call proves of the pickup in it."""
        reply = exchange.reply
        if not answered(reply):
            # With the wildcard no lock is ever set, whatever became of the call.
            return self.nothing(exchange, place) if self._harmless(reply) else self.perhaps(exchange, place)
        grant = read_grant(reply)
        if isinstance(grant, Grant):
            return self._granted(exchange, place, grant.job_id, grant.job)
        return (self.nothing if grant is NoGrant.EMPTY else self.perhaps)(exchange, place)

    def nothing(self, exchange: Exchange, place: Place) -> Happening:
        """No job was given out: no line, as nothing happened to any job."""
        return Happening(Nothing(place, window(exchange), Queue(exchange.db, self.prefix)), None)

    def perhaps(self, exchange: Exchange, place: Place) -> Happening:
        """Any job of the queue may have been given out, and none can be named: only a pickup that failed in its middle
        has a line, for the job that it left without a lock."""
        queue = Queue(exchange.db, self.prefix)
        fact = PerhapsGranted(place, window(exchange), queue, self.token or b"", self.ttl_ms)
        failed = isinstance(exchange.reply, ErrorReply) and not self.fetched
        return Happening(fact, failure(exchange, "acquire") if failed else None)

    def _harmless(self, reply: Reply) -> bool:
        return self.token == WILDCARD or nothing_ran(reply)

    def _granted(self, exchange: Exchange, place: Place, job_id: bytes, job: JobFields) -> Happening:
        line = Line("acquire", "ok", fetched=self.fetched, job=job)
        queue = Queue(exchange.db, self.prefix)
        lock = Lock(exchange.db, lock_key(self.prefix, job_id))
        if self.token == WILDCARD:
            # The job was given out and no lock was set or looked at. That proves nothing of the lock; it is no
            # `Bypassed` either, which says that a job left a state that a lock guards.
            return Happening(NoProof(place, window(exchange), lock, queue, WILDCARD), line)
        if self.token is None or self.ttl_ms is None:
            return self.perhaps(exchange, place)
        return Happening(Granted(place, window(exchange), lock, queue, self.token, self.ttl_ms), line)


def read_fetch(prefix: Word, options: Value | Unreadable, *, fetched: bool = False) -> Fetch | None:
    """A pickup's wishes from its prefix and unpacked options; None where the prefix could not be read."""
    if not prefix:
        return None
    token, ttl_ms = plain(entry(options, b"token")), whole(entry(options, b"lockDuration"))
    return Fetch(prefix, token, ttl_ms or None, fetched)


class Pickup(msgspec.Struct, frozen=True):
    """A call of moveToActive."""

    script: Script
    fetch: Fetch

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return (self.fetch.intent(at, db),)

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        return (self.fetch.after(exchange, at),)


def recognise_pickup(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A moveToActive, 4.0.0 and later."""
    fetch = read_fetch(layout.word(call, "prefix"), unpack_options(layout.word(call, "packed_options")))
    if fetch is None:
        return None
    layout.queues.saw(fetch.prefix)
    return Pickup(script, fetch)
