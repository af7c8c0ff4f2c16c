"""Large values through a real sidecar, both ways, in every form a worker has: what passes, and what is read of it.

Used by `test_relay_streams` with sizes that take moments and by `tests/long/streams.py` with Redis's own limit.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import hiredis

from emqproxy.observer.tokens import Tokens
from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.wires import dial, exactly
from tests.scripts import talk

MIB: Final = 1 << 20
_TRAPS: Final = b"\r\n$-1\r\n:0\r\n*3\r\n$3\r\nSET\r\n+OK\r\n>1\r\n-ERR\r\n\r\r\n"
BLOCK: Final = (_TRAPS + b"".join(hashlib.sha512(b"%d" % number).digest() for number in range(MIB // 64)))[:MIB]
"""A MiB of bytes that look like replies and requests, and of bytes that look like nothing."""
ANSWER_S = 60
SCRIPT_AT, KEYS_AT = 1, 3


class Value(NamedTuple):
    """A word of so many MiB; never whole in memory."""

    mib: int

    @property
    def size(self) -> int:
        return self.mib * MIB

    @property
    def data(self) -> bytes:
        return BLOCK * self.mib


Word = bytes | Value | None


def pieces(sent: Sequence[Word]) -> Iterator[bytes]:
    """A command as RESP, a large word block by block."""
    yield b"*%d\r\n" % len(sent)
    for word in sent:
        assert word is not None
        if isinstance(word, Value):
            yield b"$%d\r\n" % word.size
            yield from (BLOCK for _ in range(word.mib))
            yield b"\r\n"
        else:
            yield b"$%d\r\n%s\r\n" % (len(word), word)


def peak_mib(pid: int) -> float:
    """The most memory that a process ever had."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) / 1024 for row in rows if row.startswith("VmHWM:"))


class Client:
    """A worker's connection through the sidecar, or past it."""

    def __init__(self, port: int, resp: int = 2) -> None:
        self.sock: socket.socket = dial(port)
        self.sock.settimeout(ANSWER_S)
        self._reader = hiredis.Reader()
        if resp == 3:
            assert b"version" in str(self.ask(b"HELLO", b"3")).encode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, *sent: Word) -> None:
        for piece in pieces(sent):
            self.sock.sendall(piece)

    def answer(self) -> Any:
        while (reply := self._reader.gets()) is False:
            data = self.sock.recv(MIB)
            assert data, "closed"
            self._reader.feed(data)
        return reply

    def ask(self, *sent: Word) -> Any:
        self.send(*sent)
        return self.answer()

    def get(self, key: bytes, value: Value) -> None:
        """GET, compared block by block."""
        self.send(b"GET", key)
        self.read(value)

    def read(self, value: Value) -> None:
        head = b"$%d\r\n" % value.size
        assert exactly(self.sock, len(head)) == head
        for _ in range(value.mib):
            assert exactly(self.sock, MIB) == BLOCK
        assert exactly(self.sock, 2) == b"\r\n"


