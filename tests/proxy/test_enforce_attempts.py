"""Everything that somebody may try at a lock that is held, every rule at `enforce`: the lock stays as it is, its time
too. And what README says is not kept out, held to be so.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

import pytest

from tests.processes import EmqProxy, RedisServer
from tests.proxy.breaches import Scene
from tests.proxy.hand import TTL_MS
from tests.proxy.wires import dial, exactly, talk
from tests.scripts.talk import lock
from tests.session.talk import words

L = "LOCK"
"""Stands for the lock's key."""
TEXT = "return redis.call('DEL', KEYS[1])"
SHA = hashlib.sha1(TEXT.encode()).hexdigest()
LIBRARY = "#!lua name=l\nredis.register_function('f', function(k) return redis.call('DEL', k[1]) end)"
DUMP = b"\x00\xc0\x01\x0b\x00\x46\x2b\x04\x9a\x4a\xbc\x4e\xe1"

ONE = [
    "DEL L", "UNLINK L", "UNLINK a b L", "GETDEL L", "GETSET L x", "SET L x", "SET L x XX KEEPTTL", "SET L x GET",
    "SETEX L 100 x", "PSETEX L 100000 x", "SETNX L x", "MSET k 1 L x", "MSETNX new 1 L x", "SETRANGE L 0 x",
    "APPEND L x", "INCR L", "INCRBY L 1", "INCRBYFLOAT L 1", "DECR L", "DECRBY L 1", "SETBIT L 1 1",
    "BITFIELD L SET u8 0 1", "BITFIELD L OVERFLOW FAIL INCRBY u8 0 1", "BITOP NOT L string", "EXPIRE L 1000000",
    "PEXPIRE L 100000000", "EXPIREAT L 4000000000", "PEXPIREAT L 4000000000000", "EXPIRE L -1", "EXPIRE L 1000000 GT",
    "PERSIST L", "GETEX L PERSIST", "GETEX L EX 1000000", "RENAME L k", "RENAME string L", "RENAMENX L never",
    "MOVE L 1", "COPY string L REPLACE", "copy string L db 0 replace", "SORT list STORE L",
    "sort list BY nosort GET # store L", "SINTERSTORE L set", "SUNIONSTORE L set", "SDIFFSTORE L set",
    "ZUNIONSTORE L 1 zset", "ZINTERSTORE L 1 zset", "ZDIFFSTORE L 1 zset", "ZRANGESTORE L zset 0 -1",
    "GEOSEARCHSTORE L geo FROMMEMBER a BYRADIUS 10 m ASC", "GEORADIUS geo 1 1 10 m STORE L",
    "GEORADIUS geo 1 1 10 m STOREDIST L", "GEORADIUSBYMEMBER geo a 10 m store L", "PFMERGE L pf",
    "LMOVE list L LEFT LEFT", "SMOVE set L a", "XADD L * a b", "LPUSH L x", "HSET L a b", "SADD L b",
    "MIGRATE 127.0.0.1 1 L 0 100",
    "FLUSHALL", "flushall ASYNC", "FLUSHDB SYNC", "SWAPDB 0 1", "SWAPDB 1 0",
]  # fmt: skip
"""Each by itself is refused."""
MANY = {
    "watched": ["WATCH L", "MULTI", "DEL L", "EXEC"],
    "behind DISCARD": ["MULTI", "PING", "DISCARD", "DEL L"],
    "MULTI twice": ["MULTI", "MULTI", "DEL L", "EXEC"],
    "unanswered": ["CLIENT REPLY OFF", "DEL L", "CLIENT REPLY ON"],
    "one unanswered": ["CLIENT REPLY SKIP", "DEL L", "PING"],
    "behind RESET": ["RESET", "DEL L"],
    "RESET in MULTI": ["MULTI", "RESET", "DEL L"],
    "behind HELLO": ["PING", "HELLO 3", "DEL L"],
    "HELLO in MULTI": ["MULTI", "HELLO 3", "DEL L", "EXEC"],
    "another database and back": ["SELECT 1", "SELECT 0", "DEL L"],
    "from another database": ["SELECT 1", "SET x y", "COPY x L DB 0 REPLACE", "MOVE L 0"],
    "subscribed": ["SUBSCRIBE c", "DEL L"],
    "subscribed, RESP 3": ["HELLO 3", "SUBSCRIBE c", "DEL L"],
    "and no more": ["SUBSCRIBE c", "UNSUBSCRIBE", "DEL L"],
    "behind MONITOR": ["MONITOR", "DEL L"],
    "behind SYNC": ["SYNC", "DEL L"],
    "wiped in MULTI": ["MULTI", "FLUSHALL", "EXEC"],
    "wiped from elsewhere": ["SELECT 1", "MULTI", "SELECT 0", "FLUSHDB", "EXEC"],
    "behind a SELECT that was discarded": ["MULTI", "SELECT 1", "DISCARD", "FLUSHDB"],
}
RAW = [
    b"DEL LOCK\r\n", b"DEL LOCK\n", b"dEl\t LOCK\n", b"   DEL LOCK\n", b"DEL LOCK\r\r\n",
    b'DEL "LOC\\x4b"\r\n', b"\x0bDEL LOCK\r\n",
    b"*+2\r\n$3\r\nDEL\r\n$LEN\r\nLOCK\r\n",
    b"*0\r\n*2\r\n$3\r\nDEL\r\n$LEN\r\nLOCK\r\n",
    b"*-1\r\n*2\r\n$3\r\nDEL\r\n$LEN\r\nLOCK\r\n",
    b"\r\n\r\n*2\r\n$3\r\nDEL\r\n$LEN\r\nLOCK\r\n", b"*2\n$3\nDEL\n$LEN\nLOCK\n", b"*2\r\n$3\r\nDELxx$LEN\r\nLOCKxx",
    b"*2\r\n$03\r\nDEL\r\n$LEN\r\nLOCK\r\n", b"*2\r\n$5\r\nDEL\0x\r\n$LEN\r\nLOCK\r\n",
]  # fmt: skip


