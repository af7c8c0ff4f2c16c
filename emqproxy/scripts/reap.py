"""Reap: moveStalledJobsToWait. It moves the jobs it names, each of which it found without a lock.

The answer is a list of ids that went back to wait. Up to 5.53.1 it is two lists, those that failed first.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy.locks.events import Absent, AnyIntent, Lock, Nothing, Place, Queue, Sweep
from emqproxy.records import Line
from emqproxy.scripts.answers import answered, failure, part, window
from emqproxy.scripts.arguments import Call, plain, whole
from emqproxy.scripts.layouts import Layout, lock_key
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.session.exchange import Exchange, Reply

_OWNERLESS: Final = b""


class StalledSweep(msgspec.Struct, frozen=True):
    """A call of moveStalledJobsToWait. Its own place is part 0, answered last; the ids it names are parts from 1."""

    script: Script
    prefix: bytes
    interval_ms: int | None = None
    """How often its caller sweeps: so long the key `stalled-check` keeps others off."""

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return (Sweep(at, Queue(db, self.prefix)),)

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        span, queue = window(exchange), Queue(exchange.db, self.prefix)
        named = read_swept(exchange.reply)
        found = [
            Happening(
                Absent(
                    part(at, number),
                    span,
                    Lock(exchange.db, lock_key(self.prefix, job_id)),
                    queue,
                    _OWNERLESS,
                    swept=True,
                ),
                Line("reap", "ok", target=target, batch_size=len(named), interval_ms=self.interval_ms),
            )
            for number, (job_id, target) in enumerate(named, start=1)
        ]
        line = None
        if not named:  # it happened to no job, but that there are sweeps is worth knowing
            line = failure(exchange, "sweep")
            if answered(exchange.reply):
                line = Line("sweep", "ok", interval_ms=self.interval_ms)
        found.append(Happening(Nothing(at, span, queue), line))
        return tuple(found)


def read_swept(reply: Reply) -> list[tuple[bytes, str]]:
    """The ids that a sweep named, each with where its job went: `wait` or `failed`. What is no id is left out."""
    if not isinstance(reply, list):
        return []
    if len(reply) == 2 and isinstance(reply[0], list) and isinstance(reply[1], list):
        return [*_ids(reply[0], "failed"), *_ids(reply[1], "wait")]
    return _ids(reply, "wait")


def _ids(raw: list[Reply], target: str) -> list[tuple[bytes, str]]:
    return [(job_id, target) for job_id in map(plain, raw) if job_id]


def recognise_sweep(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A moveStalledJobsToWait; None where its prefix cannot be read. Where its arguments are shifted against its keys,
    as another release's, the queue is that of the keys."""
    prefix = layout.word(call, "prefix")
    if not prefix:
        return None
    if not any(key is not None and key.startswith(prefix) for key in call.keys):
        waits = (key[: -len(b"wait")] for key in call.keys if key is not None and key.endswith(b":wait"))
        prefix = next(waits, prefix)
    interval_ms = whole(layout.word(call, "max_check_time_ms"))
    return StalledSweep(script, prefix, interval_ms or None)
