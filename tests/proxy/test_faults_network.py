"""What happens to connections: answers cut, late or never, hosts that vanish. With us it is as it is without us."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import structlog.testing
import uvloop

from emqproxy.proxy import upstream
from emqproxy.proxy.server import DataPlane
from tests.processes import EmqProxy, RedisServer
from tests.proxy.faulty import How, Middleman, deafen
from tests.proxy.hand import TTL_MS, add, hand, untrue, wait_line
from tests.proxy.wires import ask, data_plane, dial, drain, exactly, half_close, port_of, reset, sidecar, until
from tests.scripts import talk as calls
from tests.session.talk import words

VALUE = b"v" * 5000
ANSWER = b"$5000\r\n" + VALUE + b"\r\n"


@pytest.fixture(scope="module")
def between(_shared_redis: RedisServer) -> Iterator[Middleman]:
    with Middleman(_shared_redis.port) as middleman:
        yield middleman


@pytest.fixture(scope="module")
def behind(between: Middleman) -> Iterator[EmqProxy]:
    with sidecar(between.url) as proxy:
        yield proxy


@pytest.fixture
def faulty(between: Middleman, behind: EmqProxy, redis_session: RedisServer) -> Iterator[tuple[Middleman, EmqProxy]]:
    """A middleman who behaves until told otherwise, and a sidecar before him."""
    redis_session.call("SET", "value", VALUE)
    try:
        yield between, behind
    finally:
        between.heal()
        between.reset()


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("how", ["reset", "close"])
@pytest.mark.parametrize("after", [0, 1, 6, 7, 5000, len(ANSWER) - 1, len(ANSWER), len(ANSWER) + 3])
def test_answers_that_are_cut_arrive_as_far_as_they_came(faulty: tuple[Middleman, EmqProxy], after: int, how: How):
    between, proxy = faulty
    got = []
    for port in (between.port, proxy.port):
        between.heal()
        with dial(port) as client:
            ask(client, "PING", answer=b"+PONG\r\n")
            between.cut(after, how)
            client.sendall(words("GET", "value") + words("GET", "value"))
            got.append(drain(client))
    assert got[0] == got[1] == (ANSWER * 2)[:after]


def test_an_answer_that_comes_bit_by_bit_is_passed_on_bit_by_bit(faulty: tuple[Middleman, EmqProxy]):
    between, proxy = faulty
    with dial(proxy.port) as client, dial(proxy.port) as another:
        for one in (client, another):
            ask(one, "PING", answer=b"+PONG\r\n")
        between.trickle(1, 0.002)
        client.sendall(words("ECHO", "x" * 300))
        another.sendall(words("PING"))
        assert exactly(another, 7) == b"+PONG\r\n"
        assert exactly(client, 3) == b"$30"
        between.heal()  # what has been cut into pieces comes so all the same
        assert exactly(client, 305) == b"0\r\n" + b"x" * 300 + b"\r\n"


def test_a_cut_pickup_and_a_cut_renewal_accuse_nobody(faulty: tuple[Middleman, EmqProxy], redis_session: RedisServer):
    """What Redis did is not known then: the worker may hold a job that it never heard of."""
    between, proxy = faulty
    begun = len(proxy.journal())
    add(redis_session, "1")
    add(redis_session, "2")
    with hand(proxy.port) as worker:
        assert worker.pick("a") == "1"
        between.cut(3, "reset")
        with pytest.raises((AssertionError, ConnectionError)):
            worker.pick("b")
        between.heal()
    with hand(proxy.port) as worker:
        assert worker.renew("1", "a") == 1
        between.cut(1, "close")
        worker.ask("extendLock-2", calls.renew("2", "b", TTL_MS))
        assert drain(worker.wire._socket) == b":"
        between.heal()
    with hand(proxy.port) as worker:
        assert worker.renew("2", "b") == 1
        assert worker.finish("1", "a") == 0
        assert worker.finish("2", "b") == 0
        wait_line(proxy, op="finish", job="2", outcome="ok")
    lines = proxy.journal()[begun:]
    assert sum(line["outcome"] == "unknown" for line in lines) == 1, "the renewal; the pickup named no job"
    assert not [line for line in untrue(proxy) if line in lines]


@pytest.mark.parametrize("goes", [socket.socket.close, reset, half_close, "upstream"])
def test_a_connection_that_is_over_is_freed_at_once(goes: Any, redis_session: RedisServer):
    """Not when the collector comes by, which is seldom: a storm of them would be memory for good."""
    with Middleman(redis_session.port) as between:

        async def test(plane: DataPlane, _: Any) -> None:
            clients = [await sent(plane, "PING") for _ in range(3)]
            for client in clients:
                assert await asyncio.to_thread(exactly, client, 7) == b"+PONG\r\n"
            seen = [weakref.ref(relay) for relay in plane.relays]
            assert len(seen) == 3
            gc.disable()
            try:
                for client in clients:
                    await asyncio.to_thread(between.reset if goes == "upstream" else functools.partial(goes, client))
                await until(lambda: not any(ref() for ref in seen))
            finally:
                gc.enable()
                for client in clients:
                    client.close()

        played(between.url, test)


# ---------------------------------------------------------------- hosts that vanish


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vanished host is noticed in three seconds; without this it takes two minutes."""
    for name, seconds in {"KEEPALIVE_IDLE_S": 1, "KEEPALIVE_INTERVAL_S": 1, "KEEPALIVE_COUNT": 2}.items():
        monkeypatch.setattr(upstream, name, seconds)


