"""A world in virtual time: clients, a sidecar's witness fed with their bytes, and a real Redis with the real scripts.

The scripts run on a real Redis; its clock alone is not asked: locks are set there for ever, and deleted when their time
has come here. Between a client and Redis lie hops of some hundred microseconds, in order on each connection and in any
order across them. Links may be cut, Redis and the sidecar may stand still, and be refused or replaced.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import hiredis

from emqproxy import logs
from emqproxy.locks.evictions import Memory
from emqproxy.locks.ledger import LockLedger
from emqproxy.proxy import clock
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.clock import LoopLag
from emqproxy.proxy.unrecognised import Unrecognised
from emqproxy.proxy.watcher import Watcher
from emqproxy.proxy.witness import Witness
from emqproxy.records import Hello, ObserverSettings, Record
from emqproxy.scripts.catalogue import Catalogue
from tests.causes.asks import Ask
from tests.causes.scene import Backing, LostError, Scene
from tests.causes.truth import MS
from tests.processes import inline
from tests.scripts import talk

FOR_EVER_MS: Final = 10**10
HOP_NS: Final = (20_000, 250_000)


class House:
    """What a watcher needs around it; its bus has no observer, so that records stay where they can be read."""

    def __init__(self, catalogue: Catalogue) -> None:
        log = logs.get()
        self.limited, self.faults = logs.RateLimited(log), 0
        self.bus = Bus(lambda restarts: Hello("r", "0", "h", 1, restarts, ObserverSettings()), tuple, log)
        self.ledger = LockLedger()
        self.lag = LoopLag(self.ledger.paused)
        self.witness = Witness(catalogue, self.ledger, self.bus, self.lag, Unrecognised(("emq",), log))

    @property
    def records(self) -> list[Record]:
        return [message for message in self.bus._waiting if isinstance(message, Record)]


class Link:
    """One connection of a client's through the sidecar."""

    def __init__(self, world: World, owner: object) -> None:
        self.world, self.owner = world, owner
        self.number = next(world.numbers)
        self.client = f"c:{self.number}"
        self.open = True
        self.heard: list[int] = []
        """When bytes of its arrived at the sidecar."""
        self._watcher = Watcher(world.house, world.house.witness.watch(self.number, self.client, 1 << 24))
        self._last: dict[str, int] = defaultdict(int)
        """Of each hop: when the last one goes over it."""
        self._waiting: deque[asyncio.Future[Any]] = deque()
        world.links.append(self)

    # ---------------------------------------------------------------- hops

    def _hop(self, name: str, then: Callable[..., None], *args: Any, least: int = 0) -> None:
        loop = asyncio.get_running_loop()
        at = max(clock.now() + self.world.chance.randint(*HOP_NS), self._last[name] + 1, least)
        self._last[name] = at
        loop.call_at(at / 1e9, then, *args)

    def send(self, ask: Ask) -> asyncio.Future[Any]:
        """A call goes out; its answer, or LostError."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_heard)
        if not self.open:
            future.set_exception(LostError())
            return future
        self._waiting.append(future)
        self._hop("up", lambda: self.world.at_sidecar(lambda: self._arrived(ask, future)))
        return future

    async def ask(self, ask: Ask) -> Any:
        return await self.send(ask)

    def _arrived(self, ask: Ask, future: asyncio.Future[Any]) -> None:
        if not self.open:
            return
        now = clock.now()
        self.heard.append(now)
        self._watcher.from_client(inline(*self.world.words(ask, ask.ttl_ms)), now)
        self._hop("in", self._execute, ask, future, now, least=self.world.redis_free)

    def _execute(self, ask: Ask, future: asyncio.Future[Any], arrived: int) -> None:
        if clock.now() < self.world.redis_free:
            self._hop("in", self._execute, ask, future, arrived, least=self.world.redis_free)
            return
        if self.world.redis_down:
            return
        raw, value = self.world.execute(ask, self, arrived)
        self._hop("out", lambda: self.world.at_sidecar(lambda: self._answered(ask, raw, value, future)))

    def _answered(self, ask: Ask, raw: bytes, value: Any, future: asyncio.Future[Any]) -> None:
        if not self.open:
            return
        self._watcher.from_server(raw, clock.now())
        self.world.recorder.answered(ask, value, clock.now())
        self._hop("down", _tell, future, value)

    # ---------------------------------------------------------------- ends

    def cut(self) -> None:
        """The client's side is gone, as the sidecar sees it after a hop."""
        self._hop("up", lambda: self.world.at_sidecar(self.over))

    def over(self) -> None:
        if self.open:
            self.open = False
            self.world.recorder.deaf(self)
            self._watcher.end(clock.now(), lambda: None)
            for future in self._waiting:
                if not future.done():
                    future.set_exception(LostError())


