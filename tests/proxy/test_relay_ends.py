"""Either side's close reaches the other at once, and what was said before it arrives."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from tests.processes import EmqProxy, RedisServer, eventually, free_port
from tests.proxy.wires import Peer, ask, dial, drain, exactly, half_close, listening, mark, reset, sidecar, talk
from tests.session.talk import words


def blocked_clients(redis: RedisServer) -> int:
    info = redis.call("INFO", "clients").decode()
    return int(info.partition("blocked_clients:")[2].split()[0])


@pytest.mark.parametrize("how", [socket.socket.close, reset, half_close])
def test_a_client_that_goes_while_it_blocks_takes_nothing_with_it(redis_session: RedisServer, proxy: EmqProxy, how):
    client = dial(proxy.port)
    client.sendall(words("BLPOP", "jobs", 0))
    eventually(lambda: blocked_clients(redis_session) == 1)
    how(client)
    eventually(lambda: blocked_clients(redis_session) == 0, 2, "Redis knows at once")
    assert redis_session.call("RPUSH", "jobs", "a") == b":1\r\n"
    assert redis_session.call("LPOP", "jobs") == b"$1\r\na\r\n"
    client.close()


def test_a_client_that_half_closes_reads_all_its_answers(redis_session: RedisServer, proxy: EmqProxy):
    value = b"v" * 3_000_000
    data = words("SET", "big", value) + words("GET", "big") * 5
    answer = b"$3000000\r\n" + value + b"\r\n"
    got = talk(proxy.port, [data])
    # A direct connection may be cut short as well: Redis closes when it reads the end of what we say.
    assert (b"+OK\r\n" + answer * 5).startswith(got)
    assert got.startswith(b"+OK\r\n")
    assert talk(proxy.port, [words("PING") * 1000]) == b"+PONG\r\n" * 1000


def test_what_the_server_said_before_it_closed_arrives_and_then_the_close():
    with Peer() as upstream, sidecar(upstream.url, ready=False) as proxy:
        listening(proxy)
        for number, goes in enumerate([socket.socket.close, half_close]):
            client, peer = upstream.pair(proxy, mark(number))
            said = bytes(range(256)) * 40_000
            peer.sendall(b"$99999999\r\n")
            sender = threading.Thread(target=lambda peer=peer, said=said, goes=goes: (peer.sendall(said), goes(peer)))
            sender.start()
            assert drain(client) == b"$99999999\r\n" + said
            sender.join(10)
            with client, peer:
                pass
        client, peer = upstream.pair(proxy, mark(7))
        reset(peer)
        assert drain(client) == b""
        client.close()


def test_quit_is_answered_and_closes(redis_session: RedisServer, proxy: EmqProxy):
    with dial(proxy.port) as client:
        client.sendall(words("PING") + words("QUIT"))
        assert drain(client) == b"+PONG\r\n+OK\r\n"


def test_an_upstream_killed_within_a_reply():
    with RedisServer() as redis, sidecar(redis.url) as proxy, dial(proxy.port) as client:
        ask(client, "SET", "k", b"x" * 1000, answer=b"+OK\r\n")
        client.sendall(words("GET", "k") + words("BLPOP", "none", 0))
        whole = b"$1000\r\n" + b"x" * 1000 + b"\r\n"
        assert exactly(client, len(whole)) == whole
        redis.popen.kill()
        assert client.recv(10) == b""


def test_upstream_down_closes_at_once_says_nothing_and_comes_back():
    port = free_port()
    with sidecar(f"redis://127.0.0.1:{port}", ready=False) as proxy:
        listening(proxy)
        for _ in range(50):
            began = time.monotonic()
            with dial(proxy.port) as client:
                client.sendall(words("PING"))
                assert drain(client) == b""
            assert time.monotonic() - began < 2
        said = [line for line in proxy.log if "upstream cannot be reached" in line["event"]]
        assert len(said) == 1
        assert (said[0]["level"], said[0]["upstream"]) == ("error", f"redis://127.0.0.1:{port}")
        assert "refused" in said[0]["error"].lower() or "connect call failed" in said[0]["error"].lower()
        with RedisServer(port=port):
            assert talk(proxy.port, [words("PING")]) == b"+PONG\r\n"


def test_what_the_server_said_before_it_closed_arrives_although_the_client_goes_on():
    """Redis refuses and closes, with more on its way to it: what we write then fails before we have read why."""
    with Peer() as upstream, sidecar(upstream.url, ready=False) as proxy:
        listening(proxy)
        for number in range(3):
            client, peer = upstream.pair(proxy, mark(number))
            proxy.freeze()
            client.sendall(words("GET", "k"))
            peer.sendall(b"-ERR Protocol error: too late\r\n")
            reset(peer)
            proxy.thaw()
            assert drain(client) == b"-ERR Protocol error: too late\r\n"
            client.close()
