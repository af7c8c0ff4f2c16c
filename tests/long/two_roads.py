"""Two equal servers, one reached directly and one through a real sidecar: every conversation is held on both roads.

What must be equal is every byte that came back until the connection closed, and whether it closed before it was told
to. One thing is taken out before: the number of the connection in HELLO's answer, which is never the same twice.
Whether a close came as FIN or RST depends on what was still on its way, on either road, and is not compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import hiredis

from tests.long.steps import Conversation
from tests.long.vocabulary import MAY, PASSWORD, USER
from tests.processes import LOOPBACK, EmqProxy, RedisServer
from tests.proxy.wires import dial, half_close, sidecar
from tests.session.talk import words

PATIENCE_S: Final = 30
"""For an answer that must come; only a failure takes so long."""
TTL_APART_MS_MAX: Final = 15_000
OPTIONS: Final = {
    "enable-debug-command": "yes", "notify-keyspace-events": "KEA", "maxclients": "5000",
    # So that fields stand in the order in which they were written, not in that of the server's own hash seed.
    "hash-max-listpack-value": "1000000", "hash-max-listpack-entries": "100000", "set-max-intset-entries": "100000",
}  # fmt: skip
LAST: Final = b"that was all"
_CLIENT_ID: Final = re.compile(rb"\$2\r\nid\r\n:\d+\r\n")


class Heard(NamedTuple):
    """What came to one connection, and how it ended."""

    data: bytes
    end: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the two roads were not the same."""

    seed: str
    said: bytes
    direct: Heard
    proxied: Heard

    def __str__(self) -> str:
        pairs = zip(self.direct.data, self.proxied.data, strict=False)
        shorter = min(len(self.direct.data), len(self.proxied.data))
        at = next((place for place, (a, b) in enumerate(pairs) if a != b), shorter)
        cut = slice(max(0, at - 200), at + 200)
        return (
            f"{self.seed}: apart at byte {at}\n  said     {_shown(self.said)}\n"
            f"  direct   {self.direct.end}, {len(self.direct.data)} bytes: {self.direct.data[cut]!r}\n"
            f"  proxied  {self.proxied.end}, {len(self.proxied.data)} bytes: {self.proxied.data[cut]!r}"
        )


def _shown(data: bytes) -> str:
    return f"{data!r}" if len(data) <= 3000 else f"{data[:3000]!r} and {len(data) - 3000} bytes more"


class _Connection:
    """One end of a road."""

    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._got = bytearray()
        self._seen = 0
        """What stands before is not looked at again for what is awaited."""
        self._until: bytes | None = None
        self._woken = asyncio.Event()
        self._closed = False
        self._told = False
        self.end = ""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def to(cls, port: int) -> _Connection:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (LOOPBACK, port))
        return cls(sock)

    async def _read(self) -> None:
        with contextlib.suppress(OSError):
            while piece := await self._loop.sock_recv(self._sock, 1 << 18):
                self._got += piece
                if self._until is not None and self._found():
                    self._woken.set()
        self._closed = True
        self.end = "closed when told" if self._told else "closed unasked"
        self._woken.set()

    def _found(self) -> bool:
        assert self._until is not None
        at = self._got.find(self._until, self._seen)
        if at >= 0:
            self._seen = at + len(self._until)
            return True
        self._seen = max(self._seen, len(self._got) - len(self._until) + 1)
        return False

    async def send(self, pieces: Iterable[bytes]) -> None:
        with contextlib.suppress(OSError):  # closed by the other side: what it said before is still read
            for piece in pieces:
                await self._loop.sock_sendall(self._sock, piece)
                await asyncio.sleep(0)

    async def hear(self, until: bytes) -> None:
        self._until = until
        self._woken.clear()
        if not self._found() and not self._closed:
            await self._woken.wait()
        self._until = None

    async def finish(self, *, told_at_once: bool) -> None:
        """Half-closes and reads to the end. `told_at_once`: nobody can say whether it closed before it was told."""
        self._told = self._told or not self._closed or told_at_once
        half_close(self._sock)
        await self._reading
        if told_at_once:
            self.end = "closed when told"

    def stop(self) -> None:
        self._reading.cancel()
        self._sock.close()

    @property
    def heard(self) -> Heard:
        return Heard(_CLIENT_ID.sub(b"$2\r\nid\r\n:#\r\n", bytes(self._got)), self.end or "open")


