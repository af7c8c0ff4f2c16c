"""Refusals in line: whatever stands before, between and behind them, the client reads the answers that it would have
read, and ours where a call was refused. Judged by the bytes, against what Redis says to the same without those calls.
"""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import pytest

from tests.processes import EmqProxy, RedisServer
from tests.proxy.breaches import Scene
from tests.proxy.wires import cut, dial, exactly, talk
from tests.scripts import talk as scripts
from tests.scripts.talk import PREFIX, lock
from tests.session.talk import words

DEL = words("DEL", b"emq:orders:7:lock")
SET = words("SET", "emq:orders:7:lock", "mine")
OWN = words("EVAL", "return redis.call('GET', KEYS[1])", 1, "emq:orders:meta")
SHIFTED = words("EVAL", scripts.text_of("extendLock-2"), 1, "emq:orders:7:lock", "t", 1000, "7")
PICK = words("EVAL", scripts.text_of("moveToActive-11"), *(scripts.pick("t", 0)[2:]))  # type: ignore[arg-type]
LINES = {
    DEL: b"-EMQPROXY raw_lock_write DEL on a lock's key outside the protocol's scripts\r\n",
    SET: b"-EMQPROXY raw_lock_write SET on a lock's key outside the protocol's scripts\r\n",
    OWN: b"-EMQPROXY unknown_script a script that nobody knows on a queue's keys; learn it by emqproxy scripts add or"
    b" scripts.allow\r\n",
    SHIFTED: b"-EMQPROXY malformed_call extendLock-2 with a numkeys of 1; it takes 2\r\n",
    PICK: b"-EMQPROXY bad_duration a pickup without a lockDuration above 0; its job would be active unlocked\r\n",
}
REFUSED = tuple(LINES)
LUA = words("EVAL", "return ARGV[1]", 0, "an answer")


class Told(NamedTuple):
    """A request, and the answer that is expected to it."""

    request: bytes
    answer: bytes


def plain(number: int) -> Told:
    text = b"%d" % number
    return Told(words("ECHO", text), b"$%d\r\n%b\r\n" % (len(text), text))


def refused(number: int) -> Told:
    request = REFUSED[number % len(REFUSED)]
    return Told(request, LINES[request])


def script() -> Told:
    return Told(LUA, b"$9\r\nan answer\r\n")


def joined(told: list[Told]) -> tuple[bytes, bytes]:
    return b"".join(one.request for one in told), b"".join(one.answer for one in told)


def said(proxy: EmqProxy, request: bytes, *, cuts: int = 0, seed: int = 1) -> bytes:
    return talk(proxy.port, cut(request, random.Random(seed), cuts))


