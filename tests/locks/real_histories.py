"""Random histories on a real Redis with the scripts of the wheel: two workers, four connections, whatever can happen.

A lane is four connections and one queue; it plays one history after the other, and many lanes share a server, as
queues do. Each history goes through session and catalogue as in the sidecar: stamps are taken at the write and at the
read; what would reach the ledger is recorded. What happens: pickups, renewals one by one and in batches, finishes with
and without a fetch-next, delays, retries, moves back to wait, sweeps, transactions, tokens that speak on any
connection, calls by tokens that have lost, scripts that keep the server busy, answers that lie unread while those of
other connections are read, and connections that close with calls under way.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from emqproxy.locks.events import (
    Absent,
    AnyFact,
    Granted,
    HeldByOther,
    LockFact,
    NotMine,
    Place,
    Released,
    Sighted,
    Window,
)
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.operation import Operation
from emqproxy.session.exchange import Exchange
from emqproxy.session.session import Session
from tests.locks.judging import Event, Truth
from tests.locks.monitored import Monitor, holdings
from tests.processes import inline
from tests.scripts import talk

Call = Sequence[bytes | None]

BUSY: Final = "for i = 1, ARGV[1] do end"
BUSY_STEPS_MAX: Final = 300_000
"""Some milliseconds of Redis's time."""
ADD: Final = (
    "redis.call('HSET', KEYS[1], 'name', 'n', 'data', '{}', 'opts', '{}', 'timestamp', '1', 'delay', '0')"
    " redis.call('HSET', KEYS[1], 'priority', '0') redis.call('LPUSH', KEYS[2], ARGV[1])"
)
"""Puts a job into wait, as far as the scripts look."""
UNDER_WAY_MAX: Final = 3
"""Calls without an answer, a connection."""
LONG_S: Final = 30.0


class Line(asyncio.Protocol):
    """One connection to Redis, and its pairing."""

    def __init__(self, numbers: itertools.count[int]) -> None:
        self.number = next(numbers)
        self.session = Session()
        self.out: dict[int, Operation] = {}
        self.history: History | None = None
        self.transport: asyncio.Transport
        self.gone = asyncio.Event()
        self.deaf = False
        """Nobody reads its answers any more."""
        self._echo = b""
        self._echoed = asyncio.Event()
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if self._echo:
            self._tail = (self._tail + data)[-len(self._echo) :]
            if self._tail == self._echo:
                self._echoed.set()
        elif self.history is not None and not self.deaf:
            self.history.answered(self, self.session.from_server(data, now))
            assert self.session.blinded is None, self.session.blinded

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.gone.set()

    async def settle(self, name: bytes) -> None:
        """Until every answer has been read, those nobody waits for as well: the next history must not meet them."""
        self._echo, self._tail = b"$%d\r\n%s\r\n" % (len(name), name), b""
        self._echoed.clear()
        self.transport.write(inline("ECHO", name))
        await asyncio.wait_for(self._echoed.wait(), LONG_S)
        self._echo = b""

    def join(self, history: History, numbers: itertools.count[int]) -> None:
        """A new history: a connection as good as new."""
        self.number, self.session, self.history = next(numbers), Session(), history


