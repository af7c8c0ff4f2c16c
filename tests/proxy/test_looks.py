"""Looks are put off until what was read has been written, keep their order, and are not overtaken by time."""

from __future__ import annotations

import asyncio
import socket

import uvloop

from emqproxy.proxy import clock
from emqproxy.proxy.looks import SLICE_BYTES, TURN_NS, Looks
from tests.processes import RedisServer
from tests.proxy.test_witness import House, Wire, within
from tests.proxy.wires import until
from tests.scripts.talk import pick, renew
from tests.session.talk import words


class Forwarder(asyncio.Protocol):
    """Writes what it reads to its sink, and has it looked at."""

    def __init__(self, looks: Looks, seen: list[str], sink: socket.socket) -> None:
        self._looks, self._seen, self._sink = looks, seen, sink
        self.out: asyncio.Transport | None = None

    def data_received(self, data: bytes) -> None:
        assert self.out is not None
        self.out.write(data)
        self._seen.append(f"read {data.decode()}")
        self._looks.later(self._look, data, clock.now())

    def _look(self, data: bytes, _: int) -> None:
        """By now the bytes have reached the sink, which nobody but us reads."""
        self._seen.append(f"looked at {data.decode()}, {self._sink.recv(99).decode()} written")


def test_bytes_are_written_before_they_are_looked_at_and_looked_at_before_more_is_read():
    async def test() -> list[str]:
        loop, looks, seen = asyncio.get_running_loop(), Looks(), []
        pairs = [(socket.socketpair(), socket.socketpair()) for _ in range(3)]
        for (_, far), (out, sink) in pairs:
            sink.setblocking(False)
            _, protocol = await loop.create_connection(lambda sink=sink: Forwarder(looks, seen, sink), sock=far)
            protocol.out, _ = await loop.create_connection(asyncio.Protocol, sock=out)
        for number, ((near, _), _) in enumerate(pairs):
            near.send(b"%d" % number)
        await until(lambda: sum(line.startswith("looked") for line in seen) == 3)
        for (near, _), (_, sink) in pairs:
            near.close()
            sink.close()
        return seen

    seen = uvloop.run(test())
    looked = [line for line in seen if line.startswith("looked")]
    assert sorted(looked) == [f"looked at {n}, {n} written" for n in range(3)]
    assert [line.split()[2].rstrip(",") for line in looked] == [line.split()[1] for line in seen if "read" in line]


def test_run_looks_at_all_of_it_now_and_nothing_twice():
    async def test() -> None:
        looks, seen = Looks(), []
        for data in (b"1", b"2", b"3"):
            looks.later(lambda data, now: seen.append((data, now)), data, 7)
        looks.run()
        assert seen == [(b"1", 7), (b"2", 7), (b"3", 7)]
        await asyncio.sleep(0)
        assert len(seen) == 3
        looks.later(lambda data, now: seen.append((data, now)), b"4", 8)
        await asyncio.sleep(0)
        assert seen[-1] == (b"4", 8)

    asyncio.run(test())


def test_one_clients_pipeline_does_not_keep_the_others_waiting():
    """Where there is much to look at, the loop's other work has its turn in between, and the order stays."""

    async def test() -> None:
        looks, seen = Looks(), []

        def look(data: bytes, _: int) -> None:
            seen.append(data[:1])
            until = clock.now() + 2 * TURN_NS
            while clock.now() < until:
                pass

        data = b"".join(b"%d" % n * SLICE_BYTES for n in range(6))
        looks.later(look, data + b"end", 1, sliced=True)
        looks.later(look, b"other", 2)
        turns = []
        while looks.oldest is not None:
            await asyncio.sleep(0)  # what else the loop has to do
            turns.append(len(seen))
        assert seen == [b"0", b"1", b"2", b"3", b"4", b"5", b"e", b"o"]
        assert len(turns) >= 8, "a turn for each slice"

    asyncio.run(test())


def test_the_oldest_is_when_the_first_of_them_was_read():
    async def test() -> None:
        looks, seen = Looks(), []
        assert looks.oldest is None
        for now in (5, 6):
            looks.later(lambda _, now: seen.append(now), b"xy", now)
        assert (looks.oldest, looks.waiting_bytes) == (5, 4)
        looks.run()
        assert (looks.oldest, looks.waiting_bytes) == (None, 0)
        assert seen == [5, 6]

    asyncio.run(test())


def test_time_does_not_overtake_what_has_been_read(redis_session: RedisServer):
    """The timer of a lapse fires while a renewal that was sent in time waits to be looked at: it may explain it."""

    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11")
        wire.add("1")
        wire.ask(pick("t:1", 40))
        (acquired,) = house.records
        data = words(*(part for part in renew("1", "t:1", 40) if part is not None))
        house.witness.looks.later(
            lambda data, now: house.witness.asked(wire.watched, wire.watched.session.from_client(data, now)),
            data,
            acquired.verdict.at + 1,
        )
        gone = acquired.verdict.at + 60_000_000
        while clock.now() < gone:  # the loop stands still past the deadline
            pass
        house.witness.tick()
        assert [record.line.op for record in house.records] == ["acquire"]

    within(redis_session, test)
