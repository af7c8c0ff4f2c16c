"""The test kit is itself tested: servers start, freeze, come back and end."""

from __future__ import annotations

import os
import socket

import pytest

from tests.processes import EmqProxy, RedisServer, children, eventually, free_port, inline, server_binary, valkey_binary


@pytest.mark.parametrize("binary", sorted({server_binary(), valkey_binary()}))
def test_a_server_starts_and_ends(binary: str) -> None:
    with RedisServer(binary) as server:
        pid, folder = server.pid, server.folder
        assert server.call("SET", "k", "v") == b"+OK\r\n"
        with socket.socket(socket.AF_UNIX) as conn:
            conn.connect(str(server.socket_path))
            conn.sendall(b"GET k\r\n")
            assert conn.recv(64) == b"$1\r\nv\r\n"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not folder.exists()


def test_a_server_comes_back_on_its_port(redis_server: RedisServer) -> None:
    redis_server.end()
    with pytest.raises(ConnectionRefusedError):
        redis_server.call("PING")
    assert redis_server.start()
    assert redis_server.call("PING") == b"+PONG\r\n"


def test_a_frozen_server_accepts_and_says_nothing(redis_server: RedisServer) -> None:
    redis_server.freeze()
    with socket.create_connection(("127.0.0.1", redis_server.port)) as conn:
        conn.settimeout(0.05)
        conn.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            conn.recv(1)
        redis_server.thaw()
        conn.settimeout(5)
        assert conn.recv(7) == b"+PONG\r\n"


def test_the_shared_server_is_empty(redis_session: RedisServer) -> None:
    assert redis_session.call("DBSIZE") == b":0\r\n"


def test_an_option_and_a_password_are_taken() -> None:
    with RedisServer(requirepass="s3cret", maxmemory="1mb") as server:
        assert b"1048576" in server.call("CONFIG", "GET", "maxmemory")


def test_a_taken_port_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AssertionError, match="does not start"):
            RedisServer(port=taken.getsockname()[1])


def test_ports_differ() -> None:
    assert len({free_port() for _ in range(50)}) == 50


def test_eventually_gives_up_with_the_reason() -> None:
    with pytest.raises(AssertionError, match="the moon") as told:
        eventually(lambda: {}["x"], 0.05, "the moon")
    assert isinstance(told.value.__cause__, KeyError)


def test_a_proxy_starts_speaks_and_ends(redis_session: RedisServer) -> None:
    with EmqProxy(redis_session.url) as proxy:
        assert proxy.wait_log(lambda line: line["event"] == "listening")["upstream"] == redis_session.url
        with socket.create_connection(("127.0.0.1", proxy.port)) as conn:
            conn.settimeout(10)
            conn.sendall(inline("PING"))
            assert conn.recv(7) == b"+PONG\r\n"
        (observer,) = children(proxy.pid)
        assert proxy.journal() == []
        assert proxy.end() == 0
        with pytest.raises(ProcessLookupError):
            os.kill(observer, 0)


def test_a_proxy_that_does_not_become_ready_is_stopped() -> None:
    with EmqProxy(f"redis://127.0.0.1:{free_port()}", ready=False) as proxy:
        with pytest.raises(AssertionError, match="emqproxy ready"):
            proxy.wait_ready(0.5)
        assert proxy.running
    assert not proxy.running