class History:
    """One history: what was recorded of it, and what its workers believe."""

    def __init__(self, seed: int, prefix: bytes, lines: list[Line], catalogue: Catalogue, path: str) -> None:
        self.chance = random.Random(seed)
        self.prefix, self.lines = prefix, lines
        self.events: list[Event] = []
        self.sent: dict[Place, int] = {}
        self.facts = 0
        self.pooled = self.chance.random() < 0.3
        """Any connection speaks for any token, as with a pool."""
        self.ttl_ms = self.chance.randint(8, 60)
        self._catalogue, self._path = catalogue, path
        self._held: list[tuple[str, bytes]] = []
        """What some worker believes to hold, or held once: (job, token)."""
        self._tokens = itertools.count()
        self._jobs = itertools.count(1)
        self._numbers = itertools.count(1)
        self._idle = asyncio.Event()
        for line in lines:
            line.join(self, self._numbers)

    # ---------------------------------------------------------------- as the sidecar does it

    def ask(self, line: Line, *calls: Call) -> None:
        """Calls are written, and noted before an answer can come."""
        data = b"".join(inline(*(word for word in self._moved(call) if word is not None)) for call in calls)
        now = time.monotonic_ns()
        for command in line.session.from_client(data, now):
            operation = self._catalogue.recognise(command)
            if operation is None:
                line.session.forget(command)
                continue
            line.session.keep(command)
            line.out[command.request] = operation
            place = Place(line.number, command.request)
            self.sent[place] = now
            for intent in operation.intents(place, command.db):
                self.events.append(Event(now, intent))
        self._idle.clear()
        line.transport.write(data)

    def answered(self, line: Line, exchanges: Sequence[Exchange]) -> None:
        for exchange in exchanges:
            operation = line.out.pop(exchange.command.request)
            for happening in operation.happenings(exchange, Place(line.number, exchange.command.request)):
                self._observe(happening.fact)
        if not any(each.out for each in self.lines):
            self._idle.set()

    def _observe(self, fact: AnyFact) -> None:
        self.facts += 1
        self.events.append(Event(fact.window.closed, fact))
        if isinstance(fact, Granted):
            self._held.append((fact.lock.key[len(self.prefix) : -len(b":lock")].decode(), fact.token))
        elif isinstance(fact, (Released, Absent, HeldByOther, NotMine)) and self.chance.random() < 0.6:
            self._forget(fact)

    def _forget(self, fact: LockFact) -> None:
        job = fact.lock.key[len(self.prefix) : -len(b":lock")].decode()
        self._held = [held for held in self._held if held != (job, fact.token)]

    def _moved(self, call: Call) -> list[bytes | None]:
        """A call of `talk`, in this queue and at this time."""
        now_ms = b"%d" % (time.time_ns() // 1_000_000)
        return [
            now_ms if word == b"1700000000000" else word and word.replace(talk.PREFIX, self.prefix) for word in call
        ]

    # ---------------------------------------------------------------- what happens

    async def play(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.add()
        for _ in range(self.chance.randint(15, 55)):
            line = self.chance.choice(self.lines)
            if len(line.out) < UNDER_WAY_MAX:
                await self._one(line)
            await self._wait()
        for line in self.lines:
            line.transport.resume_reading()
        await self.answers()

    async def answers(self) -> None:
        """Until nothing is under way."""
        if any(line.out for line in self.lines):
            await asyncio.wait_for(self._idle.wait(), LONG_S)

    async def _wait(self) -> None:
        dice = self.chance.random()
        if dice < 0.5:
            return
        most_ms = 2 if dice < 0.85 else self.ttl_ms * (0.6 if dice < 0.95 else 1.6)
        await asyncio.sleep(self.chance.random() * most_ms / 1000)
        if dice < 0.7:
            self.events.append(Event(time.monotonic_ns(), None))

    async def _one(self, line: Line) -> None:
        chance = self.chance
        match chance.choices(range(6), (60, 12, 8, 8, 5, 1))[0]:
            case 0:
                self.ask(line, self._call(line))
            case 1:
                line.transport.pause_reading()
                asyncio.get_running_loop().call_later(chance.random() * 0.03, _resume, line)
            case 2:  # the server is busy, and what comes next on this connection and on others has to wait
                self.busy(line, chance.randint(1, BUSY_STEPS_MAX))
                self.ask(line, self._call(line))
            case 3:
                self.add()
            case 4:
                self.ask(line, [b"MULTI"], self._call(line), self._call(line), [b"EXEC"])
            case _:
                await self._cut(line)

    def _call(self, line: Line) -> Call:
        chance = self.chance
        dice = chance.randrange(20)
        mine = self._spoken_for(line)
        if dice < 5 or not mine:
            return talk.sweep(guard_ms=1) if chance.random() < 0.25 else talk.pick(self._token(line), self.ttl_ms)
        job, token = chance.choice(mine)
        said = token.decode()
        fetch = chance.choice(("0", "1"))
        match dice:
            case 5 | 6 | 7 | 8:
                return talk.renew(job, said, self.ttl_ms)
            case 9 | 10:
                some = chance.sample(mine, chance.randint(1, min(3, len(mine))))
                batch = dict(some)  # a worker names a job once
                return talk.renew_all(list(batch), list(batch.values()), self.ttl_ms)
            case 11 | 12 | 13:
                target = chance.choice(("completed", "failed"))
                return talk.finish(job, said, target=target, fetch=fetch, ttl_ms=self.ttl_ms)
            case 14:
                return talk.delay(job, said, chance.randint(0, 20))
            case 15:
                return talk.delay(job, said, 0, fetch=fetch, next_token=self._token(line))
            case 16:
                return talk.retry(job, said)
            case 17:
                return talk.back(job, said)
            case 18:
                return talk.release(job, said)
            case _:
                return talk.sweep(guard_ms=1)

    def _worker(self, line: Line) -> int:
        return self.lines.index(line) % 2

    def _token(self, line: Line) -> str:
        return f"{'ab'[self._worker(line)]}:{next(self._tokens)}"

    def _spoken_for(self, line: Line) -> list[tuple[str, bytes]]:
        return [held for held in self._held if self.pooled or held[1][0] == b"ab"[self._worker(line)]]

    def add(self) -> None:
        """A producer adds a job."""
        job = str(next(self._jobs))
        line = self.chance.choice(self.lines)
        self.ask(line, talk.words("EVAL", ADD.encode(), talk.keys(job, "wait"), job))

    def busy(self, line: Line, steps: int) -> None:
        """A script of somebody else's keeps the server from everything."""
        self.ask(line, talk.words("EVAL", BUSY.encode(), [], steps))

    async def _cut(self, line: Line) -> None:
        """Answers are not read any more, and the connection is closed for sending: Redis runs what it was sent."""
        line.deaf = True
        line.transport.resume_reading()
        line.transport.write_eof()
        await asyncio.wait_for(line.gone.wait(), LONG_S)
        now = time.monotonic_ns()
        self.answered(line, line.session.end(now))
        self._observe(Sighted(Place(line.number, 0), Window(now, now)))
        fresh = await connect(self._path, self._numbers)
        fresh.history = self
        self.lines[self.lines.index(line)] = fresh

    # ---------------------------------------------------------------- the truth

    async def truth(self, monitor: Monitor) -> Truth:
        seen = monitor.fence(self.prefix)
        for line in self.lines:
            await line.settle(self.prefix)
        await asyncio.wait_for(seen.wait(), LONG_S)
        return Truth(holdings(monitor.take(self.prefix)), self.sent, self.events)


def _resume(line: Line) -> None:
    if not line.transport.is_closing():
        line.transport.resume_reading()


async def connect(path: str | Path, numbers: itertools.count[int]) -> Line:
    _, line = await asyncio.get_running_loop().create_unix_connection(lambda: Line(numbers), str(path))
    return line
