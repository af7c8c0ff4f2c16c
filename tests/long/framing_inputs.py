r"""What a hostile or careless client may send: lawful pipelines made by a grammar, then bent byte by byte.

An input is a value made from a seed and a number. Much of it aims at one key, CANARY, the lock of a job: by each
command of the table that writes, by scripts, by wipes, whole or hidden in a value that a wrong length would set free.
Left out is what no two servers answer alike, what waits, and what ends or forks a server.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from emqproxy.session.table import COMMANDS
from tests.session.talk import words

CANARY: Final = b"emq:canary:1:lock"
ECHO: Final = "return ARGV[1]"
WHERE: Final = "return redis.call('GET', 'whoami')"
"""Answers with the number of the database it ran in."""
_KILL: Final = "return redis.call('DEL', KEYS[1])"
INPUT_BYTES_MAX: Final = 200_000

_LEFT_OUT: Final = frozenset((
    "MIGRATE", "BLPOP", "BRPOP", "BLMOVE", "BLMPOP", "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX", "BZMPOP", "XREADGROUP",
    "XADD", "XAUTOCLAIM", "XCLAIM", "SPOP", "EVAL", "EVALSHA", "FCALL", "FUNCTION", "RESTORE-ASKING",
))  # fmt: skip
_WRITES: Final = [
    (spec.name, abs(spec.arity)) for spec in COMMANDS.values()
    if spec.writes and spec.first == 1 and spec.name not in _LEFT_OUT
]  # fmt: skip
_ODD: Final = (
    b"\r\n", b"\n", b"\r", b"\0", b"*0\r\n", b"*-1\r\n", b"$-1\r\n", b"*1\r\n$4\r\nPING\r\n", b"'", b'"', b"\t", b" ",
    b"*", b"$", b"+", b"-", b"0", b":1\r\n", b"\\x", b"POST /\r\n", b"Host: x\r\n", b"\x16\x03\x01", b"\xff", b"\r\r\n",
    b"\r\n\r\n", b"$0\r\n\r\n", b"*1\r\n", b">1\r\n", b"|1\r\n", b"\x0b", b"\x7f", words("DEL", CANARY),
    b"DEL %b\r\n" % CANARY, words("FLUSHALL"), b"%", b"_\r\n", b"(", b"1" * 20, b"\0\0\0\0",
)  # fmt: skip
_NO_LINE_ENDS: Final = (b"", b"\r\n\r\n", b"\n", b"\r", b"\rx", b"xx", b"\0\r\n", b"\r\r\n")
_LENGTHS: Final = (
    b"0", b"-1", b"-0", b"00", b"+1", b" 1", b"1 ", b"", b"x", b"2147483647", b"2147483648", b"536870912",
    b"536870913", b"1048577", b"99999999999999999999", b"1000000", b"64", b"511", b"512", b"0x1", b"1\0", b"4096",
)  # fmt: skip


def cases(rnd: random.Random, name: str) -> str:
    """Redis does not mind the case of a name."""
    return rnd.choice((name, name, name.lower(), name.title()))


def _key(rnd: random.Random) -> bytes:
    return rnd.choice((b"k0", b"k1", b"k2", b"l", b"emq:q:1:lock", b"emq:q:2:lock", b"emq:q:wait", CANARY))


def _value(rnd: random.Random) -> bytes:
    match rnd.randrange(9):
        case 0:
            return b""
        case 1:
            return rnd.randbytes(rnd.randrange(40))
        case 2:
            return b"\r\n" + words(rnd.choice(("DEL", "UNLINK", "GETDEL")), CANARY)
        case 3:
            return rnd.choice((b"", b"x" * rnd.randrange(9))) + b"\r\n" + _aimed(rnd)
        case 4:
            return b"%d" % rnd.randrange(-10, 10_000)
        case 5:
            return b"x" * rnd.choice((62, 63, 64, 65, 254, 255, 256))
        case _:
            return rnd.choice((b"one", b"two", b"3", b":lock", b"a:1", b"OK", b"$1", b"STORE", b"PX"))


def _aimed(rnd: random.Random) -> bytes:
    """A command whose effect on CANARY would show."""
    match rnd.randrange(12):
        case 0:
            return words(cases(rnd, "EVAL"), _KILL, 1, CANARY)
        case 1:
            return words(cases(rnd, rnd.choice(("FLUSHALL", "FLUSHDB"))))
        case 2:
            return words("SWAPDB", 0, rnd.randrange(4))
        case 3:
            return words("SORT", "l", rnd.choice((b"STORE", b"store", b"STORE\0x")), CANARY)
        case 4:
            return words("BITFIELD", CANARY, rnd.choice((b"SET", b"set", b"SET\0")), "u8", 0, 65)
        case 5:
            name = rnd.choice((b"DEL", b"UNLINK", b"SET", b"GETDEL")) + b"\0%d" % rnd.randrange(1000)
            return words(name, CANARY, *([b"x"] if name[:3] == b"SET" else []))
        case 6:
            both = [rnd.choice((b"k0", b"l", CANARY)), CANARY]
            return words(rnd.choice(("RENAME", "COPY", "RENAMENX", "LMOVE", "SMOVE", "RPOPLPUSH", "DEL")), *both)
        case 7:
            return b"%b %b\r\n" % (rnd.choice((b"DEL", b"del", b"GETDEL", b"INCR")), CANARY)
        case 8:
            return words("MSET", _key(rnd), _value(rnd) if rnd.random() < 0.2 else "v", CANARY, "x")
        case 9:
            return words(rnd.choice(("BITOP NOT", "BITOP AND")).split()[0], "NOT", CANARY, "k0")
        case _:
            name, arity = rnd.choice(_WRITES)
            more = [rnd.choice((b"1", b"0", b"k0", b"x", b"PX", b"100")) for _ in range(arity - 2 + rnd.randrange(2))]
            return words(cases(rnd, name), CANARY, *more)


def _plain(rnd: random.Random) -> bytes:
    name = rnd.choice(("GET", "SET", "SETX", "INCR", "PING", "ECHO", "LPUSH", "LRANGE", "HSET", "EXISTS", "STRLEN",
                       "PUBLISH", "TYPE", "OBJECT", "MGET", "SADD", "DEL"))  # fmt: skip
    key = rnd.choice((b"k0", b"k1", b"k2"))
    match name:
        case "SET":
            return words(cases(rnd, name), key, _value(rnd))
        case "ECHO":
            return words(name, _value(rnd))
        case "PING":
            return words(cases(rnd, name)) if rnd.random() < 0.7 else words(name, _value(rnd))
        case "LPUSH":
            return words(name, "l", _value(rnd))
        case "LRANGE":
            return words(name, "l", 0, -1)
        case "HSET":
            return words(name, "h", "f", _value(rnd))
        case "SADD":
            return words(name, "s", rnd.randrange(9))
        case "PUBLISH":
            return words(name, f"c{rnd.randrange(2)}", _value(rnd))
        case "OBJECT":
            return words(name, "ENCODING", key)
    return words(cases(rnd, name), key)


def _script(rnd: random.Random) -> bytes:
    match rnd.randrange(6):
        case 0:
            return words("EVAL", WHERE, 0)
        case 1:
            return words("EVALSHA", "f" * 40, 1, _key(rnd), _value(rnd))
        case 2:
            return words("SCRIPT", rnd.choice(("LOAD", "load", "EXISTS")), ECHO)
        case _:
            return words(cases(rnd, "EVAL"), ECHO, 0, f"echo-{rnd.randrange(10_000)}")


def _mode(rnd: random.Random) -> bytes:
    """What changes the connection."""
    match rnd.randrange(12):
        case 0:
            return words("SELECT", rnd.choice((0, 1, 2, 3, 3, 9, "x")))
        case 1:
            return words("HELLO", rnd.choice((2, 3, 3, 4)))
        case 2:
            return words("RESET")
        case 3:
            return words("SUBSCRIBE", *(f"c{n}" for n in range(rnd.randrange(1, 3))))
        case 4:
            return words(rnd.choice(("UNSUBSCRIBE", "PUNSUBSCRIBE")), *(["c0"] if rnd.random() < 0.5 else []))
        case 5:
            return words("PSUBSCRIBE", "c*")
        case 6:
            return words("CLIENT", "SETNAME", "n")
        case 7 if rnd.random() < 0.3:
            return words(rnd.choice(("QUIT", "MONITOR", "quit")))
        case 8:
            return words("CLIENT", "TRACKING", rnd.choice(("ON", "OFF")))
        case 9:
            return words("WATCH", _key(rnd))
        case 10:
            return words(rnd.choice(("EXEC", "DISCARD", "MULTI", "UNWATCH")))
    return words("CLIENT", "REPLY", rnd.choice((b"ON", b"OFF", b"SKIP", b"skip", b"OFF\0x", b"SKIP\0")))


def _transaction(rnd: random.Random) -> bytes:
    body = b"".join(rnd.choice((_plain, _script, _aimed, _plain))(rnd) for _ in range(rnd.randrange(4)))
    return words("MULTI") + body + words(rnd.choice(("EXEC", "EXEC", "exec", "DISCARD")))


def _kept_back(rnd: random.Random) -> bytes:
    way = rnd.choice(("SKIP", "OFF"))
    body = b"".join(rnd.choice((_plain, _script, _aimed))(rnd) for _ in range(rnd.randrange(3)))
    return words("CLIENT", "REPLY", way) + body + words("CLIENT", "REPLY", "ON")


def _inline(rnd: random.Random) -> bytes:
    line = rnd.choice((b"PING", b"GET k0", b"SET k1 v", b"set  k2\tw ", b"ECHO x", b"eval return 0", b"", b"  ", b"\t",
                       b"MULTI", b"EXEC", b"SELECT 1", b"SET k0 'a b'", b'ECHO "a\\x41"', b"CLIENT REPLY SKIP",
                       b"DEL emq:q:1:lock", b"DEL " + CANARY, b"QUIT", b"GET k0\r", b"NOSUCH x"))  # fmt: skip
    return line + rnd.choice((b"\r\n", b"\r\n", b"\n"))


def _nothing(rnd: random.Random) -> bytes:
    return rnd.choice((b"\r\n", b"\n", b"*0\r\n", b"*-1\r\n", b"*-10\r\n", b" \r\n"))


def _large(rnd: random.Random) -> bytes:
    value = rnd.randbytes(16) * rnd.choice((200, 256, 300, 1100, 3000))
    if rnd.random() < 0.2:
        return words("DEL", *(b"none" for _ in range(rnd.choice((60, 64, 510, 511, 512)))), CANARY)
    return words(rnd.choice(("SET", "APPEND")), _key(rnd), rnd.choice((value, value + _aimed(rnd))))


_ITEMS: Final[tuple[tuple[int, Callable[[random.Random], bytes]], ...]] = (
    (30, _plain), (16, _aimed), (12, _script), (8, _mode), (6, _transaction), (5, _kept_back), (9, _inline),
    (2, _nothing), (1, _large),
)  # fmt: skip
_CHOICES: Final = [item for weight, item in _ITEMS for _ in range(weight)]


def lawful(rnd: random.Random) -> bytes:
    """A pipeline as the grammar has it."""
    return b"".join(rnd.choice(_CHOICES)(rnd) for _ in range(rnd.choice((1, 2, 3, 4, 6, 10))))


def bent(rnd: random.Random, data: bytes) -> bytes:
    """One change."""
    at = rnd.randrange(len(data) + 1)
    to = min(len(data), at + rnd.choice((1, 1, 2, 3, 8, 30, 100)))
    match rnd.randrange(11):
        case 0 if at < len(data):
            return data[:at] + bytes((data[at] ^ (1 << rnd.randrange(8)),)) + data[at + 1 :]
        case 1:
            return data[:at] + data[to:]
        case 2:
            return data[:to] + data[at:to] * rnd.choice((1, 1, 1, 20)) + data[to:]
        case 3:
            return data[:at] + rnd.choice(_ODD) + data[at:]
        case 4:
            return data[:at] + _aimed(rnd) + data[at:]
        case 5:
            return data[:at] + data[at:to].swapcase() + data[to:]
        case 6:
            return _at_line_end(rnd, data, rnd.choice(_NO_LINE_ENDS))
        case 7:
            return data[:at]
    return _length_altered(rnd, data)


def _at_line_end(rnd: random.Random, data: bytes, instead: bytes) -> bytes:
    found = data.find(b"\r\n", rnd.randrange(len(data) + 1))
    return data if found < 0 else data[:found] + instead + data[found + 2 :]


def _length_altered(rnd: random.Random, data: bytes) -> bytes:
    """Another number behind a `*` or `$`: a little more or less sets what stands in a value free."""
    found = data.find(rnd.choice((b"$", b"$", b"*")), rnd.randrange(len(data) + 1))
    end = data.find(b"\r\n", found)
    if found < 0 or end < 0:
        return data
    digits = data[found + 1 : end]
    new = rnd.choice(_LENGTHS)
    if digits.isdigit() and len(digits) < 10 and rnd.random() < 0.7:
        new = b"%d" % max(0, int(digits) + rnd.choice((-4, -3, -2, -1, 1, 2, 3, 4, 10, -10, 100)))
    return data[: found + 1] + new + data[end:]


def made(seed: int, number: int) -> bytes:
    """Input `number` of a run."""
    rnd = random.Random(seed << 40 | number)
    data = lawful(rnd)
    if rnd.random() < 0.65:
        for _ in range(rnd.choice((1, 1, 1, 2, 3, 5))):
            data = bent(rnd, data)
    return data[:INPUT_BYTES_MAX]
