"""Law 9, and what needs a hand inside: a real data plane on the test's own loop, with one part that fails or waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
import uvloop

from emqproxy.config import LimitsTable, ObserverTable
from emqproxy.locks.events import Place
from emqproxy.proxy.server import DataPlane
from emqproxy.proxy.upstream import Connector
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.operation import Happening, Operation
from emqproxy.session.exchange import Command, Exchange
from tests.processes import LOOPBACK, RedisServer
from tests.proxy.test_relay import sent
from tests.proxy.wires import data_plane, dial, port_of, reset, until
from tests.scripts.talk import pick, renew, text_of
from tests.session.talk import words

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Lines = list[dict[str, Any]]


class FailsToRead(Catalogue):
    """Trips over one job's calls."""

    def recognise(self, command: Command) -> Operation | None:
        if b"boom" in command.words:
            raise ZeroDivisionError("a fault of the translator")
        return super().recognise(command)


class FailsToConclude(Catalogue):
    """Trips over the answers to one job's calls."""

    def recognise(self, command: Command) -> Operation | None:
        operation = super().recognise(command)
        if operation is not None and b"boom" in command.words:
            return Tripping(operation)
        return operation


class Tripping:
    def __init__(self, operation: Operation) -> None:
        self.script = operation.script
        self.intents = operation.intents

    def happenings(self, _: Exchange, __: Place) -> tuple[Happening, ...]:
        raise RecursionError("a fault of the translator")


def use(catalogue: Catalogue) -> Callable[[DataPlane], None]:
    def change(plane: DataPlane) -> None:
        plane.witness._catalogue = catalogue

    return change


async def connect(plane: DataPlane) -> Streams:
    return await asyncio.open_connection(LOOPBACK, port_of(plane))


async def ask(streams: Streams, *parts: bytes | str | int, size: int) -> bytes:
    streams[1].write(words(*parts))
    return await asyncio.wait_for(streams[0].readexactly(size), 10)


def run(test: Callable[[Lines], Awaitable[None]]) -> None:
    async def within() -> None:
        with structlog.testing.capture_logs() as lines:
            await test(lines)

    uvloop.run(within())


def journal(path: Path) -> list[Any]:
    """But for the connections' own lines."""
    told = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in told if line["op"] != "conn"]


@pytest.mark.parametrize("catalogue", [FailsToRead, FailsToConclude])
def test_a_fault_of_ours_is_one_connections(redis_session: RedisServer, tmp_path: Path, catalogue: type[Catalogue]):
    path = tmp_path / "journal"

    async def test(lines: Lines) -> None:
        observer = ObserverTable(journal=str(path))
        async with data_plane(redis_session.url, use(catalogue()), observer=observer) as plane:
            good, bad, second = [await connect(plane) for _ in range(3)]
            for label in ("moveToActive-11", "extendLock-2"):
                await ask(good, "SCRIPT", "LOAD", text_of(label), size=47)
            redis_session.call("HSET", "emq:orders:1", "name", "n", "opts", "{}")
            redis_session.call("LPUSH", "emq:orders:wait", "1")
            picked = sent(pick("t:1"))
            good[1].write(picked + words("ECHO", "picked"))
            await asyncio.wait_for(good[0].readuntil(b"$6\r\npicked\r\n"), 5)
            for streams in (bad, second):
                # Its bytes go on, before and after.
                await ask(streams, "PING", size=7)
                for _ in range(3):
                    assert await ask(streams, *filter(None, renew("boom", "t:9")), size=4) == b":0\r\n"
                assert await ask(streams, "PING", size=7) == b"+PONG\r\n"
            assert await ask(good, *filter(None, renew("1", "t:1")), size=4) == b":1\r\n"
            # Answers reach the client before they are looked at.
            await until(lambda: plane.faults == 2 and not any(relay.watched.asked for relay in plane.relays))
            for streams in (good, bad, second):
                streams[1].close()
            # An observer that is still starting is not waited for when the plane ends.
            await until(lambda: path.exists() and len(journal(path)) == 4)
        faults = [line for line in lines if "fault" in line["event"]]
        assert len(faults) == 1, "once a minute, however many"
        assert faults[0]["fault"] in {"ZeroDivisionError", "RecursionError"}
        assert "t:9" not in repr(lines)

    run(test)
    told = journal(path)
    assert [line["op"] for line in told] == ["acquire", "blind", "blind", "renew"]
    assert told[3]["finding"] == "sound", "the other connection is followed in full"


class Gate(Connector):
    """Connects when it is let."""

    def __init__(self, connector: Connector) -> None:
        super().__init__(connector.upstream)
        self.open = asyncio.Event()
        self.waiting = 0

    async def connect(self, factory: Callable[[], Any]) -> Any:
        self.waiting += 1
        try:
            await self.open.wait()
            return await super().connect(factory)
        finally:
            self.waiting -= 1