def blocked(redis: RedisServer) -> int:
    return int(redis.call("INFO", "clients").decode().partition("blocked_clients:")[2].split()[0])


def played(url: str, test: Callable[[DataPlane, Any], Awaitable[None]]) -> None:
    """In a plane of our own; the test gets its log lines."""

    async def within() -> None:
        with structlog.testing.capture_logs() as lines:
            async with data_plane(url) as plane:
                await test(plane, lines)

    uvloop.run(within())


async def sent(plane: DataPlane, *parts: str | int) -> socket.socket:
    client = await asyncio.to_thread(dial, port_of(plane))
    client.sendall(words(*parts))
    return client


@pytest.mark.usefixtures("watchful")
def test_a_client_whose_host_is_gone_takes_no_job_with_it(redis_session: RedisServer):
    """It blocks on a queue; nobody would ever tell Redis that it is gone, and the next job would be its."""

    async def test(plane: DataPlane, _: Any) -> None:
        client = await sent(plane, "BLPOP", "jobs", 0)
        await until(lambda: blocked(redis_session) == 1)
        deafen(client)
        await until(lambda: blocked(redis_session) == 0)
        await until(lambda: not plane.relays)
        client.close()

    played(redis_session.url, test)
    assert redis_session.call("RPUSH", "jobs", "a") == b":1\r\n"


@pytest.mark.usefixtures("watchful")
def test_a_redis_whose_host_is_gone_is_noticed_while_clients_wait(redis_session: RedisServer):
    with Middleman(redis_session.port) as between:

        async def test(plane: DataPlane, _: Any) -> None:
            client = await sent(plane, "BLPOP", "jobs", 0)
            await until(lambda: blocked(redis_session) == 1)
            between.vanish()
            assert await asyncio.to_thread(drain, client) == b""
            await until(lambda: not plane.relays)
            client.close()

        played(between.url, test)


def test_a_redis_that_swallows_makes_the_sidecar_unready_and_not_deaf(
    redis_session: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    """Connections that stay open and silent: clients wait as they would without us; probes get an answer."""
    monkeypatch.setattr("emqproxy.proxy.upstream_probe.TIMEOUT_S", 0.2)
    monkeypatch.setattr("emqproxy.proxy.upstream_probe.INTERVAL_S", 0.05)
    with Middleman(redis_session.port) as between:

        async def test(plane: DataPlane, _: Any) -> None:
            await until(lambda: plane.probe.answered_at is not None)
            client = await sent(plane, "PING")
            assert await asyncio.to_thread(exactly, client, 7) == b"+PONG\r\n"
            between.swallow()
            await until(lambda: plane.probe.error == "no answer within 0.2 s")
            client.sendall(words("PING"))
            client.settimeout(0.1)
            with pytest.raises(TimeoutError):
                await asyncio.to_thread(client.recv, 1)
            between.heal()
            await until(lambda: plane.probe.error is None)
            client.close()

        played(between.url, test)


def test_a_redis_whose_host_answers_nobody_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upstream, "CONNECT_TIMEOUT_S", 0.3)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as switched_off:
        deafen(switched_off)

        async def test(plane: DataPlane, lines: Any) -> None:
            clients = [await sent(plane, "PING") for _ in range(3)]
            for client in clients:
                assert await asyncio.to_thread(drain, client) == b""
                client.close()
            told = [line for line in lines if "upstream cannot be reached" in line["event"]]
            assert [line["error"] for line in told] == ["no connection within 0 s"]

        played(f"redis://127.0.0.1:{switched_off.getsockname()[1]}", test)
