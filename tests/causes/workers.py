"""Workers of a world: what they hold, how they renew it, and what befalls them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any, Final

from emqproxy.proxy import clock
from tests.causes import asks
from tests.causes.asks import Ask
from tests.causes.scene import Link, LostError, Scene

Held = tuple[str, str]
"""(job, token)."""
CHATTER_MS: Final = 400


class Worker:
    """`share`: its renewal interval as a share of the lock; None: it never renews."""

    def __init__(
        self, world: Scene, ttl_ms: int, share: float | None = 0.5, tokens: str = "fresh", conns: int | None = None
    ) -> None:
        self.world, self.ttl_ms, self.share, self._tokens = world, ttl_ms, share, tokens
        chance = world.chance
        self.name = f"{chance.randrange(16**8):08x}"
        self.batch = chance.random() < 0.6
        self.links = [world.link(self) for _ in range(conns or chance.randint(1, 2))]
        self.held: list[Held] = []
        """What it believes to hold, the last started last."""
        self.spell: tuple[int, int, tuple[str, ...]] | None = None
        """From when on it was silent, when it could speak again, and which jobs it held, last started first."""
        self.half_lost = False
        """It lost one connection of two: nobody may know which it was to renew on."""
        self.regular = self.chatty = False
        """It was seen to renew a job twice in a row in time; it talks beside its renewals."""
        self.yielding_ms = 0.0
        """So much later than its results come its renewals."""
        self._numbers = itertools.count(1)
        self._free = asyncio.Event()
        self._free.set()
        self._tasks: list[asyncio.Task[None]] = []
        if share is not None:
            self._start(self._keep())

    # ---------------------------------------------------------------- calls

    @property
    def link(self) -> Link:
        return self.links[0]

    def token(self) -> str:
        if self._tokens == "fresh":
            return f"{self.name}:{next(self._numbers)}"
        return self.name if self._tokens == "own" else self._tokens

    async def say(self, ask: Ask, link: Link | None = None) -> Any:
        """A call, when its loop is free."""
        await self._free.wait()
        return await (link or self.link).ask(ask)

    async def pick(self, token: str | None = None) -> Held | None:
        """A job, if one waits."""
        token = token or self.token()
        value = await self.say(asks.pick(token, self.ttl_ms))
        if not (isinstance(value, list) and isinstance(value[0], list)):
            return None
        held = value[1].decode(), token
        self.held.append(held)
        return held

    async def take(self, **fields: str) -> Held:
        """A job is added, and it is this worker's, with whatever waited before it."""
        job = self.world.add(**fields)
        while True:
            held = await self.pick()
            if held is None:  # somebody else was given it
                job = self.world.add(**fields)
            elif held[0] == job:
                return held

    async def finish(self, held: Held, target: str = "completed", keep: int = -1) -> Any:
        """Its answer; what it was, the job is no more the worker's."""
        value = await self.say(asks.finish(*held, target=target, keep=keep))
        self.drop(held)
        return value

    async def fail(self, held: Held) -> None:
        """As client libraries do it: what cannot be completed is failed, at once."""
        if await self.finish(held) in {-1, -2, -3, -6}:
            await self.rest(self.world.chance.uniform(0.1, 3))
            await self.say(asks.finish(*held, target="failed"))

    async def move(self, kind: str, held: Held) -> Any:
        value = await self.say(asks.move(kind, *held))
        self.drop(held)
        return value

    def drop(self, held: Held) -> None:
        if held in self.held:
            self.held.remove(held)

    async def rest(self, ms: float) -> None:
        await asyncio.sleep(ms / 1000)

    # ---------------------------------------------------------------- its rhythm

    def _start(self, what: Any) -> None:
        self._tasks.append(asyncio.ensure_future(what))

    async def _keep(self) -> None:
        """Renews what it holds, at its interval."""
        assert self.share is not None
        while True:
            await self.rest(self.ttl_ms * self.share * self.world.chance.uniform(0.99, 1.01))
            await self._free.wait()
            await self.rest(self.yielding_ms)
            self.renew()

    def renew(self) -> None:
        """Sends the renewals; the answers are nobody's matter."""
        link = self.links[-1]
        if self.batch and self.held:
            link.send(asks.renew_all(self.held, self.ttl_ms))
        elif self.held:
            for job, token in self.held:
                link.send(asks.renew(job, token, self.ttl_ms))

    def stop_renewing(self) -> None:
        self._tasks.pop(0).cancel()

    def chatter(self) -> None:
        """Says something every now and then: its own blocking wait, its job's progress."""
        self.chatty = True
        self._start(self._chat())

    async def _chat(self) -> None:
        with contextlib.suppress(LostError):
            while True:
                await self.rest(self.world.chance.uniform(0.2, 1) * min(CHATTER_MS, self.ttl_ms / 3))
                if self.held and self.world.chance.random() < 0.5:
                    await self.say(asks.progress(self.world.chance.choice(self.held)[0]))
                else:
                    await self.say(asks.plain("PING", kind="ping"), self.link)

    # ---------------------------------------------------------------- what befalls it

    def plight(self, cause: str) -> None:
        """From now on this is why what it holds runs out."""
        for held in self.held:
            self.world.truth.plight[held] = cause

    async def block(self, ms: float) -> None:
        """Its loop stands still: all its sockets are silent, and then all that waited is said at once."""
        self.plight("expired_worker_silent")
        heard = max((link.heard[-1] for link in self.links if link.heard), default=clock.now())
        self._free.clear()
        holding = tuple(f"{self.world.prefix.decode()}{job}" for job, _ in reversed(self.held))
        await self.rest(ms)
        self.spell = heard, clock.now(), holding
        self._free.set()

    def die(self) -> None:
        """It is killed: its connections close, and it never says anything again."""
        self.rest_in_peace()
        for link in self.links:
            link.cut()

    def rest_in_peace(self) -> None:
        for task in self._tasks:
            task.cancel()

    def lose_link(self, *, one: bool = False) -> None:
        """All its connections, or the one that it renews on."""
        self.plight("link_loss")
        self.half_lost = one
        for link in self.links[-1:] if one else self.links:
            link.cut()

    def reconnect(self) -> None:
        self.links = [link if link.open else self.world.link(self) for link in self.links]
