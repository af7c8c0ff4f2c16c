r"""What a client may say to Redis whose answer two equal servers give alike: plain commands, as data.

A template is a line of words; `@x` stands for something drawn at random (`_DRAW`). Left out is what no two servers
answer alike: time, ids and addresses of clients, INFO, what is random, and orders that follow from a server's own hash
seed (members of a set are numbers here, which Redis keeps sorted).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.scripts.talk import PREFIX
from tests.session.talk import words

USER, PASSWORD = "limited", "pw"
"""A user of both servers, who may do little."""
MAY: Final = ("+ping", "+get", "+client", "+exec", "+multi", "+unsubscribe", "+punsubscribe", "+sunsubscribe")
HASH_SLOTS_LONG: Final = 200
LISTS: Final = (b"paused", b"l1", b"l2")
"""The first is a queue's that no script here looks at: what is in others decides what order a set of theirs has."""


class Voice:
    """Who speaks: chance, and names that nobody else uses, so that many may speak at once."""

    def __init__(self, lane: int, rnd: random.Random) -> None:
        self.rnd = rnd
        self.prefix = b"emq:l%05d:" % lane
        """As long as `talk.PREFIX`, so that it may stand in its place, packed or not."""
        assert len(self.prefix) == len(PREFIX)
        self.channels = [self.prefix + b"ch%d" % n for n in range(3 if rnd.random() < 0.5 else 1)]
        """Whoever leaves several without naming them does so in the order of the server's hash seed."""

    def key(self, kind: str) -> bytes:
        """A key of a type, of which there are three; now and then one of any type. A list may be a queue's."""
        if self.rnd.random() < 0.06:
            kind = self.rnd.choice("snhlizxpb")
        at = self.rnd.randrange(3)
        return self.prefix + (LISTS[at] if kind == "l" else b"%s%d" % (kind.encode(), at))

    def job(self) -> str:
        return str(self.rnd.randrange(1, 5))

    def token(self) -> str:
        return self.rnd.choice(("a:1", "a:1", "b:2", "c:3"))

    def value(self) -> bytes:
        rnd = self.rnd
        match rnd.randrange(8):
            case 0:
                return b""
            case 1:
                return rnd.randbytes(rnd.randrange(300))
            case 2:
                return rnd.choice((b"\r\n", b"+OK\r\n", b"$-1\r\n", b"*1\r\n$4\r\nPING\r\n", b"\x00", b">1\r\n"))
            case 3:
                return b"%d" % rnd.randrange(-1000, 1000)
            case _:
                return rnd.choice((b"one", b"two", b"three four", b"5", b"0.5", "zwölf".encode()))

    def all_channels(self) -> list[bytes]:
        """What to name to leave all."""
        return self.channels if len(self.channels) > 1 else []

    def leave_all(self) -> bytes:
        every = self.all_channels()
        return words("UNSUBSCRIBE", *every) + words("PUNSUBSCRIBE") + words("SUNSUBSCRIBE", *every)

    def fill(self, template: str) -> list[bytes]:
        filled: list[bytes] = []
        for word in template.split():
            if word == "@all":
                filled += self.all_channels()
            else:
                filled.append(_DRAW[word](self) if word in _DRAW else word.encode())
        return filled

    def say(self, *sent: str | bytes | int) -> bytes:
        """As RESP; the name in any case."""
        name, *rest = sent
        if isinstance(name, str) and self.rnd.random() < 0.15:
            name = name.lower()
        return words(name, *rest)

    def from_template(self, template: str) -> bytes:
        name, *rest = self.fill(template)
        return words(name.lower() if self.rnd.random() < 0.15 else name, *rest)


def _key(kind: str) -> Callable[[Voice], bytes]:
    return lambda voice: voice.key(kind)


_DRAW: Final[dict[str, Callable[[Voice], bytes]]] = {
    **{f"@{kind}": _key(kind) for kind in "snhlizxpbg"},
    "@v": Voice.value,
    "@f": lambda voice: b"f%d" % voice.rnd.randrange(6),
    "@m": lambda voice: b"%d" % voice.rnd.randrange(HASH_SLOTS_LONG),
    "@d": lambda voice: b"%d" % voice.rnd.randrange(-3, 9),
    "@r": lambda voice: voice.rnd.choice((b"1", b"2.5", b"-inf", b"3e3", b"0", b"x")),
    "@id": lambda voice: b"%d-%d" % (voice.rnd.randrange(1, 50), voice.rnd.randrange(3)),
    "@c": lambda voice: voice.rnd.choice(voice.channels),
    "@cp": lambda voice: voice.prefix + b"c*",  # one pattern a message: of several, the hash seed says which is first
    "@notify": lambda voice: b"__key*__:" + voice.prefix + b"*",
    "@any": lambda voice: voice.key(voice.rnd.choice("snhlizxpb")),
    "@lock": lambda voice: voice.prefix + voice.job().encode() + b":lock",
    "@t": lambda voice: voice.token().encode(),
    "@mark": lambda voice: b"said %d" % voice.rnd.randrange(10_000),
}

