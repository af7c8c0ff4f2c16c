"""For the proxy's tests: a client's end, a recording peer in Redis's place, a data plane on the test's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, Self

from emqproxy.config import Config, Listen, Upstream
from emqproxy.proxy.server import DataPlane
from tests.processes import LOOPBACK, EmqProxy, eventually
from tests.session.talk import pieces, words

TIMEOUT_S = 20
MARK_BYTES = 16


def sidecar(upstream: str, *args: str, ready: bool = True) -> EmqProxy:
    """The real one, exporting nothing: its end would wait for a collector that is not there."""
    return EmqProxy(upstream, *args, env={"OTEL_SDK_DISABLED": "true"}, ready=ready)


def listening(proxy: EmqProxy) -> None:
    """Waits for a sidecar whose upstream does not answer a PING, so that it is never ready."""
    proxy.wait_log(lambda line: line["event"] == "listening", TIMEOUT_S)


def dial(where: int | Path) -> socket.socket:
    """A connection to a port on loopback or a unix socket; each `sendall` leaves at once."""
    if isinstance(where, Path):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(TIMEOUT_S)
        try:
            made.connect(str(where))
        except OSError:
            made.close()
            raise
        return made
    made = socket.create_connection((LOOPBACK, where), timeout=TIMEOUT_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def drain(sock: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    got = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(1 << 20):
            got += piece
    return bytes(got)


def exactly(sock: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        piece = sock.recv(size - len(got))
        assert piece, f"closed after {len(got)} of {size} bytes"
        got += piece
    return bytes(got)


def ask(sock: socket.socket, *parts: str | bytes | int, answer: bytes) -> None:
    sock.sendall(words(*parts))
    assert exactly(sock, len(answer)) == answer


def send_all(sock: socket.socket, parts: Iterable[bytes], then: Callable[[], None] = lambda: None) -> threading.Thread:
    """Sends them in a thread of their own, so that whoever calls may read meanwhile."""

    def run() -> None:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for part in parts:
                sock.sendall(part)
            then()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def half_close(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was quicker
        sock.shutdown(socket.SHUT_WR)


def reset(sock: socket.socket) -> None:
    """Closes with a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def cut(data: bytes, rnd: random.Random, count: int) -> list[bytes]:
    return pieces(data, [rnd.randrange(1 << 30) for _ in range(count)])


def talk(where: int | Path, parts: Iterable[bytes]) -> bytes:
    """Sends, half-closes, and reads to the end."""
    with dial(where) as sock:
        sender = send_all(sock, parts, lambda: half_close(sock))
        got = drain(sock)
        sender.join(TIMEOUT_S)
    return got


def rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def connections(port: int) -> int:
    """How many established connections the server on this port has."""
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "01" for row in rows)


async def until(look: Callable[[], object]) -> None:
    """Looks again until it is so; for what has no event of its own. TimeoutError after TIMEOUT_S."""
    async with asyncio.timeout(TIMEOUT_S):
        while not look():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Peer:
    """What stands in Redis's place and may say anything. Tells a test's connection from our probe's by its mark."""

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._marked: dict[bytes, socket.socket] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._marked.values():
            sock.close()

    def pair(self, proxy: EmqProxy, mark: bytes) -> tuple[socket.socket, socket.socket]:
        """A client's end and the peer's, each open; a PING has come through."""
        client = dial(proxy.port)
        client.sendall(words("PING", mark))
        return client, eventually(lambda: self._marked.get(mark), what="the connection through the proxy")

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._meet, args=(sock,), daemon=True).start()

    def _meet(self, sock: socket.socket) -> None:
        head = len(words("PING", b"x" * MARK_BYTES))
        sock.settimeout(TIMEOUT_S)
        try:
            said = exactly(sock, head)
        except (AssertionError, OSError):
            sock.close()
            return
        if said[:-2].endswith(b"mark"):
            self._marked[said[-2 - MARK_BYTES : -2]] = sock
        else:
            sock.close()


def mark(number: int) -> bytes:
    return b"%012dmark" % number


@contextlib.asynccontextmanager
async def data_plane(
    upstream: str, change: Callable[[DataPlane], None] = lambda _: None, **keys: Any
) -> AsyncIterator[DataPlane]:
    """A whole data plane on the running loop, as `emqproxy run` makes it; `change` sees it before it starts."""
    nowhere: dict[str, Any] = {"health": None, "observer": {"admin": None}}
    given: dict[str, Any] = {"listen": (Listen("tcp", LOOPBACK, 0),)} | nowhere | keys
    plane = DataPlane(Config(upstream=Upstream.parse(upstream), **given))
    change(plane)
    serving = asyncio.create_task(plane.serve())
    try:
        while not plane._listening:
            assert not serving.done(), serving
            await asyncio.sleep(0)
        yield plane
    finally:
        for _ in range(2):
            plane._signalled(15)
        await serving


def port_of(plane: DataPlane) -> int:
    return int(plane.listeners.addresses[0].rpartition(":")[2])
