"""Rows for `test_rows`: the modes a connection can be in, what may be said in each, and how one conversation is judged.

Each conversation stands between marked script calls whose answers name them; a real Redis answers. The verdict is

    =   every mark that was answered was paired with its own answer, the last one among them
    x   the same, but Redis closed the connection: the last mark was never answered, and none was given to it
    o   the session says it is blind; what it paired until then was right
"""

from __future__ import annotations

import contextlib
import socket

from emqproxy.session.exchange import ErrorReply, Missing
from tests.processes import LOOPBACK, RedisServer
from tests.session.talk import Fed, mark, words

PASSWORD = "rows"

_AUTH = words("AUTH", PASSWORD)
_CLOSE = words("UNSUBSCRIBE") + words("PUNSUBSCRIBE") + words("SUNSUBSCRIBE")
_REPLY_ON = words("CLIENT", "REPLY", "ON")

MODES: dict[str, tuple[bytes, bytes]] = {
    "resp2": (b"", b""),
    "resp3": (words("HELLO", 3), b""),
    "multi": (words("MULTI"), words("EXEC")),
    "multi3": (words("HELLO", 3) + words("MULTI"), words("EXEC")),
    "subscribed": (words("SUBSCRIBE", "ch"), _CLOSE),
    "subscribed3": (words("HELLO", 3) + words("SUBSCRIBE", "ch", "ch2"), _CLOSE),
    "off": (words("CLIENT", "REPLY", "OFF"), _REPLY_ON),
    "skip": (words("CLIENT", "REPLY", "SKIP"), b""),
    "noauth": (b"", _AUTH),
}
"""What brings a connection into the mode, and what brings it out."""

SUBJECTS: dict[str, bytes] = {
    "reply on": _REPLY_ON,
    "reply off": words("CLIENT", "REPLY", "OFF"),
    "reply skip": words("client", "reply", "skip"),
    "reply what": words("CLIENT", "REPLY", "WHAT"),
    "setname": words("CLIENT", "SETNAME", "me"),
    "tracking": words("CLIENT", "TRACKING", "ON") + words("GET", "k") + words("SET", "k", 1) + words("PING"),
    "bcast": words("CLIENT", "TRACKING", "ON", "BCAST") + words("SET", "k", 1) + words("CLIENT", "TRACKING", "OFF"),
    "no-evict": words("CLIENT", "NO-EVICT", "ON"),
    "no-touch": words("CLIENT", "NO-TOUCH", "ON"),
    "pause": words("CLIENT", "PAUSE", 5) + words("SET", "k", 1),
    "kill": words("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"),
    "hello 2": words("HELLO", 2),
    "hello 3": words("HELLO", 3),
    "hello 9": words("HELLO", 9),
    "hello x": words("HELLO", "x"),
    "hello auth": words("HELLO", 3, "AUTH", "default", PASSWORD, "SETNAME", "n"),
    "wrongpass": words("HELLO", 3, "AUTH", "default", "wrong"),
    "hello syntax": words("HELLO", 3, "AUTH", "default"),
    "hello name": words("HELLO", 2, "SETNAME", "a b"),
    "auth": words("AUTH", "default", PASSWORD),
    "auth wrong": words("AUTH", "wrong"),
    "subscribe": words("SUBSCRIBE", "a", "b"),
    "psubscribe": words("PSUBSCRIBE", "a*"),
    "ssubscribe": words("SSUBSCRIBE", "s"),
    "unsubscribe": words("UNSUBSCRIBE"),
    "unsubscribe b": words("UNSUBSCRIBE", "b", "ch"),
    "publish": words("SUBSCRIBE", "a") + words("PUBLISH", "ch", "hi") + words("PUBLISH", "a", "hi") + words("PING"),
    "to itself": words("PUBLISH", "ch", "hi") + words("SPUBLISH", "s", "x"),
    "reply in eval": words("EVAL", "return redis.pcall('client', 'reply', 'off')", 0),
    "eval_ro": words("EVAL_RO", "return 1", 0) + words("EVALSHA_RO", "f" * 40, 0),
    "fcall": words("FCALL", "none", 1, "k") + words("FCALL_RO", "none", 0),
    "on a lock": words("SET", "q:1:lock", "t") + words("del", "q:1:lock"),
    "replconf": words("REPLCONF", "capa", "eof"),
    "replconf ack": words("REPLCONF", "ACK", 0),
    "getack": words("replconf", "capa", "eof", "getack", "*"),
    "watch": words("WATCH", "k") + words("UNWATCH"),
    "nil exec": words("WATCH", "k") + words("SET", "k", 2) + words("MULTI") + mark(5001) + words("EXEC"),
    "execabort": words("MULTI") + words("GET") + mark(5002) + words("EXEC"),
    "discard": words("MULTI") + mark(5003) + words("DISCARD"),
    "nested": words("MULTI") + words("MULTI") + mark(5004) + words("EXEC"),
    "exec x": words("EXEC", "x"),
    "reset x": words("RESET", "x"),
    "select": words("SELECT", 1),
    "select 99": words("SELECT", 99),
    "swapdb": words("SWAPDB", 0, 1),
    "sleep": words("DEBUG", "SLEEP", "0.01"),
    "reload": words("DEBUG", "RELOAD"),
    "attributes": words("DEBUG", "PROTOCOL", "attrib"),
    "push": words("DEBUG", "PROTOCOL", "push"),
    "verbatim": words("DEBUG", "PROTOCOL", "verbatim") + words("DEBUG", "PROTOCOL", "map"),
    "blocks": words("BLPOP", "none", "0.01") + words("XREAD", "BLOCK", 5, "STREAMS", "s", "$"),
    "wait": words("WAIT", 0, 5),
    "abort": words("SHUTDOWN", "ABORT"),
    "failover": words("FAILOVER") + words("FAILOVER", "ABORT"),
    "cluster": words("ASKING") + words("READONLY") + words("READWRITE"),
    "psync": words("PSYNC", "?", "-1"),
    "inline": b"PING\r\n  get   k  \r\nPING\n\r\nSET k \"a \\x41\" \r\nget 'it\\'s'\r\n",
    "empty": b"\r\n*0\r\n*-1\r\n",
    "inline modes": b"multi\r\nget k\r\nexec\r\n",
    "quotes": b'GET "k\r\n',
    "no length": b"*x\r\n",
    "http": b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
    "unknown": words("FROMTHEFUTURE", "a", "b") + words("x" * 200),
    "one word": words("") + words("GET"),
}
"""What is said in each mode, beside every command of the table."""

