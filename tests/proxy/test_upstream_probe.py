"""The probe against real servers: there, gone, frozen, with a password, and of other kinds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from emqproxy.config import Upstream
from emqproxy.locks.evictions import Memory
from emqproxy.proxy.upstream import Connector
from emqproxy.proxy.upstream_probe import MEMORY_EVERY, UpstreamProbe
from tests.processes import RedisServer, free_port
from tests.tls import tls_redis

INTERVAL_S = 0.02


def probing(
    url: str,
    look: Callable[[UpstreamProbe, list[str]], Awaitable[None]],
    memory: Callable[[Memory], None] = lambda _: None,
) -> None:
    async def run() -> None:
        told: list[str] = []

        def again() -> None:
            told.append("another")

        connector = Connector(Upstream.parse(url))
        probe = UpstreamProbe(connector, time.monotonic_ns, told.append, again, memory, INTERVAL_S)
        probe.start()
        try:
            await asyncio.wait_for(look(probe, told), 20)
        finally:
            await probe.stop()
            await probe.stop()

    asyncio.run(run())


async def until(seen: Callable[[], object]) -> None:
    while not seen():  # noqa: ASYNC110  attributes change, nobody tells
        await asyncio.sleep(0.005)


def test_an_answer_and_what_it_is(redis_session: RedisServer) -> None:
    async def look(probe: UpstreamProbe, told: list[str]) -> None:
        assert await probe.first_attempt()
        await until(lambda: probe.redis_version)
        first = probe.answered_at
        await until(lambda: probe.answered_at != first)
        assert (probe.error, probe.redis_mode, told) == (None, "standalone", [])

    probing(redis_session.url, look)


def test_over_a_unix_socket(redis_session: RedisServer) -> None:
    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        assert await probe.first_attempt()

    probing(f"unix://{redis_session.socket_path}?db=3", look)


def test_over_tls_to_a_server_that_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        assert await probe.first_attempt(), probe.error

    with tls_redis(tmp_path) as (url, authority):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        probing(url, look)


def test_over_tls_to_a_server_that_is_not(tmp_path: Path) -> None:
    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        assert not await probe.first_attempt()
        assert "certificate verify failed" in (probe.error or "")

    with tls_redis(tmp_path) as (url, _):
        probing(url, look)


def test_nobody_there() -> None:
    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        assert not await probe.first_attempt()
        assert probe.answered_at is None
        assert "refused" in (probe.error or "").lower() or "connect" in (probe.error or "").lower()

    probing(f"redis://127.0.0.1:{free_port()}", look)


def test_it_goes_and_comes_back(redis_server: RedisServer) -> None:
    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        assert await probe.first_attempt()
        await asyncio.to_thread(redis_server.end)
        await until(lambda: probe.error)
        answered = probe.answered_at
        assert await asyncio.to_thread(redis_server.start)
        await until(lambda: probe.answered_at != answered)
        assert probe.error is None

    probing(redis_server.url, look)


def test_a_frozen_server_times_out(redis_server: RedisServer) -> None:
    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        assert await probe.first_attempt()
        redis_server.freeze()
        await until(lambda: probe.error)
        assert probe.error == "no answer within 1.5 s"
        redis_server.thaw()
        await until(lambda: probe.error is None)

    probing(redis_server.url, look)


# The client library leaves a socket whose AUTH failed to the garbage collector, which says so now and then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("credentials", "answered", "error"),
    [
        (":s3cret@", True, None),
        ("", True, None),  # NOAUTH is an answer, and clients bring their own
        (":wr0ng@", False, "invalid username-password pair or user is disabled."),
    ],
)
def test_credentials(credentials: str, answered: bool, error: str | None) -> None:
    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        assert await probe.first_attempt() == answered
        assert probe.error == error
        assert "wr0ng" not in repr(vars(probe))

    with RedisServer(requirepass="s3cret") as server:
        probing(f"redis://{credentials}127.0.0.1:{server.port}", look)


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru", "allkeys-random"])
def test_what_it_does_when_memory_is_full(redis_server: RedisServer, policy: str) -> None:
    """Where keys may be evicted, the count comes with each probe; else memory is asked for now and then."""
    heard: list[Memory] = []

    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        await until(lambda: len(heard) > 2)
        assert {(each.policy, each.maxmemory_bytes, each.evicted_keys) for each in heard} == {(policy, 1 << 30, 0)}
        assert [each.at for each in heard] == sorted(each.at for each in heard)
        redis_server.call("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
        await until(lambda: heard[-1].policy == "volatile-ttl")

    redis_server.call("CONFIG", "SET", "maxmemory", str(1 << 30))
    redis_server.call("CONFIG", "SET", "maxmemory-policy", policy)
    probing(redis_server.url, look, heard.append)


def test_where_info_is_forbidden_nothing_is_known_of_memory(redis_server: RedisServer) -> None:
    heard: list[Memory] = []

    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        seen: set[int | None] = set()
        await until(lambda: seen.add(probe.answered_at) or len(seen) > 2 * MEMORY_EVERY)
        assert (heard, probe.error, probe.redis_version) == ([], None, None)

    redis_server.call("ACL", "SETUSER", "poor", "on", ">s3cret", "~*", "+@all", "-info")
    probing(f"redis://poor:s3cret@127.0.0.1:{redis_server.port}", look, heard.append)


def test_where_a_password_is_wanted_that_it_has_not_each_answer_is_one() -> None:
    async def look(probe: UpstreamProbe, _: list[str]) -> None:
        assert await probe.first_attempt()
        seen: set[tuple[int | None, str | None]] = set()
        await until(lambda: seen.add((probe.answered_at, probe.error)) or len(seen) > 10)
        assert {error for _, error in seen} == {None}

    with RedisServer(requirepass="s3cret") as server:
        probing(f"redis://127.0.0.1:{server.port}", look)


def test_a_cluster_is_told_once_per_connection() -> None:
    async def look(probe: UpstreamProbe, told: list[str]) -> None:
        await until(lambda: told)
        first = probe.answered_at
        await until(lambda: probe.answered_at != first)
        assert told == ["cluster"]

    with RedisServer(**{"cluster-enabled": "yes"}) as server:
        probing(server.url, look)


def test_a_server_that_is_no_redis_does_not_end_it() -> None:
    async def run() -> None:
        async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(64)
            writer.write(b"\x00\xff not RESP\r\n")
            writer.close()

        server = await asyncio.start_server(garbage, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            connector = Connector(Upstream("tcp", "127.0.0.1", port))
            probe = UpstreamProbe(connector, time.monotonic_ns, print, interval_s=INTERVAL_S)
            probe.start()
            assert not await probe.first_attempt()
            first = probe.error
            assert first
            probe.error = None
            await asyncio.wait_for(until(lambda: probe.error), 5)  # it went on trying
            await probe.stop()

    asyncio.run(run())


def test_a_server_that_was_restarted_is_another_one(redis_server: RedisServer) -> None:
    async def look(probe: UpstreamProbe, told: list[str]) -> None:
        await until(lambda: probe.redis_run)
        redis_server.call("CLIENT", "KILL", "TYPE", "normal")  # only its connection is lost
        seen = probe.answered_at
        await until(lambda: probe.answered_at != seen)
        assert told == []
        await asyncio.to_thread(redis_server.end)
        await until(lambda: probe.error)
        assert await asyncio.to_thread(redis_server.start)
        await until(lambda: told)
        assert told == ["another"]

    probing(redis_server.url, look)
