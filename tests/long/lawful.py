"""Lawful histories on a real Redis behind sidecars in enforce mode: every process does only what it may.

A process has one connection or a pool; its tokens are `uuid:n`, random, one of its own, or one that all share. It takes
jobs, renews them, writes to them, gives them back in every way, goes away and connects anew, at another sidecar where
there are two. It may forget a job: then it says no more of it until it takes it again, over any of its connections; the
others sweep it and take it. Nobody says anything of a job that it may have lost by its own clock; but where each
pickup has a token of its own, a loser may speak late: Redis itself refuses it.

A pool speaks for one job over two of its connections before all else, for each of them, as one that has been at work
has (see `locks.claims`: what no wire can show). It may be spread over both sidecars.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import hiredis

from tests.long.lawful_wire import LABELS, NEW_JOB, Call, Wire, a_write
from tests.processes import LOOPBACK
from tests.scripts import talk
from tests.scripts.talk import PREFIX, evalsha, keys, sha_of

MS: Final = 1_000_000
TOKENS: Final = ("worker", "random", "process", "shared")
"""`uuid:n`; made anew for each pickup; one for the process; one for all."""


class Held(NamedTuple):
    """A job that a process has: certainly until an instant of its own clock."""

    token: str
    until: int
    taken: int
    """Which of its pickups gave it."""


class Lawful:
    """What all processes of one history share."""

    def __init__(self, seed: int, ports: Sequence[int]) -> None:
        self.chance = random.Random(seed)
        self.seed, self.ports, self.prefix = seed, ports, b"emq:lawful%d:" % seed
        self.tokens = self.chance.choice(TOKENS)
        self.pool = self.chance.choice((1, 1, 2, 3, 4))
        self.ttl_ms = self.chance.randint(250, 700)
        self.db = self.chance.choice((0, 0, 0, 2))
        self.jobs = [f"{number}" for number in range(1, self.chance.randint(2, 5))]
        self.counts: Counter[str] = Counter()
        self.by_client: dict[str, Process] = {}
        self.errors: list[str] = []

    async def play(self) -> None:
        """Two or three processes and one that only adds, writes and removes."""
        workers = [Process(self) for _ in range(self.chance.choice((2, 2, 3)))]
        producer = Process(self, connections=1)
        try:
            for process in (producer, *workers):
                await process.begin()
            for job in self.jobs:
                await producer.add(job)
            async with asyncio.TaskGroup() as group:
                for task in (producer.produce(), *(worker.work() for worker in workers)):
                    group.create_task(task)
        finally:
            for wire in (*producer.wires, *(wire for worker in workers for wire in worker.wires)):
                wire.transport.close()

    def moved(self, call: Call, prefix: bytes) -> list[bytes]:
        """A call of `talk`, in a queue and at this time."""
        now = b"%d" % (time.time_ns() // MS)
        words = [now if word == b"1700000000000" else (word or b"").replace(PREFIX, prefix) for word in call]
        if words[0] == b"evalsha" and self.chance.random() < 0.1:
            words[:2] = [b"EVAL", _TEXTS[words[1]]]
        return words


_TEXTS: Final = {sha_of(label): talk.text_of(label) for label in LABELS}


class Process:
    """A worker process, or a producer: what it believes to hold it holds, until its time by its own clock."""

    def __init__(self, history: Lawful, connections: int = 0) -> None:
        self.history, self.chance = history, history.chance
        self.wires: list[Wire] = []
        self.held: dict[str, Held] = {}
        self.lost: list[tuple[str, str]] = []
        self.given_back: list[str] = []
        self._size = connections or history.pool
        self._id, self._picks = uuid.UUID(int=self.chance.getrandbits(128)).hex, itertools.count(1)
        self._numbers = itertools.count(1)

    # ---------------------------------------------------------------- connections

    async def begin(self) -> None:
        for _ in range(self._size):
            await self._connect()
        await self._show()

    async def _connect(self) -> None:
        port = self.chance.choice(self.history.ports)
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(Wire, LOOPBACK, port)
        self.history.by_client[wire.address] = self
        self.wires.append(wire)
        if self.history.db:
            await wire.ask([b"SELECT", b"%d" % self.history.db])

    async def _show(self) -> None:
        """A job of a queue of its own is taken over each connection and renewed over the next one."""
        if len(self.wires) == 1:
            return
        prefix = self.history.prefix + self._id.encode() + b":"
        for taker, other in zip(self.wires, (*self.wires[1:], self.wires[0]), strict=True):
            job, token = f"{next(self._numbers)}", self._token()
            await taker.ask([b"HSET", prefix + job.encode(), b"name", b"n"], [b"LPUSH", prefix + b"wait", job.encode()])
            await taker.ask(self.history.moved(talk.pick(token, 60_000), prefix))
            await other.ask(self.history.moved(talk.renew(job, token, 60_000), prefix))
            await other.ask(self.history.moved(talk.finish(job, token), prefix))

    async def _move(self) -> None:
        """A connection is closed, another one made: perhaps at the other sidecar."""
        wire = self.wires.pop(self.chance.randrange(len(self.wires)))
        wire.transport.close()
        await self._connect()
        await self._show()
        self.history.counts["moves"] += 1

    async def _ask(self, *calls: Call) -> list[Any]:
        self.history.counts["calls"] += len(calls)
        replies = await self.chance.choice(self.wires).ask(*(self.history.moved(c, self.history.prefix) for c in calls))
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                self.history.errors.append(str(reply))
        return replies

    # ---------------------------------------------------------------- a producer

    async def add(self, job: str) -> None:
        key = self.history.prefix + job.encode()
        await self._ask([b"HSET", key, *NEW_JOB], [b"LPUSH", self.history.prefix + b"wait", job.encode()])

    async def produce(self) -> None:
        """It writes to any job, whoever holds it; it removes jobs, and adds others under their ids."""
        for _ in range(self.chance.randint(5, 15)):
            job = self.chance.choice(self.history.jobs)
            if self.chance.random() < 0.6:
                await self._ask(a_write(self.chance, job))
            else:
                (removed,) = await self._ask(evalsha(sha_of("removeJob-2"), keys(job, "repeat"), job, 0, PREFIX))
                if removed == 1:
                    self.history.counts["removed"] += 1
                    await self.add(job)
            await asyncio.sleep(self.chance.random() * self.history.ttl_ms / 3000)

    # ---------------------------------------------------------------- a worker

    async def work(self) -> None:
        for _ in range(self.chance.randint(12, 40)):
            self._look_at_the_clock()
            dice = self.chance.random()
            if dice < 0.02:
                await self._move()
            elif dice < 0.2:
                async with asyncio.TaskGroup() as pair:
                    pair.create_task(self._one())
                    pair.create_task(self._one())
            else:
                await self._one()

    def _look_at_the_clock(self) -> None:
        """What is halfway to its end is given up: nothing more is said of it."""
        soon = time.monotonic_ns() + self.history.ttl_ms * MS // 2
        for job in [job for job, held in self.held.items() if held.until < soon]:
            self._forget(job)

    async def _one(self) -> None:
        chance, mine = self.chance, list(self.held)
        dice = chance.randrange(100)
        if dice < 20 or (dice < 60 and not mine):
            await self._pick()
        elif dice < 30:
            await self._renew(chance.choice(mine))
        elif dice < 38:
            await self._renew_all(mine)
        elif dice < 50:
            await self._ask(a_write(self.chance, chance.choice(mine)))
        elif dice < 60:
            await self._multi(chance.choice(mine))
        elif dice < 72 and mine:
            await self._give_back(chance.choice(mine))
        elif dice < 80:
            await self._sweep()
        elif dice < 86 and mine:
            self._forget(chance.choice(mine))
        elif dice < 90:
            await asyncio.sleep(self.history.ttl_ms * (0.3 + chance.random()) / 1000)
        elif dice < 94 and self.lost:
            await self._late(*chance.choice(self.lost))
        elif self.given_back:
            await self._ask(a_write(self.chance, chance.choice(self.given_back)))

    def _token(self) -> str:
        match self.history.tokens:
            case "worker":
                return f"{self._id}:{next(self._picks)}"
            case "random":
                return uuid.UUID(int=self.chance.getrandbits(128)).hex
            case "process":
                return self._id
            case _:
                return "shared"

    def _took(self, reply: Any, token: str, sent: int) -> None:
        """A pickup's answer, or a fetch-next's."""
        if isinstance(reply, list) and len(reply) > 1 and isinstance(reply[0], list):
            job = reply[1].decode()
            self.history.counts["taken"] += 1
            self.history.counts["taken again by who lost it"] += any(job == lost for lost, _ in self.lost)
            self.given_back = [other for other in self.given_back if other != job]
            self.held[job] = Held(token, sent + self.history.ttl_ms * MS, next(self._numbers))

    async def _pick(self) -> None:
        token, sent = self._token(), time.monotonic_ns()
        (reply,) = await self._ask(talk.pick(token, self.history.ttl_ms))
        self._took(reply, token, sent)

    async def _renew(self, job: str) -> None:
        held, sent = self.held[job], time.monotonic_ns()
        (reply,) = await self._ask(talk.renew(job, held.token, self.history.ttl_ms))
        self._renewed(job, held, sent, done=reply == 1)

    def _renewed(self, job: str, held: Held, sent: int, *, done: bool) -> None:
        now = self.held.get(job)
        if now is None or now.taken != held.taken:
            return  # given back meanwhile
        if done:
            self.held[job] = now._replace(until=max(now.until, sent + self.history.ttl_ms * MS))
        else:
            self._forget(job)

    async def _renew_all(self, jobs: list[str]) -> None:
        batch, sent = {job: self.held[job] for job in jobs}, time.monotonic_ns()
        if not batch:
            return
        tokens = [held.token for held in batch.values()]
        (failed,) = await self._ask(talk.renew_all(list(batch), tokens, self.history.ttl_ms))
        for job, held in batch.items():
            self._renewed(job, held, sent, done=job.encode() not in failed)

    async def _multi(self, job: str) -> None:
        held, sent = self.held[job], time.monotonic_ns()
        calls = (talk.renew(job, held.token, self.history.ttl_ms), a_write(self.chance, job))
        *_, results = await self._ask([b"MULTI"], *calls, [b"EXEC"])
        self._renewed(job, held, sent, done=isinstance(results, list) and results[0] == 1)

    async def _give_back(self, job: str) -> None:
        """What is out beside it may still be answered after it."""
        chance, held, sent = self.chance, self.held[job], time.monotonic_ns()
        token = held.token
        fetch, target = chance.choice(("", "1")), chance.choice(("completed", "failed"))
        call = chance.choice((
            talk.finish(job, token, target=target, fetch=fetch, ttl_ms=self.history.ttl_ms),
            talk.delay(job, token, chance.randint(0, 20)), talk.retry(job, token), talk.back(job, token),
        ))  # fmt: skip
        (reply,) = await self._ask(call)
        now = self.held.get(job)
        if now is None or now.taken == held.taken:  # else it has been taken again meanwhile
            self.held.pop(job, None)
            if isinstance(reply, list) or reply >= 0:
                self.given_back.append(job)
                self.history.counts["given back"] += 1
            else:
                self.lost.append((job, token))
        self._took(reply, token, sent)

    def _forget(self, job: str) -> None:
        self.lost.append((job, self.held.pop(job).token))
        self.history.counts["forgotten"] += 1

    async def _sweep(self) -> None:
        (swept,) = await self._ask(talk.sweep(guard_ms=1))
        self.history.counts["swept"] += len(swept)

    async def _late(self, job: str, token: str) -> None:
        """Nobody else uses the token: whoever lost a job may speak of it, and is refused by Redis."""
        if self.history.tokens in {"worker", "random"}:
            self.history.counts["late calls"] += 1
            await self._ask(self.chance.choice((talk.renew(job, token), talk.finish(job, token))))
