"""A worker's side of the conversation, for tests: calls made by hand, sent to a real Redis, read by the catalogue."""

from __future__ import annotations

import functools
import hashlib
import itertools
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import bullmq
import hiredis
import msgpack

from emqproxy.locks.events import Lock, Place, Queue, Window
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.operation import Happening, Operation
from emqproxy.session.exchange import Command, ErrorReply, Exchange, Reply
from tests.processes import LOOPBACK, inline

PREFIX = b"emq:orders:"
QUEUE = Queue(0, PREFIX)
AT = Place(7, 41)
OPENED, CLOSED = 1_000, 2_000
SPAN = Window(OPENED, CLOSED)
TTL_MS = 30_000

_COMMANDS = Path(bullmq.__file__).parent / "commands"


def text_of(label: str) -> bytes:
    """The text of a script as the wheel has it: read where it lies."""
    return (_COMMANDS / f"{label}.lua").read_bytes()


@functools.cache
def sha_of(label: str) -> bytes:
    return hashlib.sha1(text_of(label)).hexdigest().encode()


def lock(job: str, prefix: bytes = PREFIX, db: int = 0) -> Lock:
    return Lock(db, prefix + job.encode() + b":lock")


def keys(*names: str, prefix: bytes = PREFIX) -> list[bytes]:
    return [prefix + name.encode() for name in names]


def words(name: str, code: bytes, keys: Sequence[bytes], *args: object) -> list[bytes | None]:
    """A script call as it is sent."""
    plain = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
    return [name.encode(), code, b"%d" % len(keys), *keys, *plain]


def evalsha(sha: bytes, keys: Sequence[bytes], *args: object) -> list[bytes | None]:
    return words("evalsha", sha, keys, *args)


def command(sent: Sequence[bytes | None], db: int = 0) -> Command:
    name = sent[0]
    assert name is not None
    return Command(name=name.upper(), words=list(sent), request=AT.request, db=db, opened=OPENED)


def exchange(
    sent: Sequence[bytes | None], reply: Reply, *, db: int = 0, in_exec: bool = False, resp: Literal[2, 3] = 2
) -> Exchange:
    return Exchange(command(sent, db), reply, OPENED, CLOSED, db, in_exec, resp)


class Conversation:
    """Calls over one connection, each with the operation it was recognised as and what its answer proves."""

    def __init__(self, port: int, catalogue: Catalogue, *, resp: Literal[2, 3] = 2) -> None:
        self.catalogue = catalogue
        self.resp: Literal[2, 3] = resp
        self._socket = socket.create_connection((LOOPBACK, port), timeout=10)
        self._reader = hiredis.Reader()
        self.operation: Operation | None = None
        if resp == 3:
            assert b"version" in self.redis("HELLO", "3")  # type: ignore[operator]

    def close(self) -> None:
        self._socket.close()

    def redis(self, *sent: str | bytes | int) -> Reply:
        """Any command; its decoded reply."""
        self._socket.sendall(inline(*(word if isinstance(word, bytes) else str(word) for word in sent)))
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(65_536))
        return _plain(reply)

    def ask(self, sent: Sequence[bytes | None], *, db: int = 0) -> tuple[Happening, ...]:
        """A script call that must be recognised; its answer read. Every intent is answered by exactly one fact."""
        call = command(sent, db)
        self.operation = self.catalogue.recognise(call)
        assert self.operation is not None, sent[:3]
        reply = self.redis(*(word for word in sent if word is not None))
        return read(self.operation, exchange(sent, reply, db=db, resp=self.resp))

    def add(self, *jobs: str, prefix: bytes = PREFIX, **fields: str | int) -> None:
        """Puts jobs into wait as a producer does, as far as the scripts look."""
        for job in jobs:
            told = {"name": "n", "data": "{}", "opts": "{}", "timestamp": 1, "delay": 0, "priority": 0} | fields
            flat: list[Any] = list(itertools.chain(*told.items()))
            self.redis("HSET", prefix + job.encode(), *flat)
            self.redis("LPUSH", prefix + b"wait", job)
            self.redis("ZADD", prefix + b"marker", 0, "0")


def read(operation: Operation, said: Exchange) -> tuple[Happening, ...]:
    """The happenings of an exchange, checked against the operation's intents."""
    intents = operation.intents(AT, said.db)
    found = operation.happenings(said, AT)
    places = [happening.fact.place for happening in found]
    assert len(set(places)) == len(places)
    assert {intent.place for intent in intents} <= set(places)
    assert all(happening.fact.window == SPAN for happening in found)
    return found


