"""How a sidecar goes: at once where nobody is there; with its last answers given; its telemetry has 3 s."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import EmqProxy, RedisServer, children, eventually
from tests.proxy.wires import Peer, ask, dial, drain, exactly, listening, mark, sidecar
from tests.scripts.talk import renew, text_of
from tests.session.talk import words

LIMIT = "drain.timeout has passed: clients are closed"
FLUSH_S_MAX = 3.4
LOADED_S = 4.0
"""What a busy machine may add."""
TERM_AND_INT = 1 << (signal.SIGTERM - 1) | 1 << (signal.SIGINT - 1)


def ignores_signals(pid: int) -> bool:
    """Whether SIGTERM and SIGINT pass by it: an observer has its interpreter to start before it can say so."""
    (ignored,) = re.findall(r"^SigIgn:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(ignored, 16) & TERM_AND_INT == TERM_AND_INT


def wait_said(proxy: EmqProxy, begins: str) -> None:
    proxy.wait_log(lambda line: line["event"].startswith(begins))


@pytest.fixture
def deaf_collector() -> Iterator[str]:
    """Takes a connection and never answers; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def told(redis: RedisServer, collector: str, *args: str) -> EmqProxy:
    """A sidecar that has a span to deliver, and nobody who takes it."""
    proxy = EmqProxy(redis.url, *args, env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector})
    try:
        with dial(proxy.port) as client:
            ask(client, "EVAL", text_of("extendLock-2"), *renew("1", "t")[2:], answer=b":0\r\n")
        assert proxy.wait_journal(lambda line: line["op"] == "renew")
    except BaseException:
        proxy.stop()
        raise
    return proxy


def test_with_nobody_there_it_goes_at_once_and_well(redis_session: RedisServer):
    with sidecar(redis_session.url) as proxy:
        (observer,) = children(proxy.pid)
        eventually(lambda: ignores_signals(observer))
        os.kill(observer, signal.SIGTERM)  # a whole group may be signalled: this one waits for its pipe to close
        os.kill(observer, signal.SIGINT)
        os.kill(proxy.pid, signal.SIGTERM)
        assert proxy.popen.wait(10) == 0
        eventually(lambda: not Path(f"/proc/{observer}").exists())
        proxy._reader.join(5)
        assert [line["event"] for line in proxy.log][1:] == [
            "draining: connected clients are served on",
            "ended",
        ]


def test_a_flush_that_nobody_takes_is_bounded(redis_session: RedisServer, deaf_collector: str):
    with told(redis_session, deaf_collector) as proxy:
        (observer,) = children(proxy.pid)
        began = time.monotonic()
        os.kill(proxy.pid, signal.SIGTERM)
        assert proxy.popen.wait(20) == 0
        assert time.monotonic() - began < FLUSH_S_MAX + LOADED_S
        eventually(lambda: not Path(f"/proc/{observer}").exists())


def test_one_more_signal_ends_the_flush(redis_session: RedisServer, deaf_collector: str):
    with told(redis_session, deaf_collector) as proxy:
        (observer,) = children(proxy.pid)
        os.kill(observer, signal.SIGSTOP)  # it would take all of its time
        os.kill(proxy.pid, signal.SIGTERM)
        wait_said(proxy, "draining")
        os.kill(proxy.pid, signal.SIGTERM)
        assert proxy.popen.wait(10) == 0
        assert Path(f"/proc/{observer}").exists(), "it was not waited for"
        os.kill(observer, signal.SIGCONT)
        eventually(lambda: not Path(f"/proc/{observer}").exists(), 15, "the observer's own end: its pipe is closed")


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[tuple[Peer, EmqProxy]]:
    """A sidecar that waits a moment for its clients, before a peer that says what the test wants."""
    with Peer() as upstream:
        env = {"OTEL_SDK_DISABLED": "true", "EMQPROXY_DRAIN__TIMEOUT": "0.1"}
        with EmqProxy(upstream.url, ready=False, env=env) as proxy:
            listening(proxy)
            yield upstream, proxy


def test_at_the_limit_what_was_asked_is_answered_before_the_close(limited: tuple[Peer, EmqProxy]):
    upstream, proxy = limited
    client, peer = upstream.pair(proxy, mark(1))
    peer.sendall(b"+PONG\r\n")
    exactly(client, 7)
    question = words("INCR", "n") * 2
    client.sendall(question)
    exactly(peer, len(question))
    os.kill(proxy.pid, signal.SIGTERM)
    wait_said(proxy, LIMIT)
    client.sendall(words("INCR", "n"))  # too late: it is not read, and never runs
    peer.sendall(b":1\r\n")
    assert exactly(client, 4) == b":1\r\n"
    peer.sendall(b":2\r\n")
    assert drain(client) == b":2\r\n"
    assert drain(peer) == b""
    client.close()
    assert proxy.popen.wait(10) == 0


def test_what_is_never_answered_holds_nothing_up(limited: tuple[Peer, EmqProxy]):
    upstream, proxy = limited
    client, peer = upstream.pair(proxy, mark(2))
    os.kill(proxy.pid, signal.SIGTERM)
    wait_said(proxy, LIMIT)
    assert drain(client) == b""
    assert proxy.popen.wait(10) == 0
    assert drain(peer) == b""
    client.close()


def test_a_unix_socket_is_removed_and_a_dead_one_replaced(redis_session: RedisServer, tmp_path: Path):
    path = tmp_path / "s"
    for sent, code in [(signal.SIGKILL, -9), (signal.SIGTERM, 0)]:
        with sidecar(redis_session.url, "--listen", f"unix://{path}") as proxy:
            with dial(path) as client:
                ask(client, "PING", answer=b"+PONG\r\n")
            (observer,) = children(proxy.pid)
            assert proxy.end(sent) == code
            eventually(lambda observer=observer: not Path(f"/proc/{observer}").exists())
    assert not path.exists()
