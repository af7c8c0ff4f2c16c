"""What a Redis does that is ill: refuses, loads, stands still, dies, comes back, gives its place to another.

Each time: the client gets what it would get without us; we live; nobody is accused, and no lapse is told untruly.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.faulty import Middleman
from tests.proxy.hand import Hand, add, hand, untrue, wait_line
from tests.proxy.wires import dial, drain, exactly, sidecar, talk
from tests.scripts import talk as calls
from tests.session.talk import words

PING = words("PING")


@contextlib.contextmanager
def working(redis: RedisServer, port: int) -> Iterator[Hand]:
    """A worker that has job 1."""
    add(redis, "1")
    with hand(port) as worker:
        assert worker.pick() == "1"
        yield worker


@pytest.mark.parametrize(
    ("fault", "cure", "prefix"),
    [
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "READONLY"),
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "OOM"),
    ],
)
def test_a_refusal_arrives_as_it_is_and_says_nothing_of_the_lock(fault, cure, prefix):
    with RedisServer() as redis, sidecar(redis.url) as proxy, working(redis, proxy.port) as worker:
        assert redis.call(*fault) == b"+OK\r\n"
        with hand(redis.port) as direct:
            refusal = direct.renew()
        assert refusal.startswith(f"{prefix} ")
        assert worker.renew() == refusal
        assert redis.call(*cure) == b"+OK\r\n"
        assert worker.renew() == 1
        assert worker.finish() == 0
        wait_line(proxy, op="finish", outcome="ok", finding="sound")
        refused = [line for line in proxy.journal() if line["outcome"] == "error"]
        assert [(line["op"], line["code_name"]) for line in refused] == [("renew", prefix)]
        assert untrue(proxy) == []


def test_a_redis_that_loads_says_so_through_us():
    with RedisServer(**{"key-load-delay": "0"}) as redis, sidecar(redis.url) as proxy, working(redis, proxy.port):
        for key in range(400):
            redis.call("SET", f"key:{key}", "v" * 100)
        assert redis.call("SAVE") == b"+OK\r\n"
        redis.end()
        # Half a second a hundred keys, with a look at its clients in between.
        redis.options |= {"key-load-delay": "5000", "loading-process-events-interval-bytes": "1024"}
        starting = threading.Thread(target=redis.start)
        starting.start()
        try:
            loading = b"-LOADING Redis is loading the dataset in memory\r\n"
            eventually(lambda: talk(proxy.port, [PING]) == loading, what="it loads")
            with hand(proxy.port) as worker:
                told = worker.renew()
            assert told == 1 or told.startswith("LOADING "), "it may be ready by now"
        finally:
            starting.join(30)
        with hand(proxy.port) as worker:
            eventually(lambda: worker.renew() == 1, what="it has loaded")
            assert worker.finish() == 0
        wait_line(proxy, op="finish", outcome="ok")
        assert untrue(proxy) == []


def test_a_redis_that_stands_still_is_waited_for():
    with RedisServer() as redis, sidecar(redis.url) as proxy, working(redis, proxy.port) as worker:
        redis.freeze()
        worker.ask("extendLock-2", calls.renew("1", "t", 60_000))
        with dial(proxy.port) as another:  # who comes meanwhile waits, too
            another.sendall(PING)
            another.settimeout(0.05)
            with pytest.raises(TimeoutError):
                another.recv(1)
            another.settimeout(20)
            redis.thaw()
            assert exactly(another, 7) == b"+PONG\r\n"
        assert worker.read() == 1
        assert worker.finish() == 0
        wait_line(proxy, op="finish", finding="sound")
        assert untrue(proxy) == []


def test_a_lock_that_ends_while_redis_stands_still_is_nobodys_fault():
    with RedisServer() as redis, sidecar(redis.url) as proxy:
        add(redis, "1")
        with hand(proxy.port) as worker:
            assert worker.pick(ttl_ms=300) == "1"
            redis.freeze()
            worker.ask("extendLock-2", calls.renew("1", "t", 300))
            with socket.socket() as nobody:  # the lock's time passes
                nobody.settimeout(0.5)
                nobody.bind(("127.0.0.1", 0))
                nobody.listen()
                with pytest.raises(TimeoutError):
                    nobody.accept()
            redis.thaw()
            assert worker.read() == 0, "Redis works off what it has after the lock's end"
            line = wait_line(proxy, op="renew", outcome="refused")
            assert line["finding"] == "doubtful"
            assert not [line for line in proxy.journal() if line["finding"] == "straggler"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_redis_that_is_killed_and_comes_back(kept: bool):
    """With its data the worker goes on; without them the lock is gone, and the worker is not to blame for it."""
    with RedisServer(appendonly="yes" if kept else "no", appendfsync="always") as redis, sidecar(redis.url) as proxy:
        with working(redis, proxy.port) as worker, dial(proxy.port) as waiting:
            waiting.sendall(words("BLPOP", "none", 0))
            eventually(lambda: b"blocked_clients:1" in redis.call("INFO", "clients"))
            redis.popen.kill()
            redis.popen.wait()
            assert drain(waiting) == b""
            with pytest.raises((AssertionError, ConnectionError)):
                worker.renew()
        with dial(proxy.port) as refused:
            assert drain(refused) == b"", "closed, as it would be refused without us"
        assert redis.start()
        with hand(proxy.port) as worker:
            assert worker.renew() == (1 if kept else 0)
        line = wait_line(proxy, op="renew", outcome="ok" if kept else "refused")
        assert line["finding"] == ("sound" if kept else "unwitnessed")
        assert untrue(proxy) == []
        assert proxy.running


def test_a_replica_is_promoted_and_takes_the_place():
    soon = {"repl-diskless-sync-delay": "0"}
    with (
        RedisServer(**soon) as first,
        RedisServer(**soon) as second,
        Middleman(first.port) as place,
        sidecar(place.url) as proxy,
    ):
        assert second.call("REPLICAOF", "127.0.0.1", str(first.port)) == b"+OK\r\n"
        eventually(lambda: b"master_link_status:up" in second.call("INFO", "replication"), 20)
        with working(first, proxy.port) as worker:
            eventually(lambda: second.call("GET", "emq:orders:1:lock") == b"$1\r\nt\r\n", what="the lock is replicated")
            place.to = second.port  # the address is the replica's before it is promoted: its clients are refused
            place.reset()
            with pytest.raises((AssertionError, ConnectionError)):
                worker.renew()
        with hand(proxy.port) as worker:
            assert worker.renew().startswith("READONLY ")
            assert second.call("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
            first.popen.kill()
            assert worker.renew() == 1
            assert worker.finish() == 0
        line = wait_line(proxy, op="finish", outcome="ok")
        assert line["finding"] == "sound"
        assert untrue(proxy) == []


def test_many_clients_of_a_redis_that_is_gone_are_closed_and_one_line_is_said(proxy_of_nobody: EmqProxy):
    for _ in range(30):
        assert talk(proxy_of_nobody.port, [PING * 100]) == b""
    assert sum("upstream cannot be reached" in raw for raw in proxy_of_nobody.raw) == 1


@pytest.fixture
def proxy_of_nobody() -> Iterator[EmqProxy]:
    with socket.socket() as bound:  # and not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        with sidecar(f"redis://127.0.0.1:{bound.getsockname()[1]}", ready=False) as proxy:
            proxy.wait_log(lambda line: line["event"] == "listening", 20)
            yield proxy