@pytest.fixture
def scene(redis_session: RedisServer, enforcing: EmqProxy) -> Iterator[Scene]:
    with contextlib.closing(Scene(redis_session, enforcing.port)) as made:
        made.owner("tok:1")
        for call in ("SET string s", "RPUSH list 1", "SADD set a", "ZADD zset 1 a", "GEOADD geo 1 1 a", "PFADD pf a"):
            assert not redis_session.call(*call.split()).startswith(b"-")
        yield made
        stands(made)


def stands(scene: Scene) -> None:
    """The lock, with the time that its pickup gave it."""
    key = lock(scene.job).key
    assert scene.redis.call("GET", key) == b"$5\r\ntok:1\r\n"
    assert 0 < int(scene.redis.call("PTTL", key)[1:-2]) <= TTL_MS


def asked(scene: Scene, *calls: str) -> bytes:
    key = lock(scene.job).key.decode()
    return b"".join(words(*(key if word == "L" else word for word in call.split())) for call in calls)


@pytest.mark.parametrize("call", ONE)
def test_one_command(scene: Scene, call: str) -> None:
    told = talk(scene.port, [asked(scene, call)])
    wipes = call.partition(" ")[0].upper() in {"FLUSHALL", "FLUSHDB", "SWAPDB"}
    assert told.startswith(b"-EMQPROXY mass_delete " if wipes else b"-EMQPROXY raw_lock_write ")


def test_commands_with_bytes(scene: Scene) -> None:
    key = lock(scene.job).key
    for call in (
        words("RESTORE", key, 0, DUMP, "REPLACE"), words("EVAL", TEXT, 1, key), words("EVAL_RO", TEXT, 1, key),
        words("EVAL", "#!lua flags=no-writes\n" + TEXT, 1, key),
        words("SCRIPT", "LOAD", TEXT) + words("EVALSHA", SHA, 1, key),
        words("MIGRATE", "127.0.0.1", 1, "", 0, 100, "KEYS", key),
        words("DEL", *(f"k{number}" for number in range(5000)), key), words("MSET", "a", b"x" * 3_000_000, key, "x"),
        words("EVAL", "return redis.call('DEL', KEYS[1] .. ':lock')", 1, key.removesuffix(b":lock")),
        words("FUNCTION", "LOAD", "REPLACE", LIBRARY) + words("FCALL", "f", 1, key),
    ):  # fmt: skip
        told = talk(scene.port, [call])
        assert b"-EMQPROXY " in told or told.startswith(b"-ERR Write commands are not allowed"), call[:60]
        stands(scene)
    scene.redis.call("FUNCTION", "FLUSH")


@pytest.mark.parametrize("what", MANY)
def test_several(scene: Scene, what: str) -> None:
    talk(scene.port, [asked(scene, *MANY[what])])


@pytest.mark.parametrize("sent", RAW)
def test_bytes(scene: Scene, sent: bytes) -> None:
    key = lock(scene.job).key
    told = talk(scene.port, [sent.replace(b"LOCK", key).replace(b"LEN", b"%d" % len(key))])
    assert told.startswith(b"-EMQPROXY ")


# ---------------------------------------------------------------- what is not kept out


def test_a_wipe_is_of_the_database_that_was_selected_before_it(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """Redis may not have said yet whether it took the SELECT. Where it has refused it by then, that is known."""
    with contextlib.closing(Scene(redis_session, enforcing.port)) as scene:
        scene.owner("tok:1")
        out_of_range = b"-ERR DB index is out of range\r\n"
        with dial(enforcing.port) as client:
            client.sendall(words("SELECT", 99))
            assert exactly(client, len(out_of_range)) == out_of_range
            client.sendall(words("FLUSHDB"))
            assert exactly(client, 23) == b"-EMQPROXY mass_delete F"
        stands(scene)
        assert talk(enforcing.port, [words("SELECT", 99) + words("FLUSHDB")]) == out_of_range + b"+OK\r\n"
        assert redis_session.call("EXISTS", lock(scene.job).key) == b":0\r\n"


def test_a_script_is_judged_by_its_keys(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """What it does to keys that it does not name there, nobody sees before."""
    with contextlib.closing(Scene(redis_session, enforcing.port)) as scene:
        scene.owner("tok:1")
        own = words(
            "EVAL", "return redis.call('DEL', ARGV[1] .. ':lock')", 0, lock(scene.job).key.removesuffix(b":lock")
        )
        assert talk(enforcing.port, [own]) == b":1\r\n"