STRINGS: Final = (
    "SET @s @v", "SET @s @v NX", "SET @s @v XX GET", "SET @s @v KEEPTTL", "SET @s @v EX 1000", "SET @s @v WHAT",
    "GET @s", "GETSET @s @v", "GETDEL @s", "GETEX @s PERSIST", "APPEND @s @v", "STRLEN @s", "SETRANGE @s @d @v",
    "SETNX @s @v", "GETRANGE @s @d @d", "MSET @s @v @s @v", "MSETNX @s @v @s @v", "MGET @s @n @s @h", "INCR @n",
    "DECRBY @n @d", "INCRBYFLOAT @n @r", "INCRBY @n @v", "SETBIT @b @m 1", "GETBIT @b @m", "BITCOUNT @b",
    "BITPOS @b 1", "BITOP OR @b @b @b", "BITFIELD @b INCRBY u5 3 1 GET u4 0", "BITFIELD_RO @b GET u8 0", "LCS @s @s",
    "LCS @s @s IDX", "SETEX @s 1000 @v", "PSETEX @s 0 @v", "SUBSTR @s 0 2", "PFADD @p @v @v", "PFCOUNT @p",
    "PFMERGE @p @p @p",
)  # fmt: skip
LISTS_AND_SETS: Final = (
    "LPUSH @l @v @v", "RPUSH @l @v", "LPUSHX @l @v", "LPOP @l", "RPOP @l 2", "LLEN @l", "LRANGE @l 0 -1",
    "LRANGE @l @d @d", "LINDEX @l @d", "LSET @l @d @v", "LINSERT @l BEFORE @v @v", "LREM @l 0 @v", "LTRIM @l 0 5",
    "LMOVE @l @l LEFT RIGHT", "RPOPLPUSH @l @l", "LPOS @l @v", "LMPOP 2 @l @l LEFT COUNT 2", "SADD @i @m @m @m",
    "SREM @i @m", "SCARD @i", "SISMEMBER @i @m", "SMISMEMBER @i @m @m", "SMEMBERS @i", "SMOVE @i @i @m",
    "SINTER @i @i", "SUNION @i @i", "SDIFF @i @i", "SINTERSTORE @i @i @i", "SUNIONSTORE @i @i @i",
    "SINTERCARD 2 @i @i LIMIT 3", "SORT @i", "SORT @l ALPHA LIMIT 0 3", "SORT @l BY nosort GET #", "SORT_RO @i DESC",
)  # fmt: skip
HASHES_AND_SORTED: Final = (
    "HSET @h @f @v @f @v", "HSETNX @h @f @v", "HGET @h @f", "HMGET @h @f @f @f", "HGETALL @h", "HKEYS @h", "HVALS @h",
    "HLEN @h", "HDEL @h @f", "HEXISTS @h @f", "HINCRBY @h n @d", "HINCRBYFLOAT @h x @r", "HSTRLEN @h @f",
    "HMSET @h @f @v", "HSET @h @f", "ZADD @z @r @m @d @m", "ZADD @z GT CH @d @m", "ZADD @z INCR @r @m", "ZREM @z @m",
    "ZSCORE @z @m", "ZMSCORE @z @m @m", "ZRANK @z @m", "ZREVRANK @z @m", "ZRANGE @z 0 -1 WITHSCORES",
    "ZRANGE @z @d @d REV", "ZRANGE @z -inf +inf BYSCORE LIMIT 0 3", "ZRANGEBYSCORE @z 0 3 WITHSCORES",
    "ZREVRANGE @z 0 2", "ZCARD @z", "ZCOUNT @z -inf 2", "ZINCRBY @z @d @m", "ZPOPMIN @z", "ZPOPMAX @z 2",
    "ZUNION 2 @z @z WITHSCORES", "ZINTER 2 @z @i", "ZDIFF 2 @z @z", "ZUNIONSTORE @z 2 @z @i AGGREGATE MAX",
    "ZRANGESTORE @z @z 0 2", "ZREMRANGEBYRANK @z 0 0", "ZLEXCOUNT @z - +", "ZMPOP 1 @z MIN", "ZINTERCARD 2 @z @z",
    "GEOADD @g 13.3 38.1 @m 15.0 37.5 @m", "GEOSEARCH @g FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST",
    "GEOPOS @g @m 7", "GEODIST @g @m @m", "GEOHASH @g @m",
)  # fmt: skip
STREAMS: Final = (
    "XADD @x @id a @v", "XADD @x 60-* a @v b @v", "XADD @x MAXLEN 5 @id a @v", "XLEN @x", "XRANGE @x - +",
    "XREVRANGE @x + - COUNT 2", "XREAD COUNT 2 STREAMS @x @x 0 @id", "XDEL @x @id", "XTRIM @x MAXLEN 3",
    "XGROUP CREATE @x g 0 MKSTREAM", "XGROUP DESTROY @x g", "XREADGROUP GROUP g one COUNT 2 STREAMS @x >",
    "XREADGROUP GROUP g one STREAMS @x 0", "XACK @x g @id", "XPENDING @x g", "XCLAIM @x g two 0 @id JUSTID",
    "XAUTOCLAIM @x g two 0 0 JUSTID", "XINFO STREAM @x", "XINFO GROUPS @x", "XGROUP CREATECONSUMER @x g two",
)  # fmt: skip
KEYSPACE: Final = (
    "DEL @any @any", "UNLINK @any", "EXISTS @any @any @any", "TYPE @any", "RENAME @any @any", "RENAMENX @s @s",
    "COPY @any @any REPLACE", "COPY @any @any DB 1", "MOVE @any 1", "TTL none", "PERSIST @s", "EXPIRE @s 1000",
    "EXPIRE @h 1000 NX", "EXPIREAT @l 33177117420", "PEXPIREAT @z 33177117420123", "TOUCH @any @any",
    "OBJECT ENCODING @any", "OBJECT REFCOUNT @n", "OBJECT FREQ @any", "OBJECT HELP", "DUMP @s",
    "RESTORE @any 0 nonsense", "KEYS @s", "EXPIRE @any -1", "SCAN 0 WHAT", "WAIT 0 0", "DEBUG SLEEP 0",
    "DEBUG OBJECT none", "DEBUG DIGEST-VALUE @any @any", "DEBUG WHAT",
)  # fmt: skip
RESP_TYPES: Final = (
    "DEBUG PROTOCOL string", "DEBUG PROTOCOL integer", "DEBUG PROTOCOL double", "DEBUG PROTOCOL null",
    "DEBUG PROTOCOL array", "DEBUG PROTOCOL set", "DEBUG PROTOCOL map", "DEBUG PROTOCOL attrib", "DEBUG PROTOCOL push",
    "DEBUG PROTOCOL verbatim", "DEBUG PROTOCOL true", "DEBUG PROTOCOL false", "DEBUG PROTOCOL bignum",
    "DEBUG PROTOCOL what",
)  # fmt: skip
CONNECTION: Final = (
    "PING", "PING @v", "PING a b", "ECHO @v", "CLIENT SETNAME worker-@", "CLIENT SETNAME @v", "CLIENT GETNAME",
    "CLIENT NO-EVICT ON", "CLIENT TRACKING ON", "CLIENT TRACKING OFF", "CLIENT TRACKING ON OPTIN",
    "CLIENT TRACKING ON OPTOUT NOLOOP", "CLIENT CACHING YES", "CLIENT TRACKING ON REDIRECT 999999999",
    "CLIENT TRACKINGINFO", "CLIENT GETREDIR", "CLIENT UNBLOCK 999999999", "CLIENT HELP", "CLIENT KILL 10.9.8.7:6",
    "CLIENT KILL ID 999999999", "CLIENT REPLY", "CLIENT REPLY WHAT", "CLIENT WHAT", "CLIENT UNPAUSE",
    "AUTH nobody wrong", "AUTH", "AUTH one", "ACL WHOAMI", "ACL CAT nowhere", "ACL WHAT", "SELECT 1", "SELECT 0",
    "SELECT 3", "SELECT 99", "SELECT x", "HELLO", "HELLO 2", "HELLO 3", "HELLO 9", "HELLO x",
    "HELLO 3 AUTH nobody wrong", "HELLO 3 SETNAME me", "HELLO 2 AUTH", "HELLO 3 AUTH default any SETNAME n", "RESET",
    "RESET now", "READONLY", "ASKING", "CLUSTER INFO", "REPLCONF capa eof", "REPLCONF ACK 0", "REPLCONF GETACK *",
    "REPLICAOF x", "SHUTDOWN ABORT", "SHUTDOWN what", "FAILOVER ABORT", "MONITOR x", "SYNC x", "LATENCY WHAT",
    "SLOWLOG WHAT", "MODULE LIST", "COMMAND COUNT", "COMMAND INFO get evalsha none", "COMMAND GETKEYS SET k v",
    "COMMAND GETKEYS @v", "COMMAND DOCS get", "COMMAND LIST FILTERBY PATTERN nothing*", "CONFIG GET maxmemory-policy",
    "CONFIG GET", "CONFIG WHAT", "MEMORY USAGE none", "MEMORY HELP", "SWAPDB 0 x", "FLUSHALL WHAT", "SAVE x", "OBJECT",
)  # fmt: skip
UNKNOWN: Final = (
    "FROMTHEFUTURE @v @v", "GE T", "@v @v", "GET", "SET @s", "GET @s @s", "HSET @h", "ZADD @z", "EVAL", "XADD @x",
    "CLIENT", "HELLO 3 AUTH", "SUBSCRIBE", "PSUBSCRIBE", "PUBLISH @c", "MULTI x", "WATCH",
    "LPUSH @l",
)  # fmt: skip
"""Names that nobody knows, and numbers of words that nobody takes."""
PUBSUB: Final = (
    "SUBSCRIBE @c", "SUBSCRIBE @c @c @c", "PSUBSCRIBE @cp", "PSUBSCRIBE @cp @cp", "SSUBSCRIBE @c", "UNSUBSCRIBE @all",
    "UNSUBSCRIBE @c @c", "PUNSUBSCRIBE", "PUNSUBSCRIBE @cp", "SUNSUBSCRIBE @all", "SUNSUBSCRIBE @c", "PUBLISH @c @v",
    "PUBLISH @c @v", "SPUBLISH @c @v", "PING", "PING @v", "PUBSUB NUMSUB @c @c", "PUBSUB CHANNELS @c",
    "PUBSUB SHARDNUMSUB @c", "GET @s", "SET @s @v", "PSUBSCRIBE @notify", "RESET",
)  # fmt: skip
ON_LOCKS: Final = (
    "SET @lock @t", "SET @lock @t PX 600000", "SET @lock @t NX PX 600000", "GET @lock", "DEL @lock",
    "DEL @lock @s @lock", "UNLINK @lock", "EXISTS @lock", "PERSIST @lock", "EXPIRE @lock 600",
    "PEXPIRE @lock 600000 XX", "GETDEL @lock", "GETSET @lock @t", "APPEND @lock @v", "RENAME @lock @lock",
    "RENAME @lock @s", "COPY @lock @lock REPLACE", "MSET @lock @t @s @v", "SETNX @lock @t", "EXPIRE @lock 0",
    "BITOP NOT @lock @lock", "SORT @l STORE @lock", "MOVE @lock 1", "TYPE @lock", "SETEX @lock 600 @t",
    "SETRANGE @lock 0 @t",
)  # fmt: skip
PLAIN: Final = {
    "strings": STRINGS,
    "lists, sets": LISTS_AND_SETS,
    "hashes, sorted": HASHES_AND_SORTED,
    "streams": STREAMS,
    "keyspace": KEYSPACE,
    "RESP types": RESP_TYPES,
    "connection": CONNECTION,
    "unknown": UNKNOWN,
    "pubsub": PUBSUB,
    "raw on locks": ON_LOCKS,
}
GLOBAL: Final = (
    "FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC", "FLUSHDB SYNC", "SWAPDB 0 1", "SWAPDB 1 1", "DBSIZE", "SCRIPT FLUSH",
    "SCRIPT FLUSH ASYNC", "FUNCTION FLUSH", "CONFIG SET hz 10", "CONFIG SET none 1", "CLIENT PAUSE 3 WRITE",
    "CLIENT PAUSE 3", "SLOWLOG RESET", "SLOWLOG LEN x", "MEMORY PURGE", "DEBUG CHANGE-REPL-ID", "LATENCY RESET none",
    "CONFIG RESETSTAT", "PUBSUB CHANNELS none", "PUBSUB NUMPAT", "CLIENT TRACKING ON BCAST PREFIX q NOLOOP",
    "REPLICAOF NO ONE", "SCRIPT KILL", "DEBUG QUICKLIST-PACKED-THRESHOLD 1K",
)  # fmt: skip
"""What reaches beyond the speaker's own keys: said when nobody else speaks."""