async def hold(port: int, said: Conversation) -> list[Heard]:
    """One conversation on one road. Where an answer does not come in time, what came until then, `open`."""
    connections: list[_Connection] = []
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                for _ in range(said.connections):
                    connections += [await _Connection.to(port)]
                for step in said.steps:
                    await connections[step.by].send(step.pieces)
                    if step.until is not None:
                        await connections[step.by].hear(step.until)
                for connection in connections:
                    await connection.finish(told_at_once=said.steps[-1].until is None)
        return [connection.heard for connection in connections]
    finally:
        for connection in connections:
            connection.stop()


class Roads:
    """The servers and the sidecar. A context manager."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self.direct: RedisServer = self._stack.enter_context(RedisServer(**OPTIONS))
        try:
            self.behind: RedisServer = self._stack.enter_context(RedisServer(**OPTIONS))
            self.proxy: EmqProxy = self._stack.enter_context(sidecar(self.behind.url))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def fresh(self, scripts: bytes) -> None:
        """Both servers empty and alike. `scripts`: commands that load some."""
        lead = words("FLUSHALL") + words("SCRIPT", "FLUSH") + words("FUNCTION", "FLUSH") + scripts
        lead += words("ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", "~*", *MAY)
        for server in (self.direct, self.behind):
            answers = ask_all(server.port, lead)
            assert not [answer for answer in answers if isinstance(answer, hiredis.ReplyError)], answers

    async def compare(self, said: Conversation) -> list[Difference]:
        """The differences: of no connection, of one, of two."""
        direct, proxied = await asyncio.gather(hold(self.direct.port, said), hold(self.proxy.port, said))
        spoken = b" | ".join(b"".join(step.pieces) for step in said.steps)
        for heard in direct:
            assert heard.end != "open", f"{said.seed} did not end: {_shown(spoken)} gave {_shown(heard.data)}"
        pairs = itertools.zip_longest(direct, proxied, fillvalue=Heard(b"", "open"))
        return [Difference(said.seed, spoken, a, b) for a, b in pairs if a != b]

    def keys_apart(self) -> list[str]:
        """What stands in one server otherwise than in the other."""
        direct, behind = keyspace(self.direct.port), keyspace(self.behind.port)
        apart = [f"{key}: {direct.get(key)} and {behind.get(key)}" for key in direct.keys() | behind.keys()
                 if not _alike(direct.get(key), behind.get(key))]  # fmt: skip
        return sorted(apart)


def _alike(a: tuple[Any, int] | None, b: tuple[Any, int] | None) -> bool:
    if a is None or b is None or a[0] != b[0]:
        return False
    return (a[1] < 0) == (b[1] < 0) and abs(a[1] - b[1]) <= TTL_APART_MS_MAX


def ask_all(port: int, commands: bytes) -> list[Any]:
    """The replies to all commands, some thousand of them. Not half-closed: it may be paused."""
    reader, replies = hiredis.Reader(), []
    with dial(port) as sock:
        sock.sendall(commands + words("ECHO", LAST))
        while not replies or replies[-1] != LAST:
            data = sock.recv(1 << 20)
            assert data, f"closed after {len(replies)} replies"
            reader.feed(data)
            while (reply := reader.gets()) is not False:
                replies.append(reply)
    return replies[:-1]


def keyspace(port: int) -> dict[tuple[int, bytes], tuple[Any, int]]:
    """(database, key) → what identifies its value, and its time to live in milliseconds; below 0: it has none."""
    found: dict[tuple[int, bytes], tuple[Any, int]] = {}
    (told,) = ask_all(port, words("INFO", "keyspace"))
    for db in map(int, re.findall(rb"^db(\d+):", told, re.MULTILINE)):
        select = words("SELECT", db)
        keys = sorted(ask_all(port, select + words("KEYS", "*"))[1])
        for few in (keys[at : at + 500] for at in range(0, len(keys), 500)):
            asked = (words("DEBUG", "DIGEST-VALUE", key) + words("PTTL", key) + words("TYPE", key) for key in few)
            told = ask_all(port, select + b"".join(asked))[1:]
            for key, (digest,), ttl_ms, kind in zip(few, told[::3], told[1::3], told[2::3], strict=True):
                found[db, key] = (digest, ttl_ms)
                if kind == b"stream" and key.endswith(b":events"):  # their ids are times
                    entries = ask_all(port, select + words("XRANGE", key, "-", "+"))[1]
                    found[db, key] = ([fields for _, fields in entries], ttl_ms)
    return found
