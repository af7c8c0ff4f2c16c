"""Random bursts of known calls over some connections, into a real witness and its watchers, on a clock of the test's.

Nobody answers but chance: whatever the account makes of it, the journal must tell enough to make the same of it again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, cast

from emqproxy import logs
from emqproxy.locks.events import Window
from emqproxy.locks.ledger import LockLedger
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.clock import LoopLag
from emqproxy.proxy.unrecognised import Unrecognised
from emqproxy.proxy.watcher import House, Watcher
from emqproxy.proxy.witness import Witness
from emqproxy.records import Hello, ObserverSettings, Record
from emqproxy.scripts.catalogue import Catalogue
from tests.scripts.talk import PREFIX, back, finish, pick, release, renew, renew_all, sweep
from tests.session.talk import words

MS: Final = 1_000_000
CONNS: Final = 5
JOBS, TOKENS = "1234", ["A", "B", "u:1", "u:2", "v:3", "0"]
TTLS_MS: Final = [40, 80, 300, 2000]
OK: Final = b"+OK\r\n"


def text(value: str) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(value), value.encode())


def number(value: int) -> bytes:
    return b":%d\r\n" % value


def array(*items: bytes) -> bytes:
    return b"*%d\r\n" % len(items) + b"".join(items)


class Chance:
    """What is asked, and what is answered."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def one(self) -> tuple[bytes, bytes]:
        """A call as it is sent, and an answer to it."""
        rng = self.rng
        job, token, ttl_ms = rng.choice(JOBS), rng.choice(TOKENS), rng.choice(TTLS_MS)
        lock, flag = PREFIX + job.encode() + b":lock", number(rng.randrange(2))
        parts, answer = rng.choices(
            [
                (pick(token, ttl_ms), self._taken()),
                (finish(job, token), rng.choice([number(code) for code in (0, 0, 0, -1, -2, -3, -6)])),
                (finish(job, token, fetch="1", ttl_ms=ttl_ms), self._taken()),
                (renew(job, token, ttl_ms), flag),
                (renew(job, token, ttl_ms), b"-WRONGTYPE no\r\n"),
                (renew_all([job, *JOBS[:1]], [token, "A"], ttl_ms), array(*map(text, self._some(1)))),
                (sweep(), array(*map(text, self._some(2)))),
                (release(job, token), flag),
                (back(job, token), flag),
                ([b"DEL", lock], flag),
                ([b"LREM", PREFIX + b"active", b"0", job.encode()], flag),
                ([b"PEXPIRE", lock, b"30"], flag),
                ([b"FLUSHDB"], OK),
            ],
            [25, 14, 6, 15, 2, 10, 10, 2, 2, 4, 3, 5, 1],
        )[0]
        return words(*cast("list[bytes]", parts)), answer

    def some(self) -> tuple[bytes, bytes]:
        """One call, or some in a transaction."""
        rng = self.rng
        if rng.random() > 0.05:
            return self.one()
        asked, answers = zip(*(self.one() for _ in range(2)), strict=True)
        run = rng.random() < 0.7
        queued = OK + b"+QUEUED\r\n" * len(asked)
        return (
            words("MULTI") + b"".join(asked) + words("EXEC" if run else "DISCARD"),
            queued + (array(*answers) if run else OK),
        )

    def _some(self, most: int) -> list[str]:
        return self.rng.sample(JOBS, self.rng.randint(0, most))

    def _taken(self) -> bytes:
        if self.rng.random() < 0.4:
            return array(*[number(0)] * 4)
        fields = array(*map(text, ("name", "n", "ats", "1", "stc", "0")))
        return array(fields, text(self.rng.choice(JOBS)), number(0), number(0))


class Client:
    """A connection, its watcher, and the answers that are still to come."""

    def __init__(self, witness: Witness, house: House, conn: int) -> None:
        watched = witness.watch(conn, f"c:{conn}", 1 << 26)
        self.watcher, self.answers = Watcher(house, watched), list[bytes]()


class Quiet:
    """Where warnings go."""

    def warning(self, *_: Any, **__: Any) -> None: ...

    error = warning


class Plane:
    """A witness, clients that come and go, and time."""

    def __init__(self, seed: int, now: Callable[[], int]) -> None:
        """`now`: when it begins; from then on, it is `self.now`."""
        self.chance, self.now = Chance(seed), now()
        self.lag, self.ledger = LoopLag(), LockLedger()
        self.lag._due = 2**62  # no beat runs: it is never late but by what is said here
        self.bus = Bus(lambda n: Hello("run", "0", "redis", 6379, n, ObserverSettings()), lambda: (), logs.get())
        self.witness = Witness(Catalogue(), self.ledger, self.bus, self.lag, Unrecognised(("emq",), logs.get()))
        self.limited, self.faults = Quiet(), 0
        self.clients: list[Client] = []
        self._conns = 0
        self._over: list[asyncio.Event] = []

    async def run(self, steps: int) -> list[Record]:
        for _ in range(steps):
            self._step()
            await asyncio.sleep(0)  # answers that wait for their turn, some of them
        for client in self.clients:
            self._end(client)
        for over in self._over:
            await over.wait()
        self.witness.stop()
        records = [message for message in self.bus._waiting if isinstance(message, Record)]
        await self.bus.close()
        return records

    def _step(self) -> None:
        rng, witness = self.chance.rng, self.witness
        self.now += rng.randrange(1000) + rng.choice([0, 1000, 30_000, 300_000, 3 * MS, 3 * MS, 40 * MS])
        if len(self.clients) < CONNS:
            self._conns += 1
            self.clients.append(Client(witness, cast("House", self), self._conns))
        client, what = rng.choice(self.clients), rng.random()
        if rng.random() < 0.02:
            self._pause(rng.choice([5, 15, 50]) * MS)
        if rng.random() < 0.3:
            witness.tick()
        if what < 0.5:
            calls = [self.chance.some() for _ in range(rng.choice([1, 1, 2, 5]))]
            client.answers += [answer for _, answer in calls]
            client.watcher.from_client(b"".join(sent for sent, _ in calls), self.now)
        elif what < 0.97 and client.answers:
            count = rng.randint(1, len(client.answers))
            client.watcher.from_server(b"".join(client.answers[:count]), self.now)
            del client.answers[:count]
        elif what >= 0.97:
            self.clients.remove(client)
            self._end(client)
        if rng.random() < 0.05:
            witness.teller.watch(self.now)

    def _pause(self, ns: int) -> None:
        pause = Window(self.now - ns, self.now)
        self.lag.pauses.append(pause)
        self.ledger.paused(pause)
        self.lag._late, self.lag._late_at = ns, self.now

    def _end(self, client: Client) -> None:
        over = asyncio.Event()
        self._over.append(over)
        client.watcher.end(self.now, over.set)