def _heard(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()  # nobody may be waiting for it


def _tell(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


class World(Scene):
    """One queue, its clients, one sidecar, one Redis."""

    def __init__(self, backing: Backing, catalogue: Catalogue, seed: int) -> None:
        super().__init__(backing, seed)
        self.house = House(catalogue)
        self.redis_free = 0
        """Until then Redis executes nothing."""
        self.redis_down = False
        self.refuses: str | None = None
        """An error that Redis answers instead of running anything."""
        self._paused_until = 0
        self._unread: deque[Callable[[], None]] = deque()
        self.house.lag.start()

    def link(self, owner: object) -> Link:
        return Link(self, owner)

    # ---------------------------------------------------------------- Redis

    def expire(self) -> None:
        """Locks whose time has come."""
        now = clock.now()
        for job in self.recorder.lapse(now):
            self.aside("DEL", talk.PREFIX + job.encode() + b":lock")

    def execute(self, ask: Ask, link: Link, arrived: int) -> tuple[bytes, Any]:
        if ask.kind == "ping":
            return b"+PONG\r\n", b"PONG"
        self.expire()
        if self.refuses is not None and ask.kind != "other":
            raw = b"-%s refused\r\n" % self.refuses.encode()
            value: Any = hiredis.ReplyError(raw[1:-2].decode())
        else:
            if ask.kind == "sweep":
                self.aside("DEL", talk.PREFIX + b"stalled-check")
            raw, value = self.backing.run(*self.words(ask, FOR_EVER_MS if ask.ttl_ms else 0))
        self.recorder.executed(ask, value, link, arrived, clock.now())
        return raw, value

    def stall_redis(self, ms: float) -> None:
        """Redis stands still."""
        self.redis_free = max(self.redis_free, clock.now() + int(ms * MS))

    def lose_redis(self) -> None:
        """Redis ends all connections."""
        for link in self.links:
            if link.open:
                link.over()
        self.house.witness.estranged()

    def memory(self, evicted: int) -> bool:
        """The sidecar's probe hears how many keys Redis has evicted."""
        self.house.witness.info(Memory(clock.now(), "volatile-lru", 1 << 30, evicted))
        return True

    # ---------------------------------------------------------------- the sidecar

    def at_sidecar(self, read: Callable[[], None]) -> None:
        """Bytes are there to be read: now, or when the sidecar goes on."""
        if clock.now() < self._paused_until or self._unread:
            self._unread.append(read)
        else:
            read()

    def pause(self, ms: float) -> None:
        """The sidecar stands still: nothing is read, no beat of its loop, no timer."""
        self._paused_until = clock.now() + int(ms * MS)
        self.recorder.paused(clock.now(), self._paused_until)
        assert self.house.lag._handle is not None
        beat = self.house.lag._handle._callback
        self.house.lag.stop()
        self.house.witness.stop()
        asyncio.get_running_loop().call_at(self._paused_until / 1e9, self._go_on, beat)

    def _go_on(self, beat: Callable[[], None]) -> None:
        while self._unread:
            self._unread.popleft()()
        beat()
        self.house.witness.tick()

    def end(self) -> None:
        """Everybody goes."""
        self.recorder.over = True
        self.house.lag.stop()
        for link in self.links:
            link.over()
        self.house.witness.stop()
        self.house.bus._hang_up()
        keys = self.backing.run(b"KEYS", self.prefix + b"*")[1]
        if keys:
            self.backing.run(b"DEL", *keys)
