"""A connection in enforce mode, at its ends and its limits: what is large, who leaves early, a Redis that dies."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
import uvloop

from emqproxy import logs
from emqproxy.logs import RateLimited
from emqproxy.proxy import clock
from emqproxy.proxy.gate import SLICE_BYTES, Gate
from emqproxy.proxy.watcher import Watcher
from tests.processes import EmqProxy, RedisServer, eventually, free_port
from tests.proxy.test_witness import House, Wire
from tests.proxy.wires import dial, drain, exactly, reset, rss_mib, send_all, sidecar, talk, until
from tests.scripts.talk import pick, renew, text_of
from tests.session.talk import words
from tests.tls import Authority, dial_tls, trusting

LOCK = b"emq:orders:7:lock"
DEL = words("DEL", LOCK)
LINE = b"-EMQPROXY raw_lock_write DEL on a lock's key outside the protocol's scripts\r\n"
TOO_LARGE = b"-EMQPROXY too_large a command larger than limits.judge_bytes that needs judging\r\n"
PING, PONG = words("PING"), b"+PONG\r\n"
MIB = 1024 * 1024


# ---------------------------------------------------------------- who leaves


@pytest.mark.parametrize("count", [1, 2000])
def test_a_half_close_behind_a_pipeline(redis_session: RedisServer, enforcing: EmqProxy, count: int) -> None:
    """All is judged and answered, refusals at the very end included, and then it is closed."""
    assert talk(enforcing.port, [(PING + DEL) * count]) == (PONG + LINE) * count
    assert talk(enforcing.port, [DEL * count]) == LINE * count


def test_a_half_close_in_the_middle_of_a_command(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """What never came to its end never runs."""
    redis_session.call("SET", LOCK, "held")
    assert talk(enforcing.port, [PING + DEL[:-1]]) == PONG
    assert talk(enforcing.port, [DEL + words("INCR", "n")[:-3]]) == LINE
    assert redis_session.call("EXISTS", LOCK, "n") == b":1\r\n"


def test_a_client_that_is_gone_while_refusals_wait(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """They wait behind a call that blocks; the list's next element goes to somebody who is there."""
    client = dial(enforcing.port)
    client.sendall(words("BLPOP", "list", 0) + DEL * 100)
    eventually(lambda: b"cmd=blpop" in redis_session.call("CLIENT", "LIST"), what="the blocked call")
    reset(client)
    eventually(lambda: b"cmd=blpop" not in redis_session.call("CLIENT", "LIST"), what="the end of the blocked call")
    redis_session.call("RPUSH", "list", "a")
    assert redis_session.call("LPOP", "list") == b"$1\r\na\r\n"
    assert talk(enforcing.port, [DEL + PING]) == LINE + PONG


def test_a_redis_that_dies_with_refusals_in_line(redis_server: RedisServer) -> None:
    """No answer is made up for what Redis has not answered: refusals behind it are not given out of their turn."""
    with sidecar(redis_server.url, "--mode", "enforce") as proxy, dial(proxy.port) as client:
        client.sendall(PING + DEL + words("BLPOP", "list", 0) + DEL + PING)
        assert exactly(client, len(PONG + LINE)) == PONG + LINE
        redis_server.end(signal.SIGKILL)
        assert drain(client) == b""
        redis_server.start()
        proxy.wait_ready()
        assert talk(proxy.port, [DEL + PING]) == LINE + PONG


def test_sigterm_with_refusals_in_line(redis_session: RedisServer) -> None:
    with sidecar(redis_session.url, "--mode", "enforce") as proxy, dial(proxy.port) as client:
        client.sendall(words("BLPOP", "list", 0) + DEL + PING)
        eventually(lambda: b"cmd=blpop" in redis_session.call("CLIENT", "LIST"), what="the blocked call")
        os.kill(proxy.pid, signal.SIGTERM)
        proxy.wait_log(lambda line: line["event"].startswith("draining"))
        redis_session.call("RPUSH", "list", "a")
        answer = b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n" + LINE + PONG
        assert exactly(client, len(answer)) == answer
        client.sendall(DEL)
        assert exactly(client, len(LINE)) == LINE, "connected clients are served on, and judged"
        client.close()
        assert proxy.popen is not None
        assert proxy.popen.wait(20) == 0


