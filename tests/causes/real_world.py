"""A scene in real time: connections through a real sidecar to a real Redis, which counts the locks' time itself.

Redis's order is taken to be that of the answers, and a lock to run out when its time has passed since its answer: both
are true to a millisecond, and nothing in a story is as near.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from typing import Any

import hiredis

from emqproxy.proxy import clock
from tests.causes.asks import Ask
from tests.causes.scene import Backing, LostError, Scene
from tests.causes.truth import MS
from tests.processes import LOOPBACK, EmqProxy, RedisServer, inline
from tests.scripts import talk

SETTLE_S = 0.2
EDGE_MS = 100.0
"""Of a busy machine."""


class RealLink:
    """One connection."""

    def __init__(self, scene: RealScene, owner: Any) -> None:
        self.scene, self.owner, self.open = scene, owner, True
        self.heard: list[int] = []
        self._socket = socket.create_connection((LOOPBACK, scene.proxy.port))
        self._socket.setblocking(False)
        self.client = f"{LOOPBACK}:{self._socket.getsockname()[1]}"
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[Ask, asyncio.Future[Any], int]] = deque()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._readable)
        scene.links.append(self)

    def send(self, ask: Ask) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not self.open:
            future.set_exception(LostError())
            return future
        if ask.kind == "sweep":
            self.scene.aside("DEL", talk.PREFIX + b"stalled-check")
        now = clock.now()
        self.heard.append(now)
        self._waiting.append((ask, future, now))
        self._socket.sendall(inline(*self.scene.words(ask, ask.ttl_ms)))
        return future

    async def ask(self, ask: Ask) -> Any:
        return await self.send(ask)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.over()
            return
        self._reader.feed(data)
        while self.open and (value := self._reader.gets()) is not False:
            ask, future, sent = self._waiting.popleft()
            now = clock.now()
            self.scene.recorder.lapse(now)
            self.scene.recorder.executed(ask, value, self, sent, now)
            self.scene.recorder.answered(ask, value, now)
            if not future.done():
                future.set_result(value)

    def cut(self) -> None:
        self.over()

    def over(self) -> None:
        if self.open:
            self.open = False
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self.scene.recorder.deaf(self)
            for _, future, _ in self._waiting:
                if not future.done():
                    future.set_exception(LostError())


class RealScene(Scene):
    """One queue on a server and a sidecar that it may share with others, but for what befalls those."""

    def __init__(self, backing: Backing, server: RedisServer, proxy: EmqProxy, seed: int) -> None:
        super().__init__(backing, seed)
        self.server, self.proxy = server, proxy
        self.recorder.edge_ms = EDGE_MS

    def link(self, owner: object) -> RealLink:
        return RealLink(self, owner)

    @property
    def refuses(self) -> str | None:
        return None

    @refuses.setter
    def refuses(self, error: str | None) -> None:  # type: ignore[override]
        """Whatever the error was to be, here it is that memory is short."""
        self.aside("CONFIG", "SET", "maxmemory", "0" if error is None else "1")

    def pause(self, ms: float) -> None:
        self.recorder.paused(clock.now(), clock.now() + int(ms * MS))
        self.proxy.freeze()
        asyncio.get_running_loop().call_later(ms / 1000, self.proxy.thaw)

    def stall_redis(self, ms: float) -> None:
        self.server.freeze()
        asyncio.get_running_loop().call_later(ms / 1000, self.server.thaw)

    def lose_redis(self) -> None:
        self.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(SETTLE_S)  # the sidecar closes its clients' connections
        for link in self.links:
            link.over()
        self.backing.connect()

    def memory(self, evicted: int) -> bool:  # noqa: ARG002  a real Redis counts for itself
        return False

    async def settled(self) -> None:
        """What was asked on connections that are open is answered."""
        if waiting := [future for link in self.links for _, future, _ in link._waiting if not future.done()]:
            await asyncio.wait(waiting, timeout=10)

    def end(self) -> None:
        for link in self.links:
            link.over()
