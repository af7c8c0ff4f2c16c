"""Law 3 against a real Redis: whatever is sent, each answer that is given belongs to its question, or none is.

Random conversations; every script call answers with its own number and the database it ran in.
"""

from __future__ import annotations

import random

import pytest

from emqproxy.session.exchange import ErrorReply, Missing
from tests.processes import RedisServer
from tests.session.talk import Fed, converse, mark, pieces, prepare, words

PLAIN = [
    words("SET", "k", "v"),
    words("GET", "k"),
    words("PING"),
    words("NOPE"),
    words("GET"),
    words("INCR", "whoami2"),
    words("LRANGE", "l", 0, -1),
    words("RPUSH", "l", "message", "x"),
    words("WATCH", "k"),
    words("UNWATCH"),
    b"PING\r\n",
    b"GET k\r\n",
    b"\r\n",
    b"*0\r\n",
    words("HGETALL", "none"),
    words("CLIENT", "ID"),
    words("CLIENT"),
    words("CLIENT", "REPLY"),
    words("CLIENT", "REPLY", "FOO"),
    words("CLIENT", "GETNAME"),
    words("PUBLISH", "a", "hello"),
    words("MULTI", "x"),
    words("EXEC", "x"),
    words("EVALSHA", "0" * 40, 0),
    words("FCALL_RO", "none", 0),
    words("SET", "emq:q:1:lock", "t"),
    words("UNLINK", "k", "emq:q:1:lock"),
    words("SET", "k", "no:lock"),
    words("CLIENT", "REPLY", "ON"),
    words("REPLCONF", "capa", "eof"),
    words("SHUTDOWN", "ABORT"),
    words("AUTH", "none"),
    words("OBJECT", "ENCODING", "k"),
]
MODES = [
    words("MULTI"),
    words("MULTI"),
    words("EXEC"),
    words("EXEC"),
    words("DISCARD"),
    words("SELECT", 1),
    words("select", 2),
    words("SELECT", 0),
    words("SELECT", 99),
    words("SELECT", "x"),
    b"SELECT 3\r\n",
    words("HELLO", 3),
    words("HELLO", 2),
    words("HELLO", 9),
    words("HELLO"),
    words("HELLO", 3, "SETNAME", "n"),
    words("RESET"),
    words("RESET", "x"),
    words("CLIENT", "SETNAME", "me"),
]
REPLIES = [
    words("CLIENT", "REPLY", "SKIP"),
    words("client", "reply", "off"),
    words("CLIENT", "REPLY", "ON"),
    words("CLIENT", "REPLY", "ON"),
]
CHANNELS = [
    words("SUBSCRIBE", "a", "b"),
    words("SUBSCRIBE", "a"),
    words("PSUBSCRIBE", "p*"),
    words("UNSUBSCRIBE", "a"),
    words("UNSUBSCRIBE"),
    words("PUNSUBSCRIBE"),
    words("UNSUBSCRIBE", "none", "a"),
    words("SSUBSCRIBE", "s"),
    words("SUNSUBSCRIBE"),
    words("SUBSCRIBE"),
]


def conversation(seed: int) -> tuple[bytes, int]:
    """Bytes of one conversation, and how many script calls are in it."""
    rnd = random.Random(seed)
    pools = [PLAIN, MODES] + [REPLIES] * (seed % 3 == 0) + [CHANNELS] * (seed % 4 == 0)
    out, count = [], 0
    for _ in range(rnd.randint(5, 60)):
        if rnd.random() < 0.4:
            count += 1
            out.append(mark(count))
        else:
            out.append(rnd.choice(rnd.choice(pools)))
    return b"".join(out), count


def check(seed: int, redis: RedisServer) -> str | None:
    """Runs one conversation; why the session went blind, if it did."""
    data, _ = conversation(seed)
    reply = converse(redis, data)
    rnd = random.Random(~seed)
    fed = Fed()
    fed.client(*pieces(data, [rnd.randrange(10**6) for _ in range(seed % 7)]))
    fed.server(*pieces(reply, [rnd.randrange(10**6) for _ in range(seed % 5)]))
    blinded = fed.session.blinded
    fed.end()
    assert len(fed.exchanges) == len(fed.commands)
    for exchange in fed.exchanges:
        if isinstance(exchange.reply, Missing):
            continue
        if exchange.command.name in {b"SET", b"UNLINK"}:
            assert exchange.command.words[-1] in {b"t", b"emq:q:1:lock"}
            assert exchange.reply == b"OK" or isinstance(exchange.reply, (int, ErrorReply)), (seed, exchange)
            continue
        if isinstance(exchange.reply, ErrorReply):  # the unknown sha, or a call in a mode that forbids it
            assert exchange.command.name in {b"EVALSHA", b"FCALL_RO"} or exchange.reply.prefix in {"ERR", "NOPERM"}, (
                seed,
                exchange,
            )
            continue
        number = exchange.command.words[3]
        assert exchange.reply == [number, b"%d" % exchange.db], (seed, exchange)
        assert exchange.opened <= exchange.closed
    return blinded


@pytest.mark.parametrize("batch", range(4))
def test_each_answer_belongs_to_its_question(redis_session: RedisServer, batch: int):
    prepare(redis_session)
    blind = [check(seed, redis_session) for seed in range(batch * 150, batch * 150 + 150)]
    assert sum(b is None for b in blind) > 60, set(blind)


@pytest.mark.parametrize("batch", range(2))
def test_without_silence_and_channels_nothing_goes_blind(redis_session: RedisServer, batch: int):
    prepare(redis_session)
    seeds = [s for s in range(10_000 + batch * 300, 10_300 + batch * 300) if s % 3 and s % 4]
    assert {check(seed, redis_session) for seed in seeds} == {None}