ARGUMENTS: dict[bytes, tuple[object, ...]] = {
    b"BLPOP": ("none", "0.01"), b"BRPOP": ("none", "0.01"), b"BZPOPMIN": ("none", "0.01"), b"BZPOPMAX": ("z", "0.01"),
    b"BLMOVE": ("a", "b", "LEFT", "LEFT", "0.01"), b"BRPOPLPUSH": ("a", "b", "0.01"),
    b"BLMPOP": ("0.01", 1, "a", "LEFT"), b"BZMPOP": ("0.01", 1, "z", "MIN"),
    b"WAIT": (0, 5), b"SHUTDOWN": ("ABORT",), b"DEBUG": ("SLEEP", 0),
    b"XREAD": ("BLOCK", 5, "STREAMS", "s", "$"), b"SCRIPT": ("LOAD", "return 1"), b"PFSELFTEST": ("seconds",),
    b"SWAPDB": (0, 1), b"SELECT": (1,), b"HELLO": (3,), b"CLIENT": ("ID",), b"COMMAND": ("COUNT",), b"ACL": ("WHOAMI",),
    b"CONFIG": ("GET", "port"), b"EVAL": ("return 7", 0), b"REPLICAOF": ("NO", "ONE"), b"SLAVEOF": ("NO", "ONE"),
    b"SAVE": (), b"ZADD": ("z", 1, "m"), b"XADD": ("s", "*", "f", "v"), b"MSET": ("a", 1, "b", 2),
}  # fmt: skip
"""Where the least number of words would say nothing, or would take long."""


def call_of(name: bytes, arity: int) -> bytes:
    """A call of any command: it need not succeed, it must be answered as its like."""
    given = ARGUMENTS.get(name, tuple(f"w{n}" for n in range(1, abs(arity))))
    return words(name, *given)  # type: ignore[arg-type]


def conversation(mode: str, subject: bytes) -> bytes:
    """The subject in its mode, between marks."""
    enter, leave = MODES[mode]
    first = b"" if mode == "skip" else mark(9001)
    if b"SUBSCRIBE" in subject:
        leave += _CLOSE
    leave += words("EXEC") + _AUTH  # where MULTI or RESET was the subject; else two errors or an OK more
    return mark(9000) + enter + first + subject + mark(9002) + leave + mark(9003) + _REPLY_ON + mark(9004)


def judge(redis: RedisServer, mode: str, subject: bytes) -> str:
    """The verdict on one conversation; AssertionError where a mark was given what is not its own."""
    data = conversation(mode, subject)
    fed = Fed().client(data)
    raw = _answers(redis, mode, data, patient=fed.session.blinded is None)
    fed.server(raw)
    blinded = fed.session.blinded
    fed.end()
    last: object = None
    for exchange in fed.exchanges:
        given = exchange.command.words
        number = given[3] if given[0] == b"EVAL" and len(given) == 4 else None
        if number is None or isinstance(exchange.reply, Missing):
            continue
        if isinstance(exchange.reply, ErrorReply):
            forbidden = mode == "noauth" or b"RESET" in subject or "subscribed" in mode or b"SUBSCRIBE" in subject
            assert forbidden, exchange
            assert exchange.reply.startswith((b"NOAUTH ", b"ERR Can't execute 'eval'")), exchange
            continue
        assert isinstance(exchange.reply, list), exchange
        assert exchange.reply[0] == number, exchange
        last = number
    if blinded is not None:
        return "o"
    if last == b"9004":
        return "="
    assert b"9004" not in raw, (last, raw)
    return "x"


def _answers(redis: RedisServer, mode: str, data: bytes, *, patient: bool) -> bytes:
    """All that Redis says, up to the last mark's answer or its close; of a stream, what comes at once."""
    got = bytearray()
    with socket.create_connection((LOOPBACK, redis.port), timeout=10) as conn:
        if mode != "noauth":
            conn.sendall(_AUTH)
            assert conn.recv(5) == b"+OK\r\n"
        with contextlib.suppress(ConnectionError):
            conn.sendall(data)
            if not patient:
                conn.settimeout(0.1)
            with contextlib.suppress(*(() if patient else (TimeoutError,))):
                while b"$4\r\n9004\r\n" not in got and (piece := conn.recv(1 << 20)):
                    got += piece
    return bytes(got)
