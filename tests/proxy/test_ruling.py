"""SIGHUP from observe to shadow to enforce and back, on connections that are open: idle, in the middle of a command,
with a call that blocks, in MULTI, and many at once. Nothing is lost, and answers keep their order.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.breaches import ALL_RULES
from tests.proxy.wires import dial, drain, exactly
from tests.session.talk import words

LOCK = b"emq:orders:7:lock"
DEL = words("DEL", LOCK)
SET = words("SET", LOCK, "held")
LINE = b"-EMQPROXY raw_lock_write DEL on a lock's key outside the protocol's scripts\r\n"
PING, PONG = words("PING"), b"+PONG\r\n"
ROUND = ("observe", "shadow", "enforce", "observe", "enforce", "shadow", "observe")


class Switched:
    """A sidecar whose mode can be changed while it runs."""

    def __init__(self, proxy: EmqProxy, file: Path) -> None:
        self.proxy, self._file, self._reloads = proxy, file, 0

    @property
    def port(self) -> int:
        return self.proxy.port

    def to(self, mode: str) -> None:
        """In force when this returns."""
        self._file.write_text(f'mode = "{mode}"\n')
        self._reloads += 1
        os.kill(self.proxy.pid, signal.SIGHUP)
        eventually(lambda: self._reads() >= self._reloads, what="the reload")

    def _reads(self) -> int:
        return sum(line["event"] == "the configuration is read again" for line in list(self.proxy.log))


@pytest.fixture
def switched(redis_session: RedisServer, tmp_path: Path) -> Iterator[Switched]:
    file = tmp_path / "emqproxy.toml"
    file.write_text('mode = "observe"\n')
    env = {"OTEL_SDK_DISABLED": "true"} | ALL_RULES
    with EmqProxy(redis_session.url, "--config", str(file), env=env) as proxy:
        yield Switched(proxy, file)


def said(client: socket.socket, request: bytes, answer: bytes) -> None:
    client.sendall(request)
    assert exactly(client, len(answer)) == answer


def deletes(redis: RedisServer, client: socket.socket, mode: str) -> None:
    redis.call("SET", LOCK, "held")
    said(client, DEL + PING, (LINE if mode == "enforce" else b":1\r\n") + PONG)
    assert redis.call("EXISTS", LOCK) == (b":1\r\n" if mode == "enforce" else b":0\r\n")


def test_idle_connections_are_judged_by_the_mode_in_force(redis_session: RedisServer, switched: Switched) -> None:
    with dial(switched.port) as old:
        deletes(redis_session, old, "observe")
        for mode in ROUND[1:]:
            switched.to(mode)
            with dial(switched.port) as new:
                deletes(redis_session, new, mode)
            deletes(redis_session, old, mode)
            deletes(redis_session, old, mode)
    lines = switched.proxy.wait_journal(lambda line: line.get("action") == "blocked")
    assert lines["rule"] == "raw_lock_write"
    assert {line.get("action") for line in switched.proxy.journal() if line["op"] == "raw"} >= {None, "would_block"}


@pytest.mark.parametrize(
    ("request_", "answer"),
    [(DEL, b":1\r\n"), (words("ECHO", "x" * 30), b"$30\r\n" + b"x" * 30 + b"\r\n")],
    ids=["DEL", "ECHO"],
)
def test_half_a_command_was_sent_before(
    redis_session: RedisServer, switched: Switched, request_: bytes, answer: bytes
) -> None:
    """What went on in part goes on whole, and is told; the next is judged. Back again: what is held is let go."""
    with dial(switched.port) as client:
        said(client, PING, PONG)
        for at in (1, 2, 5, len(request_) // 2, len(request_) - 3, len(request_) - 1):
            redis_session.call("SET", LOCK, "held")
            client.sendall(request_[:at])
            eventually_read(switched, client)
            switched.to("enforce")
            said(client, request_[at:] + DEL + PING, answer + LINE + PONG)
            redis_session.call("SET", LOCK, "held")
            client.sendall(request_[:at])
            eventually_read(switched, client)
            switched.to("observe")
            said(client, request_[at:] + PING, answer + PONG)
            redis_session.call("SET", LOCK, "held")
            said(client, DEL + PING, b":1\r\n" + PONG)


def eventually_read(switched: Switched, client: socket.socket) -> None:
    """The sidecar has read what was sent: another connection's answer, asked for later, is there."""
    with dial(switched.port) as other:
        for _ in range(3):
            said(other, PING, PONG)
    assert client.fileno() >= 0