def gated(plane: DataPlane) -> None:
    plane.connector = Gate(plane.connector)


@pytest.mark.parametrize("size", [100, 300_000, 5_000_000])
@pytest.mark.parametrize("with_eof", [True, False])
def test_what_comes_before_the_upstream_stands_is_kept_in_order(redis_session: RedisServer, size: int, with_eof: bool):
    count = size // 30 or 1
    early = b"".join(words("ECHO", f"{number:06}") for number in range(count))
    expected = b"".join(b"$6\r\n%06d\r\n" % number for number in range(count))

    async def test(lines: Lines) -> None:
        async with data_plane(redis_session.url, gated) as plane:
            gate = plane.connector
            assert isinstance(gate, Gate)
            reader, writer = await connect(plane)
            writer.write(early)
            if with_eof:
                writer.write_eof()
            await until(lambda: any(relay._early for relay in plane.relays))
            (relay,) = plane.relays
            for _ in range(100):  # what it takes is bounded while it waits
                await asyncio.sleep(0)
            assert sum(map(len, relay._early)) <= 600_000
            gate.open.set()
            got = await asyncio.wait_for(reader.readexactly(len(expected)), 20)
            assert got == expected
            writer.close()
            if not with_eof:
                await until(lambda: not plane.relays)
        assert not [line for line in lines if "fault" in line]

    run(test)


def test_a_client_that_goes_before_the_upstream_stands_leaves_nothing(redis_session: RedisServer):
    async def test(_: Lines) -> None:
        async with data_plane(redis_session.url, gated) as plane:
            gate = plane.connector
            assert isinstance(gate, Gate)
            client = dial(port_of(plane))
            await until(lambda: gate.waiting == 1)
            reset(client)
            await until(lambda: not plane.relays)
            await until(lambda: not gate.waiting)

    run(test)


def test_a_name_that_dns_cannot_carry_is_an_upstream_that_is_down():
    async def test(lines: Lines) -> None:
        async with data_plane("redis://a..b:6379") as plane:
            reader, writer = await connect(plane)
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
            assert plane.faults == 0
        (line,) = [line for line in lines if "upstream cannot be reached" in line["event"]]
        assert "\n" not in line["error"]

    run(test)


def test_past_its_bookkeeping_a_connection_is_not_followed_and_goes_on(redis_session: RedisServer):
    limits = LimitsTable(pending_bytes=2_000_000)
    block = words("BLPOP", "none", 0)  # nothing behind it is answered until somebody pushes
    call, unknown = sent(renew("1", "t:1")), words("EVALSHA", "f" * 40, 0)

    def blind(lines: Lines) -> Lines:
        return [line for line in lines if "cannot be followed" in line["event"]]

    async def test(lines: Lines) -> None:
        async with data_plane(redis_session.url, limits=limits) as plane:
            reader, writer = await connect(plane)
            other = await connect(plane)
            name = "{}:{}".format(*writer.get_extra_info("sockname"))
            writer.write(block + call * 1_000)
            writer.write(words("PING") * 100_000 + unknown * 10_000)  # what nobody reads costs nothing
            await writer.drain()
            assert await ask(other, "PING", size=7) == b"+PONG\r\n"
            assert blind(lines) == []
            writer.write(call * 2_000 + words("ECHO", "the end"))
            await writer.drain()
            await until(lambda: blind(lines))
            assert await ask(other, "LPUSH", "none", "x", size=4) == b":1\r\n"
            got = bytearray()
            while not got.endswith(b"$7\r\nthe end\r\n"):
                got += await asyncio.wait_for(reader.read(1 << 20), 20)
            assert (got.count(b"+PONG\r\n"), got.count(b"-NOSCRIPT")) == (100_000, 13_000)
            await until(lambda: not any(relay.watched.asked for relay in plane.relays))
            assert plane.faults == 0
            for streams in ((reader, writer), other):
                streams[1].close()
        (line,) = blind(lines)
        assert "limits.pending_bytes" in line["reason"]
        assert (line["client"], line["log_level"]) == (name, "warning")

    run(test)


def test_an_upstream_that_speaks_first_is_heard():
    """As Redis does when it has too many clients: an error, and the close."""

    with RedisServer(maxclients="1") as redis:

        async def full(_: Lines) -> None:
            holder = await asyncio.open_connection(LOOPBACK, redis.port)
            holder[1].write(words("PING"))
            assert await holder[0].readexactly(7) == b"+PONG\r\n"
            async with data_plane(redis.url) as plane:
                reader, writer = await connect(plane)
                assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"-ERR max number of clients")
                writer.close()
                assert plane.faults == 0
            holder[1].close()

        run(full)
