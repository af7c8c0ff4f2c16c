"""Enforce mode, before Redis has answered a connection anything: what is lawful passes however large it is, whether a
password is asked or not; and of nobody, no more is held than Redis itself would hold.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterator

import pytest
import uvloop

from emqproxy.proxy import clock
from emqproxy.proxy.gate import SLICE_BYTES, Gate
from emqproxy.proxy.watcher import Watcher
from emqproxy.session.standing import WAITING_BYTES, trespass
from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.breaches import ALL_RULES
from tests.proxy.test_gate import LINE, PING, PONG, Lodge
from tests.proxy.test_witness import Wire
from tests.proxy.wires import dial, drain, exactly, reset, rss_mib, send_all, talk, until
from tests.scripts.talk import text_of
from tests.session.talk import words

MIB = 1024 * 1024
BIG = b"x" * (5 * MIB)
TEXT = text_of("updateData-1")
SHA = hashlib.sha1(TEXT).hexdigest()
DATA = words("EVAL", TEXT, 1, "emq:orders:7", BIG)
MSET = words("MSET", "a", BIG, "b", "emq:orders:7:lock")
DEL = words("DEL", "emq:orders:7:lock")
PASSWORD = "s3cret"
AUTH = words("AUTH", PASSWORD)


@pytest.fixture(scope="module")
def locked() -> Iterator[RedisServer]:
    """A Redis that asks for a password; `worker` has one of its own and may send no PING, `reader` may only read."""
    with RedisServer(requirepass=PASSWORD) as made:
        assert made.call("ACL", "SETUSER", "worker", "on", ">own", "~*", "&*", "+@all", "-ping") == b"+OK\r\n"
        assert made.call("ACL", "SETUSER", "reader", "on", ">own", "~*", "+@read") == b"+OK\r\n"
        yield made


@pytest.fixture(scope="module")
def gate(locked: RedisServer) -> Iterator[EmqProxy]:
    env = {"OTEL_SDK_DISABLED": "true"} | ALL_RULES
    with EmqProxy(locked.url, "--mode", "enforce", env=env) as made:
        yield made


def both(redis: RedisServer, proxy: EmqProxy, request: bytes) -> list[bytes]:
    """The answers directly and through the sidecar, each of an empty Redis that knows no script."""
    told = []
    for port in (redis.port, proxy.port):
        assert (redis.call("FLUSHALL"), redis.call("SCRIPT", "FLUSH")) == (b"+OK\r\n", b"+OK\r\n")
        told.append(talk(port, [request]))
    return told


# ---------------------------------------------------------------- no password is asked

ADDS = b"".join(words("EVAL", TEXT, 1, f"emq:orders:{i}", BIG[: 2 * MIB]) for i in range(3))
FIRST = {
    "a call with large data": DATA,
    "one of a script that is not there yet": words("EVALSHA", SHA, 1, "emq:orders:7", BIG),
    "and then with its text": words("EVALSHA", SHA, 1, "emq:orders:7", "x") + DATA,
    "a transaction": words("MULTI") + ADDS + words("EXEC"),
    "a pipeline": ADDS + PING,
    "values": MSET,
    "many keys": words("DEL", *(f"emq:orders:{i}" for i in range(60_000)), "emq:orders:meta:lock:not"),
    "behind an unknown command": words("NOSUCH", "a") + DATA,
    "behind a reset": words("RESET") + DATA,
    "behind another protocol": words("HELLO", 4) + words("SELECT", 0) + MSET,
}


@pytest.mark.parametrize("what", FIRST)
def test_the_first_thing_a_client_says_may_be_large(redis_session: RedisServer, enforcing: EmqProxy, what: str) -> None:
    directly, through = both(redis_session, enforcing, FIRST[what])
    assert directly
    assert through == directly


def test_no_answer_of_ours_shows_where_it_waits_behind_a_blocked_call(
    redis_session: RedisServer, enforcing: EmqProxy
) -> None:
    with dial(enforcing.port) as client:
        sender = send_all(client, [words("BLPOP", "list", 0) + DATA + DEL + PING])
        eventually(lambda: b"cmd=blpop" in redis_session.call("CLIENT", "LIST"), what="the blocked call")
        redis_session.call("RPUSH", "list", "a")
        answer = b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n:-1\r\n" + LINE + PONG
        assert exactly(client, len(answer)) == answer
        sender.join(20)


def test_a_client_that_is_gone_while_we_wait(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    client = dial(enforcing.port)
    client.sendall(DATA[:MIB])
    reset(client)
    assert talk(enforcing.port, [DEL + PING]) == LINE + PONG


def test_where_no_answer_can_tell_the_refusal_says_what_to_do(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """CLIENT REPLY OFF as the very first command: nothing will ever be answered."""
    request = words("CLIENT", "REPLY", "OFF") + DATA + words("CLIENT", "REPLY", "ON") + PING
    redis_session.call("HSET", "emq:orders:7", "data", "{}")
    assert talk(enforcing.port, [request]) == b"+OK\r\n" + PONG
    assert redis_session.call("HGET", "emq:orders:7", "data") == b"$2\r\n{}\r\n"
    told = talk(enforcing.port, [words("CLIENT", "REPLY", "SKIP") + words("GET", "k") + DATA + PING])
    assert told == (
        b"-EMQPROXY too_large a command of this size that needs judging, before Redis has answered this connection:"
        b" send PING, or AUTH, and wait for its answer\r\n" + PONG
    )


# ---------------------------------------------------------------- a password is asked

NOBODY = {
    "a long word": words("EVAL", b"x" * 16_385, 0),
    "its length alone": b"*3\r\n$7\r\nEVALSHA\r\n$16385\r\n",
    "many words": words("EVALSHA", "f" * 40, 0, *range(8)),
    "their number alone": b"*11\r\n",
    "with a name": b"*11\r\n$4\r\nMSET\r\n",
    "a length that will never come": b"*3\r\n$4\r\nMSET\r\n$500000000\r\nx",
    "as many as may be": words("EVALSHA", "f" * 40, 0, *range(7)),
    "as long as may be": words("EVAL", b"x" * 16_384, 0),
    "behind MULTI": words("MULTI") + words("EVAL", b"x" * 20_000, 0),
    "in MULTI with EXEC": words("MULTI") + words("EVAL", "return 1", 0) + words("EXEC"),
    "behind RESET": words("RESET") + words("EVAL", b"x" * 20_000, 0),
    "behind a wrong password": words("AUTH", "wrong") + words("EVAL", b"x" * 20_000, 0),
    "behind HELLO": words("HELLO", 3) + words("EVAL", b"x" * 20_000, 0),
    "behind HELLO with a wrong one": words("HELLO", 3, "AUTH", "worker", "no") + words("MSET", "a", b"x" * 20_000),
    "no key of a lock": words("SET", "a", b"x" * 20_000),
    "a lock's key": DEL + PING,
    "pipelined": PING + words("GET", "a") + DEL + words("NOSUCH") + words("EVAL", b"x" * 20_000, 0) + PING,
}
KNOWN = {
    "a password first": AUTH + MSET + PING,
    "a user first": words("AUTH", "worker", "own") + MSET + DATA,
    "who may not ping": words("AUTH", "worker", "own") + words("GET", "a") + MSET,
    "one who may not write": words("AUTH", "reader", "own") + MSET + words("GET", "a"),
    "the second try": words("AUTH", "wrong") + AUTH + DATA,
    "a transaction": AUTH + words("MULTI") + DATA + words("EXEC"),
    "not its own any more": AUTH + words("GET", "no") + words("RESET") + words("GET", "a"),
}


def heard(port: int, data: bytes, more: bytes = b"") -> bytes:
    """All that is answered to bytes behind which no more comes, without a half-close: until it closes, or `more`."""
    with dial(port) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(data)
        got = bytearray()
        with contextlib.suppress(ConnectionError):
            while not (more and got.endswith(more)) and (piece := client.recv(1 << 20)):
                got += piece
        return bytes(got)


@pytest.mark.parametrize("what", NOBODY)
def test_nobody_hears_what_redis_says_directly(locked: RedisServer, gate: EmqProxy, what: str) -> None:
    """Also at the header, before the rest has come: there Redis closes."""
    directly = talk(locked.port, [NOBODY[what]])
    assert directly.startswith((b"-", b"+RESET", b"+OK\r\n+RESET"))
    assert talk(gate.port, [NOBODY[what]]) == directly
    if b"Protocol error" in directly:
        assert heard(gate.port, NOBODY[what]) == directly
    else:
        assert heard(gate.port, NOBODY[what], directly) == directly


def test_reset_makes_nobody_of_somebody(locked: RedisServer, gate: EmqProxy) -> None:
    """Servers differ in when they begin to limit such a client, and agree that it may not."""
    told = talk(gate.port, [AUTH + words("RESET") + MSET])
    assert told.startswith((b"+OK\r\n+RESET\r\n-NOAUTH", b"+OK\r\n+RESET\r\n-ERR Protocol error: unauthenticated"))
    assert locked.call("EXISTS", "a") == b":0\r\n"


@pytest.mark.parametrize("what", KNOWN)
def test_who_gives_a_password_may_say_large_things_in_the_same_breath(
    locked: RedisServer, gate: EmqProxy, what: str
) -> None:
    directly, through = both(locked, gate, KNOWN[what])
    assert b"Protocol error" not in directly
    assert through == directly


def test_nobody_s_bytes_are_not_held(locked: RedisServer, gate: EmqProxy) -> None:
    """A hundred connections at once, each with a megabyte of a command that says it has four."""
    part = b"*3\r\n$4\r\nMSET\r\n$1\r\na\r\n$4194304\r\n" + BIG[: MIB - 64]
    assert talk(gate.port, [AUTH + MSET]).endswith(b"+OK\r\n")  # what that takes, it has taken
    before = rss_mib(gate.pid)
    with contextlib.ExitStack() as ends:
        clients = [ends.enter_context(dial(gate.port)) for _ in range(100)]
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.sendall(part)
        for client in clients:
            assert drain(client) == b"-ERR Protocol error: unauthenticated bulk length\r\n"
    assert rss_mib(gate.pid) - before < 40


# ---------------------------------------------------------------- while no answer comes


def test_until_the_answer_comes_little_is_held_and_then_it_goes_on(redis_session: RedisServer) -> None:
    """The gate asks once, has its client wait, and holds no clock back; all goes on when Redis has answered."""

    async def run() -> None:
        house = Lodge(redis_session)
        wire = Wire(house, 1)
        gate = Gate(house, wire.watched, Watcher(house, wire.watched), house)
        at, session = itertools.count(clock.now()), wire.watched.session
        for begin in range(0, 16 * SLICE_BYTES, SLICE_BYTES):
            gate.asked(DATA[begin : begin + SLICE_BYTES], next(at))
        await until(lambda: session.waits)
        held = session._strict.held
        assert held is not None
        assert WAITING_BYTES <= held.taken < WAITING_BYTES + 2 * SLICE_BYTES
        assert (house.sent, house.busy[-1]) == (trespass(held), True)
        assert house.witness.looks.oldest is None, "others' time goes on"
        assert gate.answers(b"*1\r\n:0\r\n", next(at)) == (b"", [])
        gate.tell([], next(at))
        await until(lambda: not house.busy[-1])
        gate.asked(DATA[16 * SLICE_BYTES :], next(at))
        await until(lambda: len(house.sent) >= len(trespass(held) + DATA))
        assert house.sent == trespass(held) + DATA
        await until(lambda: not house.busy[-1])
        wire.sock.close()
        await house.bus.close()

    uvloop.run(run())