class Stage:
    """A sidecar before a Redis, both of the test's own, and how much the sidecar has grown since it was ready."""

    def __init__(self, redis: RedisServer, proxy: EmqProxy) -> None:
        self.redis, self.proxy = redis, proxy
        self._jobs = 0
        with Client(redis.port) as client:
            for label in ("moveToActive-11", "moveToFinished-14", "extendLock-2"):
                assert client.ask(b"SCRIPT", b"LOAD", talk.text_of(label)) == talk.sha_of(label)
        with Client(proxy.port) as client:  # what the first calls load belongs to no value
            self.play(client, Value(1), Value(1), eval_=True)
        self.began_mib = peak_mib(proxy.pid)

    @property
    def grown_mib(self) -> float:
        return peak_mib(self.proxy.pid) - self.began_mib

    def job(self) -> str:
        self._jobs += 1
        return f"job-{self._jobs}"

    def line(self, op: str, job: str) -> dict[str, Any]:
        return self.proxy.wait_journal(lambda line: line["op"] == op and line.get("job") == job, 30)

    # ---------------------------------------------------------------- scenes

    def add(self, data: Value) -> str:
        """A job with so much data, past the sidecar."""
        job = self.job()
        with Client(self.redis.port) as producer:
            fields = (
                b"name",
                b"n",
                b"data",
                data,
                b"opts",
                b"{}",
                b"timestamp",
                b"1",
                b"delay",
                b"0",
                b"priority",
                b"0",
            )
            producer.ask(b"HSET", talk.PREFIX + job.encode(), *fields)
            producer.ask(b"LPUSH", talk.PREFIX + b"wait", job.encode())
        return job

    def acquire(self, client: Client, data: Value, *, eval_: bool = False) -> tuple[str, str]:
        """A pickup whose job has so much data, its id behind that: the journal knows job and token."""
        job = self.add(data)
        token = f"token-of-{job}"
        grant = client.ask(*form("moveToActive-11", talk.pick(token), eval_=eval_))
        assert grant[1] == job.encode()
        fields = dict(zip(grant[0][::2], grant[0][1::2], strict=True))
        assert fields[b"data"] == data.data
        self.check("acquire", job, token)
        return job, token

    def finish_words(self, job: str, token: str, value: Value, *, eval_: bool = False) -> list[Word]:
        sent = form("moveToFinished-14", talk.finish(job, token), eval_=eval_)
        at = KEYS_AT + 14 + 3
        assert sent[at] == b"null"
        return [*sent[:at], value, *sent[at + 1 :]]

    def play(self, client: Client, data: Value, value: Value, *, eval_: bool = False) -> None:
        """A job's whole life: much data, and a large return value, the token behind it."""
        job, token = self.acquire(client, data, eval_=eval_)
        assert client.ask(*self.finish_words(job, token, value, eval_=eval_)) == 0
        self.check("finish", job, token)
        self.forget(job)

    def play_in_exec(self, client: Client, data: Value, value: Value) -> None:
        """In one EXEC: a large value read, then a finish with another; its code stands behind the first."""
        job, token = self.acquire(client, Value(1))
        with Client(self.redis.port) as other:
            assert other.ask(b"SET", b"large", data) == b"OK"
        assert client.ask(b"MULTI") == b"OK"
        assert client.ask(b"GET", b"large") == b"QUEUED"
        assert client.ask(*self.finish_words(job, token, value)) == b"QUEUED"
        results = client.ask(b"EXEC")
        assert (results[0], results[1]) == (data.data, 0)
        self.check("finish", job, token)
        self.forget(job, "large")

    def acquire_in_exec(self, client: Client, data: Value) -> None:
        """In one EXEC: a pickup whose job has much data, and a renewal of it behind that."""
        job = self.add(data)
        token = f"token-of-{job}"
        for sent in ([b"MULTI"], talk.pick(token), talk.renew(job, token), [b"EXEC"]):
            client.send(*sent)
        assert [client.answer() for _ in range(3)] == [b"OK", b"QUEUED", b"QUEUED"]
        grant, renewed = client.answer()
        assert (grant[1], renewed) == (job.encode(), 1)
        self.check("acquire", job, token)
        self.check("renew", job, token)
        self.forget(job)

    def set_and_get(self, client: Client, value: Value) -> None:
        assert client.ask(b"SET", b"large", value) == b"OK"
        client.get(b"large", value)
        self.forget("large")

    def listed(self, client: Client, mib: int) -> None:
        """An array of so many MiB in small elements, every other one with a line end inside."""
        element = b"\r\n" + bytes(200)
        count = mib * MIB // len(element)
        with Client(self.redis.port) as direct:
            fill = b"for _ = 1, ARGV[2] do redis.call('RPUSH', KEYS[1], ARGV[1], string.rep('x', 202)) end return 1"
            assert direct.ask(b"EVAL", fill, b"1", b"list", element, b"%d" % (count // 2)) == 1
        client.send(b"LRANGE", b"list", b"0", b"-1")
        head = b"*%d\r\n" % (count // 2 * 2)
        assert exactly(client.sock, len(head)) == head
        pair = b"$202\r\n" + element + b"\r\n$202\r\n" + b"x" * 202 + b"\r\n"
        for _ in range(count // 2 // 1000):
            assert exactly(client.sock, len(pair) * 1000) == pair * 1000
        assert exactly(client.sock, len(pair) * (count // 2 % 1000)) == pair * (count // 2 % 1000)
        assert client.ask(b"DEL", b"list") == 1

    def slow_reader(self, value: Value) -> None:
        """One client asks for much and does not read; others are served meanwhile; it then gets every byte."""
        with Client(self.proxy.port) as slow, Client(self.proxy.port) as other, Client(self.redis.port) as direct:
            assert direct.ask(b"SET", b"large", value) == b"OK"
            slow.send(b"GET", b"large")
            eventually(lambda: output_waits(self.redis), what="output waits in Redis")
            job, token = self.acquire(other, Value(1))
            assert other.ask(*talk.renew(job, token)) == 1
            assert other.ask(*talk.finish(job, token)) == 0
            self.check("finish", job, token)
            slow.read(value)
            self.forget("large", job)

    def check(self, op: str, job: str, token: str) -> None:
        line = self.line(op, job)
        told = (line["outcome"], line["token"], line["finding"])
        assert told == ("ok", Tokens("fingerprint").name(token.encode()).token, "sound"), line

    def forget(self, *names: str) -> None:
        """Frees Redis's memory, past the sidecar: values, and the events that repeat them."""
        with Client(self.redis.port) as client:
            client.ask(b"DEL", talk.PREFIX + b"events", *(name.encode() for name in names))
            client.ask(b"DEL", *(talk.PREFIX + name.encode() for name in names))


def form(label: str, sent: Sequence[bytes | None], *, eval_: bool) -> list[Word]:
    """The call as it is, or with the script's text."""
    head: list[Word] = [b"EVAL", talk.text_of(label)] if eval_ else list(sent[: SCRIPT_AT + 1])
    return [*head, *sent[SCRIPT_AT + 1 :]]


def output_waits(redis: RedisServer) -> bool:
    """Whether a client of Redis does not take what it has for it."""
    rows = redis.call("CLIENT", "LIST").splitlines()
    return any(int(row.partition(b"omem=")[2].split()[0]) > 0 for row in rows if b"omem=" in row)