# ---------------------------------------------------------------- what is large


def test_a_large_command_that_needs_judging_is_refused(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """Past `judge_bytes` nothing of it goes on, and the next command is judged as ever."""
    big = b"x" * (9 * MIB)
    evil = words("EVAL", text_of("updateData-1"), 1, "emq:orders:7", big)
    with dial(enforcing.port) as client:
        assert said(client, PING, PONG)
        before = rss_mib(enforcing.pid)
        for _ in range(3):
            assert said(client, evil + DEL + PING, TOO_LARGE + LINE + PONG)
        assert said(client, words("MULTI") + evil + words("EXEC"), b"+OK\r\n" + TOO_LARGE + b"-EXECABORT")
        assert rss_mib(enforcing.pid) - before < 120
    assert redis_session.call("EXISTS", "emq:orders:7") == b":0\r\n"


def test_large_data_of_a_job_passes_up_to_the_limit(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    redis_session.call("HSET", "emq:orders:8", "data", "{}")
    call = words("EVAL", text_of("updateData-1"), 1, "emq:orders:8", b"x" * (7 * MIB))
    with dial(enforcing.port) as client:
        assert said(client, PING, PONG)
        assert said(client, call + DEL, b":0\r\n" + LINE)
    assert redis_session.call("HSTRLEN", "emq:orders:8", "data") == b":%d\r\n" % (7 * MIB)


@pytest.mark.parametrize("size", [1, 64 * 1024 - 30, 64 * 1024, 20 * MIB])
def test_what_nobody_needs_to_judge_streams_through(
    redis_session: RedisServer, enforcing: EmqProxy, size: int
) -> None:
    value = os.urandom(4096) * (size // 4096) + b"y" * (size % 4096)
    with dial(enforcing.port) as client:
        sent = words("SET", "k", value) + DEL + words("STRLEN", "k")
        assert said(client, sent, b"+OK\r\n" + LINE + b":%d\r\n" % size)
        got = b"$%d\r\n" % size + value + b"\r\n" + LINE
        assert said(client, words("GET", "k") + DEL, got)


def test_a_large_write_to_a_lock_is_refused_however_it_is_sent(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """Its key is known before its value has come: SET KEY VALUE, and the key at the very end of a long MSET."""
    line = LINE.replace(b"DEL", b"SET")
    with dial(enforcing.port) as client:
        assert said(client, PING, PONG)  # before Redis has answered anything, less is held of one command
        assert said(client, words("SET", LOCK, b"x" * MIB) + PING, line + PONG)
        pairs = [b"k", b"x" * 1024] * 2000
        assert said(client, words("MSET", *pairs, LOCK, "mine") + PING, LINE.replace(b"DEL", b"MSET") + PONG)
        assert said(client, words("SET", LOCK, b"x" * (9 * MIB)) + PING, TOO_LARGE + PONG)
    assert redis_session.call("EXISTS", LOCK, "k") == b":0\r\n"


def said(client: socket.socket, request: bytes, answer: bytes) -> bool:
    """Whether it is answered like this."""
    sender = send_all(client, [request])
    got = exactly(client, len(answer))
    if answer.endswith(b"-EXECABORT"):
        while not got.endswith(b"errors.\r\n"):
            got += exactly(client, 1)
        got = got[: len(answer)]
    sender.join(20)
    return got == answer


def test_past_pending_bytes_the_connection_is_closed_and_named(redis_session: RedisServer) -> None:
    """Scripts that wait behind a blocked call take memory of ours."""
    env = {"OTEL_SDK_DISABLED": "true", "EMQPROXY_LIMITS__PENDING_BYTES": "100000"}
    with EmqProxy(redis_session.url, "--mode", "enforce", env=env) as proxy, dial(proxy.port) as client:
        renew = words("EVAL", text_of("extendLock-2"), 2, "emq:orders:1:lock", "emq:orders:stalled", "t", 1000, 1)
        client.sendall(words("BLPOP", "list", 0))
        sender = send_all(client, [renew] * 5000)
        line = proxy.wait_log(lambda line: "limits.pending_bytes" in str(line.get("reason")))
        assert line["event"].startswith("a connection is closed")
        redis_session.call("RPUSH", "list", "a")  # before our own end: Redis forgets a blocked client that has ended
        sender.join(20)
        got = drain(client)
        assert got.startswith(b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n:0\r\n:0\r\n")
        assert got.endswith(b"-EMQPROXY closed its unanswered requests take more than limits.pending_bytes\r\n")
        assert talk(proxy.port, [PING]) == PONG


def test_over_tls(redis_session: RedisServer, tmp_path: Path) -> None:
    authority, port = Authority(tmp_path), free_port()
    cert, key = authority.issue("own")
    env = {"OTEL_SDK_DISABLED": "true", "EMQPROXY_TLS__CERT_FILE": str(cert), "EMQPROXY_TLS__KEY_FILE": str(key)}
    listen = ("--listen", f"tls://127.0.0.1:{port}")
    with (
        EmqProxy(redis_session.url, *listen, "--mode", "enforce", env=env) as proxy,
        dial_tls(port, trusting(authority.file)) as client,
    ):
        client.sendall((PING + DEL) * 500)
        assert exactly(client, 500 * len(PONG + LINE)) == (PONG + LINE) * 500
        client.sendall(b"*1\r\n$4\r\nPING\n\n")
        assert drain(client).startswith(b"-EMQPROXY closed ")
        proxy.wait_log(lambda line: line["event"].startswith("a connection is closed"))


# ---------------------------------------------------------------- what waits


class Lodge(House):
    """A house in which a gate can stand; what the gate sends on stays in `sent`."""

    def __init__(self, redis: RedisServer) -> None:
        super().__init__(redis)
        self.limited, self.faults, self.busy = RateLimited(logs.get()), 0, [False]
        self.sent = b""

    def send(self, data: bytes, _now: int) -> None:
        self.sent += data

    def gate_busy(self, busy: bool) -> None:
        self.busy.append(busy)

    def close(self) -> None:
        raise AssertionError("nothing here ends a connection")


def test_time_does_not_overtake_what_waits_to_be_judged(redis_session: RedisServer) -> None:
    """A lapse's timer fires while a renewal that was read in time stands behind a pipeline of its own client's."""

    async def run() -> None:
        house = Lodge(redis_session)
        wire = Wire(house, 1)
        wire.load("moveToActive-11", "extendLock-2")
        wire.add("1")
        wire.ask(pick("t:1", 40))
        (acquired,) = house.records
        gate = Gate(house, wire.watched, Watcher(house, wire.watched), house)
        assert gate.shut_in(b"", clock.now()) == b""
        renewal = words(*(part for part in renew("1", "t:1", 40) if part is not None))
        ahead = words("ECHO", b"x" * 1000) * (3 * SLICE_BYTES // 1000)
        gate.asked(ahead + renewal, acquired.verdict.at + 1)
        gone = acquired.verdict.at + 60_000_000
        while clock.now() < gone:  # the loop stands still past the deadline
            pass
        house.witness.tick()
        assert [record.line.op for record in house.records] == ["acquire"]
        await until(lambda: gate.idle)
        assert (house.sent, house.busy) == (ahead + renewal, [False, True, False])
        assert house.witness.looks.oldest is None
        house.witness.tick()
        assert [record.line.op for record in house.records] == ["acquire"], "the renewal is in flight"
        wire.sock.sendall(house.sent)
        got = b""
        while not got.endswith(b":0\r\n"):
            got += wire.sock.recv(1 << 20)
        _, exchanges = gate.answers(got, clock.now())
        gate.tell(exchanges, clock.now())
        assert [(line.op, line.outcome) for line in (record.line for record in house.records)][1:] == [
            ("renew", "refused")
        ]
        wire.sock.close()
        house.witness.stop()
        await house.bus.close()

    uvloop.run(run())


def test_what_waits_before_a_gate_is_gone_with_its_connection(redis_session: RedisServer) -> None:
    async def run() -> None:
        house = Lodge(redis_session)
        wire = Wire(house, 1)
        gate = Gate(house, wire.watched, Watcher(house, wire.watched), house)
        gate.asked(words("ECHO", b"x" * (3 * SLICE_BYTES)), 5)
        assert house.witness.looks.oldest == 5
        gate.over()
        assert house.witness.looks.oldest is None
        wire.sock.close()
        await house.bus.close()

    uvloop.run(run())