def test_with_a_blocked_call_outstanding(redis_session: RedisServer, switched: Switched) -> None:
    answer = b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n"
    with dial(switched.port) as client:
        for mode in ("enforce", "observe", "enforce"):
            client.sendall(words("BLPOP", "list", 0))
            eventually(lambda: b"cmd=blpop" in redis_session.call("CLIENT", "LIST"), what="the blocked call")
            switched.to(mode)
            redis_session.call("SET", LOCK, "held")
            client.sendall(DEL + PING)
            redis_session.call("RPUSH", "list", "a")
            assert exactly(client, len(answer)) == answer
            told = LINE if mode == "enforce" else b":1\r\n"
            assert exactly(client, len(told + PONG)) == told + PONG


def test_inside_a_transaction(redis_session: RedisServer, switched: Switched) -> None:
    """What was queued before is queued; what is refused aborts it."""
    queued = b"+QUEUED\r\n"
    aborted = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    with dial(switched.port) as client:
        said(client, words("MULTI") + words("INCR", "n"), b"+OK\r\n" + queued)
        switched.to("enforce")
        said(client, DEL + words("EXEC") + PING, LINE + aborted + PONG)
        said(client, words("MULTI") + words("INCR", "n"), b"+OK\r\n" + queued)
        switched.to("observe")
        said(client, words("INCR", "n") + words("EXEC") + PING, queued + b"*2\r\n:1\r\n:2\r\n" + PONG)


def test_a_subscriber_and_a_silenced_one_are_followed_over_the_change(
    redis_session: RedisServer, switched: Switched
) -> None:
    confirmed = b"*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n"
    message = b"*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n"
    with dial(switched.port) as listener, dial(switched.port) as quiet:
        said(listener, words("SUBSCRIBE", "ch"), confirmed)
        quiet.sendall(words("CLIENT", "REPLY", "OFF"))
        eventually_read(switched, quiet)
        switched.to("enforce")
        redis_session.call("SET", LOCK, "held")
        redis_session.call("PUBLISH", "ch", "m")
        assert exactly(listener, len(message)) == message
        said(listener, DEL, LINE)
        said(quiet, DEL + words("CLIENT", "REPLY", "ON") + DEL, b"+OK\r\n" + LINE)
        assert redis_session.call("EXISTS", LOCK) == b":1\r\n"


def test_what_cannot_be_followed_is_closed(redis_session: RedisServer, switched: Switched) -> None:
    with dial(switched.port) as monitor, dial(switched.port) as other:
        said(monitor, words("MONITOR"), b"+OK\r\n")
        said(other, PING, PONG)
        switched.to("shadow")
        said(other, PING, PONG)
        switched.to("enforce")
        drain(monitor)
        said(other, PING, PONG)
        other.sendall(words("MONITOR"))
        got = drain(other)
        assert got.startswith(b"-EMQPROXY closed MONITOR")
    assert redis_session.call("PING") == PONG


def test_many_at_once_under_way(redis_session: RedisServer, switched: Switched) -> None:
    """Eight clients send numbered pipelines with a DEL now and then while the mode goes round: each number is answered
    in its place, each DEL by Redis or by us."""
    over = threading.Event()
    faults: list[str] = []
    counts: list[int] = []

    def talkative(number: int) -> None:
        sent, key = 0, b"emq:orders:c%d:lock" % number
        with dial(switched.port) as client:
            while not over.is_set() or sent < 200:
                batch = b"".join(words("ECHO", b"%06d" % (sent + i)) + words("DEL", key) for i in range(20))
                client.sendall(batch[: sent % len(batch)])
                client.sendall(batch[sent % len(batch) :])
                for i in range(20):
                    echo = b"$6\r\n%06d\r\n" % (sent + i)
                    if (got := exactly(client, len(echo))) != echo:
                        faults.append(f"{got!r} for {echo!r}")
                        return
                    if (kind := exactly(client, 1)) == b":":
                        rest = exactly(client, 3)
                    else:
                        rest = exactly(client, len(LINE) - 1)
                    if kind + rest not in (b":0\r\n", LINE):
                        faults.append(f"{kind + rest!r}")
                        return
                sent += 20
        counts.append(sent)

    threads = [threading.Thread(target=talkative, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for mode in ROUND[1:]:
        switched.to(mode)
    over.set()
    for thread in threads:
        thread.join(60)
    assert not faults
    assert len(counts) == 8
