"""The faults that happen to connections: a middleman before a real Redis who commits them, and peers who vanish.

    with Middleman(redis.port) as between:      # the proxy's upstream is `between.url`
        between.cut(after=7, how="reset")       # every answer from now on ends after so many bytes
        between.heal()

`deafen` makes a socket a host that was switched off: what is sent to it is never acknowledged, and it says nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import random
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar, cast

import uvloop

from tests.processes import LOOPBACK

T = TypeVar("T")
How = Literal["reset", "close", "silence"]

SO_ATTACH_FILTER = 26
DROP = struct.pack("HBBI", 0x06, 0, 0, 0)
"""One instruction of the classic packet filter: return 0, keep nothing."""


def deafen(sock: socket.socket) -> None:
    """From now on each segment that arrives for this socket is dropped, acknowledgements and resets among them."""
    code = ctypes.create_string_buffer(DROP)
    program = struct.pack("HL", 1, ctypes.addressof(code))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


class Side(asyncio.Protocol):
    """One of a link's two ends."""

    def __init__(self, took: Callable[[bytes], None], over: Callable[[], None]) -> None:
        self._took, self._over = took, over
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._took(data)

    def connection_lost(self, _: Exception | None) -> None:
        self._over()


class Link:
    """One connection through the middleman, and what is wrong with it."""

    def __init__(self, middleman: Middleman) -> None:
        self._middleman = middleman
        self.near = Side(self._asked, self.close)
        self.far: Side | None = None
        self._early: list[bytes] = []
        self._answered_bytes = 0
        self._later = 0.0
        self._over = False

    async def open(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self.near, sock)
        self.socket = sock
        try:
            _, far = await loop.create_connection(lambda: Side(self._answer, self.close), LOOPBACK, self._middleman.to)
        except OSError:
            self.close()
            return
        if self._over:
            far.transport.close()
            return
        self.far = far
        for data in self._early:
            far.transport.write(data)

    def _asked(self, data: bytes) -> None:
        if self.far is None:
            self._early.append(data)
        elif not self._middleman.silent:
            self.far.transport.write(data)

    def _answer(self, data: bytes) -> None:
        between = self._middleman
        if between.cut_after is not None:
            room = between.cut_after - self._answered_bytes
            data, rest = data[:room], data[room:]
            self._answered_bytes += len(data)
            self.near.transport.write(data)
            if rest or self._answered_bytes >= between.cut_after:
                self._cut(between.cut_how)
        elif between.piece_bytes:
            self._trickle(data)
        elif not between.silent:
            self.near.transport.write(data)

    def _trickle(self, data: bytes) -> None:
        loop, size = asyncio.get_running_loop(), self._middleman.piece_bytes
        self._later = max(self._later, loop.time())
        for at in range(0, len(data), size):
            self._later += self._middleman.pause_s
            loop.call_at(self._later, self.near.transport.write, data[at : at + size])

    def _cut(self, how: How) -> None:
        if how == "reset":
            self.reset()
        elif how == "close":
            self.close()

    def reset(self) -> None:
        """RST to both, whatever is still to be said."""
        for side in (self.near, self.far):
            if side is not None and side.transport is not None and not side.transport.is_closing():
                sock = side.transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                side.transport.abort()

    def close(self) -> None:
        self._over = True
        self._middleman.links.discard(self)
        for side in (self.near, self.far):
            if side is not None and side.transport is not None:
                side.transport.close()


class Middleman:
    """Listens on `port`, and is all that its clients see of the Redis at `to`. A context manager with a thread."""

    def __init__(self, to: int) -> None:
        self.to = to
        self.links: set[Link] = set()
        self.cut_after: int | None = None
        self.cut_how: How = "reset"
        self.piece_bytes = 0
        self.pause_s = 0.0
        self.silent = False
        self._listener = socket.create_server((LOOPBACK, 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}"

    # ---------------------------------------------------------------- faults

    def cut(self, after: int, how: How) -> None:
        """On each connection so many bytes of answers pass from now on, and then it ends so, or nothing more comes."""
        self._do(lambda: self._set(cut_after=after, cut_how=how))

    def trickle(self, piece_bytes: int, pause_s: float) -> None:
        """Answers come in pieces, with a pause before each."""
        self._do(lambda: self._set(piece_bytes=piece_bytes, pause_s=pause_s))

    def swallow(self) -> None:
        """Connections stay open, and nothing passes, either way."""
        self._do(lambda: self._set(silent=True))

    def vanish(self) -> None:
        """All connections are those of a host that was switched off."""
        self._do(lambda: [deafen(link.near.transport.get_extra_info("socket")) for link in self.links])

    def reset(self, count: int | None = None, rng: random.Random | None = None) -> int:
        """RST on all connections, or on so many of them; on how many."""

        def do() -> int:
            chosen = list(self.links)
            if count is not None and rng is not None:
                chosen = rng.sample(chosen, min(count, len(chosen)))
            for link in chosen:
                link.reset()
            return len(chosen)

        return self._do(do)

    def ports(self) -> list[int]:
        """Our own ends of the connections to Redis: CLIENT KILL knows them by these."""

        def do() -> list[int]:
            far = [link.far.transport for link in self.links if link.far is not None and link.far.transport is not None]
            return [transport.get_extra_info("sockname")[1] for transport in far if not transport.is_closing()]

        return self._do(do)

    def heal(self) -> None:
        """Connections that are there and those to come pass everything."""
        self._do(self._set)

    def _set(self, **faults: Any) -> None:
        whole: dict[str, Any] = {
            "cut_after": None,
            "cut_how": "reset",
            "piece_bytes": 0,
            "pause_s": 0.0,
            "silent": False,
        }
        for name, value in (whole | faults).items():
            setattr(self, name, value)
        for link in self.links:
            link._answered_bytes = 0

    # ---------------------------------------------------------------- its life

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(lambda: [link.close() for link in list(self.links)])
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._listener.close()

    def _do(self, call: Callable[[], T]) -> T:
        """In the middleman's thread; waits for it."""

        async def within() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(within(), self._loop).result(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._listener.setblocking(False)
        accepting = self._loop.create_task(self._accept())
        self._loop.run_forever()
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(accepting, *rest, return_exceptions=True))
        self._loop.close()

    async def _accept(self) -> None:
        opening: set[asyncio.Task[None]] = set()
        while True:
            sock, _ = await self._loop.sock_accept(self._listener)
            link = Link(self)
            self.links.add(link)
            task = self._loop.create_task(link.open(sock))
            opening.add(task)
            task.add_done_callback(opening.discard)
