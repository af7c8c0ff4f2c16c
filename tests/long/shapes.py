r"""How commands may look on the wire: inline, empty, broken, cut short, and in pieces of any size."""

from __future__ import annotations

import random
from typing import Final

from tests.long.vocabulary import Voice
from tests.session.talk import pieces, words

_INLINE: Final = (
    b"PING\r\n", b"PING\n", b"  ping   x  \r\n", b"\tPING\r\n", b'SET %k "a \\x41\\n\\"q\\""\r\n',
    b"SET %k 'it\\'s'\n", b"GET %k\r\n", b'ECHO ""\r\n', b"ECHO ''\n", b"ECHO a\\ b\r\n", b"LPUSH %l a b 'c d'\r\n",
    b'ECHO "\\xzz\\q"\r\n', b"NOSUCH a b\r\n", b"GET\n", b"ECHO \x01\xff\r\n", b"MULTI\r\nGET %k\r\nEXEC\r\n",
    b"CLIENT REPLY SKIP\nPING\n", b"EVAL 'return 1' 0\r\n", b"ECHO\x0ba\r\n", b"select 0\nGET %k\n", b"SET %k v\r\r\n",
    b'echo "a"\tb\r\n', b"SUBSCRIBE %c\nUNSUBSCRIBE %c\n", b"HELLO 2\r\n", b"ECHO \"%k\"\r\n",
)  # fmt: skip
_EMPTY: Final = (
    b"\r\n", b"\n", b"*0\r\n", b"*-1\r\n", b"*-7\r\n", b"   \r\n", b'""\r\n', b"\r\n\r\n\n",
    b"*1\r\n$0\r\n\r\n", b"\t\n",
)  # fmt: skip
_MALFORMED: Final = (
    b"*x\r\n", b"*01\r\n$4\r\nPING\r\n", b"*+1\r\n$4\r\nPING\r\n", b"*1 \r\n$4\r\nPING\r\n", b"* 1\r\n",
    b"*1048577\r\n", b"*2147483648\r\n", b"*99999999999999999999\r\n", b"*\r\n", b"*1\r\n:1\r\n", b"*1\r\n+PING\r\n",
    b"*1\r\nPING\r\n", b"*1\r\n$-1\r\n", b"*2\r\n$4\r\nECHO\r\n$-1\r\n", b"*1\r\n$x\r\n", b"*1\r\n$04\r\nPING\r\n",
    b"*1\r\n$536870913\r\n", b"*1\r\n$99999999999999999999\r\n", b"*1\r\n$\r\n", b"*1\r\n*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n*0\r\n", b"*3\r\n$3\r\nGET\r\n$1\r\nk\r\n\r\n", b'GET "k\r\n', b"GET 'k\n", b'GET "k"x\r\n',
    b"*-\r\n", b"*1\r\n\r\n", b"*2\r\n$4\r\nECHO\r\n$3\r\nabcd\r\n*1\r\n$4\r\nPING\r\n", b"\x16\x03\x01\x02\r\n",
)  # fmt: skip
"""What Redis closes the connection for, mostly."""
_ODD: Final = (
    b"*1\r\n$4\r\nPINGxx", b"*1\rX$4\rXPING\r\n", b"*2\r\n$4\r\nECHO\n\n$2\r\nok\r\r", b"*1\r\n$4\r\nPING\n\n",
    b"*-0\r\n", b"*0\rX", b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", b"$4\r\nPING\r\n", b"+PING\r\n", b">1\r\n$4\r\nPING\r\n",
    b"_\r\n", b"#t\r\n",
)  # fmt: skip
"""What looks broken and what Redis takes, or refuses without closing."""
BROWSERS: Final = (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", words("host:", "nowhere"), b"Host: x\n", words("post"))
"""Redis closes at once, and drops what it has not yet sent: to be said first, or chance decides what was sent."""
_LONG: Final = 400_000  # whatever the sizes of Redis's reads: one of them ends within, past the 64 KiB it allows
OVERSIZE: Final = (b"PING " + b"x" * _LONG, b"*1" + b"0" * _LONG, b"*1\r\n$1" + b"0" * _LONG, b"x" * 65_530 + b"\r\n")
"""Redis closes where a read ends within, and it reads on while a client blocks: to be said before anything blocks."""


def inline(voice: Voice) -> list[bytes]:
    line = voice.rnd.choice(_INLINE)
    for sign, kind in ((b"%k", "s"), (b"%l", "l")):
        line = line.replace(sign, voice.key(kind))
    return [line.replace(b"%c", voice.channels[0])]


def empty(voice: Voice) -> list[bytes]:
    return [voice.rnd.choice(_EMPTY)]


def malformed(voice: Voice) -> list[bytes]:
    """Also what only looks so. Each is one item: what follows it may never be read."""
    rnd = voice.rnd
    kind = rnd.random()
    if kind < 0.45:
        return [rnd.choice(_ODD)]
    return [rnd.choice(_MALFORMED)]


def truncated(voice: Voice) -> bytes:
    """A command that the half-close cuts short, wherever. Or a line with a NUL: Redis never sees its end."""
    if voice.rnd.random() < 0.1:
        return b"ECHO a\x00b\r\n" + words("PING")
    whole = words("SET", voice.key("s"), voice.value() + b"xyz")
    return whole[: voice.rnd.randrange(1, len(whole))]


def fragments(data: bytes, rnd: random.Random) -> tuple[bytes, ...]:
    """Cut at random places: mostly not at all, or into a few, seldom into single bytes."""
    kind = rnd.random()
    if kind < 0.45 or len(data) < 2:
        return (data,)
    if kind > 0.98 and len(data) < 400:
        return tuple(data[at : at + 1] for at in range(len(data)))
    cuts = [rnd.randrange(len(data)) for _ in range(rnd.randint(1, 6))]
    return tuple(piece for piece in pieces(data, cuts) if piece)
