"""Renew: extendLock, and extendLocks, whose answer is the list of ids that were not extended."""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias

import msgspec

from emqproxy.locks.events import (
    AnyIntent,
    AnyLockFact,
    Lock,
    NoProof,
    NotMine,
    Perhaps,
    Place,
    Queue,
    Renew,
    Renewed,
    Window,
)
from emqproxy.records import Line
from emqproxy.scripts.answers import RENEW_REFUSED, answered, code_of, failure, nothing_ran, part, window
from emqproxy.scripts.arguments import Call, plain, unpack, whole
from emqproxy.scripts.layouts import LOCK_SUFFIX, Layout, lock_key
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.session.exchange import Exchange, Reply

_DONE: Final = Line("renew", "ok", code=1)
_REFUSED: Final = Line("renew", "refused", code=0, code_name=RENEW_REFUSED)


class Renewal(msgspec.Struct, frozen=True):
    """A call of extendLock."""

    script: Script
    key: bytes
    """The lock's."""
    prefix: bytes
    token: bytes
    ttl_ms: int

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return (Renew(at, Queue(db, self.prefix), Lock(db, self.key), self.token, self.ttl_ms),)

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        about = (at, window(exchange), Lock(exchange.db, self.key), Queue(exchange.db, self.prefix), self.token)
        if not answered(exchange.reply):
            fact = _unanswered(exchange.reply, about, self.ttl_ms)
            return (Happening(fact, failure(exchange, "renew")),)
        code = code_of(exchange.reply)
        if code == 1:
            return (Happening(Renewed(*about, self.ttl_ms), _DONE),)
        if code == 0:
            return (Happening(NotMine(*about, True, self.ttl_ms), _REFUSED),)
        return (Happening(Perhaps(*about, self.ttl_ms), Line("renew", "unknown", code=code)),)


class BatchRenewal(msgspec.Struct, frozen=True):
    """A call of extendLocks. Id i of the batch is part i of its place."""

    script: Script
    prefix: bytes
    ids: tuple[bytes, ...]
    tokens: tuple[bytes, ...]
    """As many as ids; empty where the call had none for the id, which then cannot be extended."""
    ttl_ms: int

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        queue = Queue(db, self.prefix)
        return tuple(
            Renew(part(at, number), queue, Lock(db, lock_key(self.prefix, job_id)), token, self.ttl_ms)
            for number, (job_id, token) in enumerate(zip(self.ids, self.tokens, strict=True))
        )

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        extended = self._extended(exchange.reply)
        size = len(self.ids)
        unheard = failure(exchange, "renew", batch_size=size)
        if extended is None and answered(exchange.reply):
            unheard = Line("renew", "unknown", batch_size=size)
        done = Line("renew", "ok", batch_size=size)
        undone = Line("renew", "refused", code=0, code_name=RENEW_REFUSED, batch_size=size)
        doubled = Line("renew", "unknown", batch_size=size)
        span, queue, found = window(exchange), Queue(exchange.db, self.prefix), []
        for number, (job_id, token) in enumerate(zip(self.ids, self.tokens, strict=True)):
            about = (part(at, number), span, Lock(exchange.db, lock_key(self.prefix, job_id)), queue, token)
            if extended is None:
                found.append(Happening(_unanswered(exchange.reply, about, self.ttl_ms), unheard))
                continue
            held = extended[job_id]
            if held is None:
                found.append(Happening(Perhaps(*about, self.ttl_ms), doubled))
            elif held:
                found.append(Happening(Renewed(*about, self.ttl_ms), done))
            else:
                found.append(Happening(NotMine(*about, True, self.ttl_ms), undone))
        return tuple(found)

    def _extended(self, reply: Reply) -> dict[bytes, bool | None] | None:
        """Whether each id was extended. None for an id that stands several times and failed some of them; None for
        all where the reply is no list of ids of this batch."""
        if not isinstance(reply, list):
            return None
        failed = [plain(element) for element in reply]
        asked, refused = Counter(self.ids), Counter(job_id for job_id in failed if job_id is not None)
        if None in failed or any(refused[job_id] > asked[job_id] for job_id in refused):
            return None
        return {
            job_id: True if not refused[job_id] else False if refused[job_id] == times else None
            for job_id, times in asked.items()
        }


_About: TypeAlias = tuple[Place, Window, Lock, Queue, bytes]


def _unanswered(reply: Reply, about: _About, ttl_ms: int) -> AnyLockFact:
    """An error in the middle may come after the new time to live was set (a wrong type of the stalled key does), and
    in a batch after any of the ids."""
    return NoProof(*about) if nothing_ran(reply) else Perhaps(*about, ttl_ms)


def recognise_renewal(script: Script, layout: Layout, call: Call) -> Operation | None:
    """An extendLock; None where the key is no lock's, or token or duration cannot be read."""
    key, token, ttl_ms = layout.word(call, "lock"), layout.word(call, "token"), whole(layout.word(call, "duration_ms"))
    if key is None or token is None or not ttl_ms or not key.endswith(LOCK_SUFFIX):
        return None
    prefix = layout.prefix_of(call, key[: -len(LOCK_SUFFIX)])
    return Renewal(script, key, prefix, token, ttl_ms)


def recognise_batch(script: Script, layout: Layout, call: Call) -> Operation | None:
    """An extendLocks; None where its lists or its duration cannot be read."""
    prefix, ttl_ms = layout.word(call, "prefix"), whole(layout.word(call, "duration_ms"))
    tokens, ids = unpack(layout.word(call, "tokens")), unpack(layout.word(call, "job_ids"))
    if not prefix or not ttl_ms or not isinstance(tokens, list) or not isinstance(ids, list):
        return None
    named = [job_id for job_id in map(plain, ids) if job_id is not None]
    if len(named) < len(ids):
        return None
    given = [plain(token) or b"" for token in tokens[: len(named)]]
    given += [b""] * (len(named) - len(given))
    return BatchRenewal(script, prefix, tuple(named), tuple(given), ttl_ms)
