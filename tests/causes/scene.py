"""What a story is played in: a queue of its own on a real Redis, its clients' connections, and the record of it all.

In virtual time (`world`), or in real time through a real sidecar (`real_world`); the stories do not know which.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
from typing import Any, Final, Protocol

import hiredis

from emqproxy.proxy import clock
from tests.causes.asks import LOADED, Ask
from tests.causes.recording import Recorder
from tests.causes.truth import MS
from tests.processes import RedisServer, inline
from tests.scripts import talk

_EPOCH_MS: Final = 1_700_000_000_000


class LostError(Exception):
    """The connection is gone, and the answer with it."""


class Backing:
    """A real Redis that executes one call at a time."""

    def __init__(self, server: RedisServer) -> None:
        self._path = str(server.socket_path)
        self.connect()
        for label in LOADED:
            self.run(b"SCRIPT", b"LOAD", talk.text_of(label))

    def connect(self) -> None:
        """Again, if it is not the first time."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(self._path)

    def run(self, *words: bytes) -> tuple[bytes, Any]:
        """The reply as it came, and what it says."""
        self._socket.sendall(inline(*words))
        reader, raw = hiredis.Reader(), b""
        while True:
            piece = self._socket.recv(65_536)
            raw += piece
            reader.feed(piece)
            if (value := reader.gets()) is not False:
                return raw, value

    def close(self) -> None:
        self._socket.close()


class Link(Protocol):
    """One connection of a client's through the sidecar."""

    client: str
    owner: Any
    open: bool
    heard: list[int]
    """When bytes of its arrived at the sidecar, or were sent."""

    def send(self, ask: Ask) -> asyncio.Future[Any]:
        """A call goes out; its answer, or LostError."""
        ...

    async def ask(self, ask: Ask) -> Any: ...

    def cut(self) -> None:
        """The client's side goes."""
        ...

    def over(self) -> None:
        """It is gone at once."""
        ...


class Scene:
    """One queue; `seed` decides all that is left to chance."""

    refuses: str | None
    """An error that Redis answers instead of running anything."""

    def __init__(self, backing: Backing, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seed, self.backing = seed, backing
        self.prefix = b"emq:q%d:" % seed
        self.recorder = Recorder(self.chance)
        self.truth = self.recorder.truth
        self.numbers = itertools.count(1)
        self.links: list[Any] = []
        self._jobs = itertools.count(1)

    def link(self, owner: object) -> Any:
        """A new connection."""
        raise NotImplementedError

    def pause(self, ms: float) -> None:
        """The sidecar stands still."""
        raise NotImplementedError

    def stall_redis(self, ms: float) -> None:
        """Redis stands still."""
        raise NotImplementedError

    def lose_redis(self) -> None:
        """Redis ends all connections."""
        raise NotImplementedError

    def memory(self, evicted: int) -> bool:
        """The sidecar's probe hears how many keys Redis has evicted; False where it cannot be arranged."""
        raise NotImplementedError

    def words(self, ask: Ask, ttl: object) -> list[bytes]:
        """As it is sent in this queue, at this time."""
        now_ms = b"%d" % (_EPOCH_MS + clock.now() // MS)
        return [
            now_ms if word == b"1700000000000" else word.replace(talk.PREFIX, self.prefix)
            for word in ask.words(ttl)
            if word is not None
        ]

    def aside(self, *words: bytes | str) -> Any:
        """A command that goes past the sidecar; keys are the queue's."""
        sent = [word if isinstance(word, bytes) else word.encode() for word in words]
        return self.backing.run(*(word.replace(talk.PREFIX, self.prefix) for word in sent))[1]

    def add(self, **fields: str) -> str:
        """A job waits; nobody saw it come."""
        job = str(next(self._jobs))
        told = {"name": "n", "data": "{}", "opts": "{}", "timestamp": "1", "delay": "0", "priority": "0"} | fields
        self.aside("HSET", talk.PREFIX + job.encode(), *itertools.chain(*told.items()))
        self.aside("LPUSH", talk.PREFIX + b"wait", job)
        return job