def test_each_refusal_alone(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    for request, answer in LINES.items():
        assert said(enforcing, request) == answer
        assert said(enforcing, words("PING") + request + words("PING")) == b"+PONG\r\n" + answer + b"+PONG\r\n"
    assert redis_session.call("KEYS", "*") == b"*0\r\n"


@pytest.mark.parametrize("seed", range(6))
def test_among_pipelined_answers(redis_session: RedisServer, enforcing: EmqProxy, seed: int) -> None:
    rnd = random.Random(seed)
    kinds = [plain, refused, refused, lambda _: script()]
    told = [rnd.choice(kinds)(number) for number in range(400)]
    request, answer = joined(told)
    assert said(enforcing, request, cuts=rnd.choice([0, 3, 400]), seed=seed) == answer
    assert redis_session.call("EXISTS", "emq:orders:7:lock") == b":0\r\n"


def test_many_refusals_only(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    request, answer = joined([refused(number) for number in range(5000)])
    assert said(enforcing, request) == answer


def test_cut_at_every_byte(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    told = [plain(1), Told(DEL, LINES[DEL]), script(), Told(OWN, LINES[OWN]), plain(2)]
    request, answer = joined(told)
    with dial(enforcing.port) as client:
        for at in range(1, len(request)):
            client.sendall(request[:at])
            client.sendall(request[at:])
            assert exactly(client, len(answer)) == answer, at


def test_one_byte_at_a_time(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    request, answer = joined([Told(DEL, LINES[DEL]), plain(1), refused(2)])
    with dial(enforcing.port) as client:
        for at in range(len(request)):
            client.sendall(request[at : at + 1])
        assert exactly(client, len(answer)) == answer


def test_inline(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    assert said(enforcing, b"ping\r\ndel emq:orders:7:lock\nPING\r\n") == b"+PONG\r\n" + LINES[DEL] + b"+PONG\r\n"


# ---------------------------------------------------------------- RESP 3, pushes


def test_beside_pushes(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """Redis's pushes come in between, before an answer or behind it; each answer is at its place among the others."""
    with dial(enforcing.port) as client, dial(redis_session.port) as other:
        client.sendall(words("HELLO", 3) + words("CLIENT", "TRACKING", "ON", "BCAST") + words("SUBSCRIBE", "ch"))
        got = exactly(client, 1)
        while not got.endswith(b"+OK\r\n>3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n"):
            got += exactly(client, 1)
        for number in range(200):
            other.sendall(words("SET", "k", number) + words("PUBLISH", "ch", number))
            client.sendall(DEL + words("ECHO", number) + OWN)
        client.sendall(words("ECHO", "last"))
        got = b""
        while not got.endswith(b"$4\r\nlast\r\n"):
            got += client.recv(1 << 16)
    for push in (b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",):
        got = got.replace(push, b"")
    for number in range(200):
        text = b"%d" % number
        message = b">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$%d\r\n%b\r\n" % (len(text), text)
        got = got.replace(message, b"", 1)
    answers = b"".join(LINES[DEL] + plain(number).answer + LINES[OWN] for number in range(200))
    assert got == answers + b"$4\r\nlast\r\n"


def test_a_subscribed_client_of_resp_2(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """What it may not say is refused by Redis in any case; ours is in its place, and messages go on."""
    with dial(enforcing.port) as client:
        client.sendall(words("SUBSCRIBE", "ch") + DEL + words("PING"))
        confirmed = b"*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n"
        pong = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
        assert exactly(client, len(confirmed + LINES[DEL] + pong)) == confirmed + LINES[DEL] + pong
        redis_session.call("PUBLISH", "ch", "hello")
        message = b"*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5\r\nhello\r\n"
        assert exactly(client, len(message)) == message
        client.sendall(words("UNSUBSCRIBE") + DEL)
        gone = b"*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n:0\r\n"
        assert exactly(client, len(gone + LINES[DEL])) == gone + LINES[DEL]


def test_hello_3_in_the_same_pipeline(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    pipeline = DEL + words("HELLO", 3) + DEL + words("HGETALL", "h") + OWN + words("HELLO", 2) + DEL
    got = said(enforcing, pipeline)
    assert got.startswith(LINES[DEL] + b"%7\r\n")
    assert LINES[DEL] + b"%0\r\n" + LINES[OWN] + b"*14\r\n" in got
    assert got.endswith(LINES[DEL])
    assert got.count(b"-EMQPROXY") == 4


# ---------------------------------------------------------------- CLIENT REPLY

OFF, SKIP, ON = (words("CLIENT", "REPLY", way) for way in ("OFF", "SKIP", "ON"))
OK = b"+OK\r\n"


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (SKIP + DEL + plain(1).request, plain(1).answer),
        (SKIP + DEL + DEL, LINES[DEL]),
        (SKIP + plain(1).request + DEL, LINES[DEL]),
        (SKIP + SKIP + DEL + plain(1).request, plain(1).answer),
        (OFF + DEL + OWN + plain(1).request + ON + plain(2).request, OK + plain(2).answer),
        (OFF + DEL + SKIP + DEL + ON + DEL, OK + LINES[DEL]),
        (OFF + ON + DEL, OK + LINES[DEL]),
        (ON + DEL, OK + LINES[DEL]),
        (DEL + SKIP + PICK + SHIFTED, LINES[DEL] + LINES[SHIFTED]),
        (SKIP + LUA + DEL + LUA, LINES[DEL] + script().answer),
    ],
)  # fmt: skip
def test_where_client_reply_keeps_answers_back(
    request_: bytes, answer: bytes, redis_session: RedisServer, enforcing: EmqProxy
) -> None:
    for cuts in (0, len(request_)):
        assert said(enforcing, request_, cuts=cuts) == answer
    # The same is read when each byte has its answer waited for: nothing stays behind in line.
    assert said(enforcing, request_ + plain(3).request) == answer + plain(3).answer
    assert redis_session.call("EXISTS", "emq:orders:7:lock") == b":0\r\n"


# ---------------------------------------------------------------- behind what blocks, and scripts' own ways


def test_behind_a_blocked_call(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    with dial(enforcing.port) as client, dial(redis_session.port) as other:
        client.sendall(words("BLPOP", "list", 0) + DEL + words("PING"))
        other.sendall(words("CLIENT", "LIST"))
        for _ in itertools.repeat(None):
            other.sendall(words("CLIENT", "LIST"))
            if b"cmd=blpop" in other.recv(1 << 16):
                break
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.settimeout(20)
        redis_session.call("RPUSH", "list", "a")
        answer = b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n" + LINES[DEL] + b"+PONG\r\n"
        assert exactly(client, len(answer)) == answer


def test_a_script_that_is_not_loaded(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """A known call is judged before its text is: a broken EVALSHA never gets to NOSCRIPT, a sound one does."""
    scene = Scene(redis_session, enforcing.port)
    owner, stranger = scene.owner(), scene.hand()
    redis_session.call("SCRIPT", "FLUSH")
    by_sha = scripts.finish(scene.job, "0")
    for _ in range(2):
        assert stranger.answer(stranger.wire.call(*by_sha)) == -6
        sound = owner.answer(owner.wire.call(*scripts.renew(scene.job, "a:1")))
        assert sound.startswith("NOSCRIPT")
    assert stranger.answer(stranger.wire.call("SCRIPT", "LOAD", scripts.text_of("moveToFinished-14")))
    assert stranger.answer(stranger.wire.call(*by_sha)) == -6
    assert stranger.finish(scene.job, "0") == -6
    assert owner.answer(owner.wire.call(*scripts.finish(scene.job, "a:1"))) == 0
    scene.close()


def test_a_batch_goes_whole_or_is_refused_whole(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """One stale id among others: the batch goes on, and Redis renews what it renews. All stale: all ids are given."""
    scene = Scene(redis_session, enforcing.port)
    was, has = scene.lost("SAME", "SAME")
    scene.add(scene.other)
    assert was.pick("SAME") == scene.other
    both = scripts.renew_all([scene.job, scene.other], ["SAME", "SAME"])
    assert was.call("extendLocks-1", both) == []
    alone = scripts.renew_all([scene.job], ["SAME"])
    assert was.call("extendLocks-1", alone) in ([], [scene.job.encode()])
    assert redis_session.call("EXISTS", lock(scene.job).key) == b":1\r\n"
    assert was.finish(scene.other, "SAME") == 0
    assert has.finish(scene.job, "SAME") == 0
    assert redis_session.call("EXISTS", PREFIX + b"active") == b":0\r\n"
    scene.close()
