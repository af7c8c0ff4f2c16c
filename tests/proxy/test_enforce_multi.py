"""Refusals inside MULTI: Redis itself aborts the EXEC, the client reads our line for the command, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes import EmqProxy, RedisServer
from tests.proxy.breaches import Scene
from tests.proxy.hand import Hand, hand, wait_line
from tests.proxy.wires import talk
from tests.scripts import talk as scripts
from tests.scripts.talk import PREFIX, lock, text_of
from tests.session.talk import words

LOCK = b"emq:orders:7:lock"
DEL = ("DEL", LOCK)
LINE = "EMQPROXY raw_lock_write DEL on a lock's key outside the protocol's scripts"
ABORTED = "EXECABORT Transaction discarded because of previous errors."


@pytest.fixture
def client(redis_session: RedisServer, enforcing: EmqProxy) -> Iterator[Hand]:
    with hand(enforcing.port) as made:
        yield made


def asked(client: Hand, *commands: tuple[Any, ...]) -> list[Any]:
    return [client.answer(reply) for reply in client.wire.pipeline(*commands)]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_refused_command_aborts_the_exec(redis_session: RedisServer, client: Hand, at: int) -> None:
    queued: list[tuple[Any, ...]] = [("SET", "k", 1), ("INCR", "n")]
    queued.insert(at, DEL)
    redis_session.call("SET", LOCK, "held")
    answers = asked(client, ("MULTI",), *queued, ("EXEC",), ("INCR", "n"))
    told: list[Any] = [b"QUEUED", b"QUEUED"]
    told.insert(at, LINE)
    assert answers == [b"OK", *told, ABORTED, 1]
    assert redis_session.call("EXISTS", "k", LOCK) == b":1\r\n"


def test_it_aborts_in_resp_3_as_well(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    pipeline = words("HELLO", 3) + words("MULTI") + words(*DEL) + words("SET", "k", 1) + words("EXEC") + words("PING")
    got = talk(enforcing.port, [pipeline])
    assert got.endswith(f"+OK\r\n-{LINE}\r\n+QUEUED\r\n-{ABORTED}\r\n+PONG\r\n".encode())
    assert redis_session.call("EXISTS", "k") == b":0\r\n"


def test_after_a_discard_all_is_as_before(redis_session: RedisServer, client: Hand) -> None:
    answers = asked(client, ("MULTI",), ("SET", "k", 1), DEL, ("DISCARD",), DEL, ("MULTI",), ("SET", "k", 2), ("EXEC",))
    assert answers == [b"OK", b"QUEUED", LINE, b"OK", LINE, b"OK", b"QUEUED", [b"OK"]]
    assert redis_session.call("GET", "k") == b"$1\r\n2\r\n"


def test_reset_ends_it_too(redis_session: RedisServer, client: Hand) -> None:
    assert asked(client, ("MULTI",), DEL, ("RESET",), ("EXEC",), DEL, ("PING",)) == [
        b"OK", LINE, b"RESET", "ERR EXEC without MULTI", LINE, b"PONG",
    ]  # fmt: skip


def test_a_watch_that_is_broken(redis_session: RedisServer, client: Hand) -> None:
    """EXEC is nil for the watch, or aborted for the refusal; the next transaction runs."""
    assert asked(client, ("WATCH", "w"), ("GET", "w")) == [b"OK", None]
    redis_session.call("SET", "w", "changed")
    assert asked(client, ("MULTI",), ("SET", "k", 1), ("EXEC",)) == [b"OK", b"QUEUED", None]
    assert asked(client, ("WATCH", "w"), ("GET", "w")) == [b"OK", b"changed"]
    redis_session.call("SET", "w", "again")
    assert asked(client, ("MULTI",), DEL, ("EXEC",)) == [b"OK", LINE, ABORTED]
    assert asked(client, ("MULTI",), ("SET", "k", 1), ("EXEC",)) == [b"OK", b"QUEUED", [b"OK"]]


def test_many_transactions_in_one_pipeline(redis_session: RedisServer, client: Hand) -> None:
    commands: list[tuple[Any, ...]] = []
    answers: list[Any] = []
    for number in range(200):
        bad = number % 3 == 0
        commands += [("MULTI",), ("ECHO", number), DEL if bad else ("INCR", "n"), ("EXEC",)]
        done: Any = ABORTED if bad else [b"%d" % number, number - number // 3]
        answers += [b"OK", b"QUEUED", LINE if bad else b"QUEUED", done]
    assert asked(client, *commands) == answers


def test_a_foreign_finish_in_a_transaction(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """The client is told the script's own code when it queues; Redis aborts, and the owner finishes."""
    scene = Scene(redis_session, enforcing.port)
    owner, stranger = scene.owner(), scene.hand()
    finish = ("EVAL", text_of("moveToFinished-14"), *scripts.finish(scene.job, "0")[2:])
    answers = asked(stranger, ("MULTI",), ("SET", "k", 1), finish, ("EXEC",))
    assert answers == [b"OK", b"QUEUED", -6, ABORTED]
    line = wait_line(enforcing, op="finish", job=scene.job)
    assert (line["outcome"], line["action"], line["rule"]) == ("blocked", "blocked", "zero_token")
    assert owner.finish(scene.job, "a:1") == 0
    assert redis_session.call("EXISTS", "k") == b":0\r\n"
    scene.close()


def test_a_stale_finish_and_the_holders_own_in_transactions(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    scene = Scene(redis_session, enforcing.port)
    was, has = scene.lost("SAME", "SAME")
    finish = ("EVAL", text_of("moveToFinished-14"), *scripts.finish(scene.job, "SAME")[2:])
    assert asked(was, ("MULTI",), finish, ("EXEC",)) == [b"OK", -6, ABORTED]
    assert asked(has, ("MULTI",), finish, ("EXEC",)) == [b"OK", b"QUEUED", [0]]
    scene.close()


def test_under_reply_off_a_refused_transaction_leaves_nothing(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    off, on = words("CLIENT", "REPLY", "OFF"), words("CLIENT", "REPLY", "ON")
    inside = words("MULTI") + words("SET", "k", 1) + words(*DEL) + words("EXEC")
    assert talk(enforcing.port, [off + inside + on + words("GET", "k")]) == b"+OK\r\n$-1\r\n"
    assert redis_session.call("EXISTS", "k", LOCK) == b":0\r\n"


def test_a_transaction_of_a_worker_passes(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """As libraries batch their own calls; the lock that it ends is the account's."""
    scene = Scene(redis_session, enforcing.port)
    owner = scene.owner()
    renew = ("EVAL", text_of("extendLock-2"), *scripts.renew(scene.job, "a:1")[2:])
    finish = ("EVAL", text_of("moveToFinished-14"), *scripts.finish(scene.job, "a:1")[2:])
    assert asked(owner, ("MULTI",), renew, finish, ("EXEC",)) == [b"OK", b"QUEUED", b"QUEUED", [1, 0]]
    assert redis_session.call("EXISTS", lock(scene.job).key, PREFIX + b"active") == b":0\r\n"
    assert not [line for line in enforcing.journal() if line["job"] == scene.job and line["rule"]]
    scene.close()