def _plain(value: Any) -> Reply:
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, hiredis.ReplyError):
        return ErrorReply(str(value).encode())
    return value


# ---------------------------------------------------------------- the calls of a worker of release 6.7.0

PICK_KEYS = (
    "wait", "active", "prioritized", "events", "stalled", "limiter", "delayed", "paused", "meta", "pc", "marker",
)  # fmt: skip
_SWEEP_KEYS = ("stalled", "wait", "active", "stalled-check", "meta", "paused", "marker", "events", "repeat")


def pick(token: str, ttl_ms: object = TTL_MS, prefix: bytes = PREFIX) -> list[bytes | None]:
    packed = msgpack.packb({"token": token, "lockDuration": ttl_ms, "limiter": None, "name": "w"})
    return evalsha(sha_of("moveToActive-11"), keys(*PICK_KEYS, prefix=prefix), prefix, 1_700_000_000_000, packed)


def finish(
    job: str, token: str, *, target: str = "completed", fetch: str = "", ttl_ms: object = TTL_MS, keep: int = -1
) -> list[bytes | None]:
    packed = msgpack.packb(
        {"token": token, "keepJobs": {"count": keep}, "lockDuration": ttl_ms, "attempts": 1, "maxMetricsSize": ""}
    )
    names = (*PICK_KEYS[:10], target, job, f"metrics:{target}", "marker")
    field = "returnvalue" if target == "completed" else "failedReason"
    args = (job, 1_700_000_000_000, field, "null", target, fetch, PREFIX, packed, b"")
    return evalsha(sha_of("moveToFinished-14"), keys(*names), *args)


def delay(job: str, token: str, delay_ms: int = 1000, *, fetch: str = "0", next_token: str = "") -> list[bytes | None]:
    names = ("marker", "active", "prioritized", "delayed", job, "events", "meta", "stalled", "wait", "limiter", "pc")
    packed = msgpack.packb({"token": next_token or token, "lockDuration": TTL_MS}) if fetch == "1" else b""
    args = (PREFIX, 1_700_000_000_000, job, token, delay_ms, "0", b"", fetch, packed)
    return evalsha(sha_of("moveToDelayed-11"), keys(*names), *args)


def retry(job: str, token: str) -> list[bytes | None]:
    names = ("active", "wait", "paused", job, "meta", "events", "delayed", "prioritized", "pc", "marker", "stalled")
    return evalsha(sha_of("retryJob-11"), keys(*names), PREFIX, 1_700_000_000_000, "LPUSH", job, token, b"")


def back(job: str, token: str) -> list[bytes | None]:
    names = ("active", "wait", "stalled", "paused", "meta", "limiter", "prioritized", "marker", "events")
    return evalsha(sha_of("moveJobFromActiveToWait-9"), keys(*names), job, token, PREFIX + job.encode())


def to_children(job: str, token: str) -> list[bytes | None]:
    names = ("active", "waiting-children", job, f"{job}:dependencies", f"{job}:unsuccessful", "stalled", "events")
    return evalsha(sha_of("moveToWaitingChildren-7"), keys(*names), token, "", 1_700_000_000_000, job, PREFIX)


def release(job: str, token: str) -> list[bytes | None]:
    return evalsha(sha_of("releaseLock-1"), [lock(job).key], token, TTL_MS)


def renew(job: str, token: str, ttl_ms: object = TTL_MS) -> list[bytes | None]:
    return evalsha(sha_of("extendLock-2"), [lock(job).key, PREFIX + b"stalled"], token, ttl_ms, job)


def renew_all(jobs: Sequence[object], tokens: Sequence[object], ttl_ms: object = TTL_MS) -> list[bytes | None]:
    packed = (msgpack.packb(list(tokens)), msgpack.packb(list(jobs)))
    return evalsha(sha_of("extendLocks-1"), keys("stalled"), PREFIX, *packed, ttl_ms)


def sweep(limit: int = 1, guard_ms: int = 1) -> list[bytes | None]:
    return evalsha(sha_of("moveStalledJobsToWait-9"), keys(*_SWEEP_KEYS), limit, PREFIX, 1_700_000_000_000, guard_ms)


def float64(number: float) -> bytes:
    """As Node packs its times."""
    return b"\xcb" + struct.pack(">d", number)
