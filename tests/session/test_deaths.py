"""What ends a connection without an answer, and what speaks unasked: nothing behind it is given what is not its own."""

from __future__ import annotations

import contextlib
import socket

import pytest

from emqproxy.session.exchange import LOST, UNREAD
from tests.processes import LOOPBACK, RedisServer
from tests.session.talk import Fed, mark, words


class Line:
    """A connection whose two byte streams also go through a session."""

    def __init__(self, redis: RedisServer) -> None:
        self.fed = Fed()
        self.sock = socket.create_connection((LOOPBACK, redis.port), timeout=10)

    def say(self, *data: bytes) -> Line:
        self.fed.client(b"".join(data))
        self.sock.sendall(b"".join(data))
        return self

    def hear(self, until: bytes) -> bytes:
        """Reads until these bytes end what came, or the server closed."""
        got = b""
        with contextlib.suppress(ConnectionError):
            while not got.endswith(until) and (piece := self.sock.recv(65536)):
                got += piece
                self.fed.server(piece)
        return got

    def close(self) -> list[object]:
        self.sock.close()
        return self.fed.end().answers


DEADLY = [
    ("SHUTDOWN", "NOSAVE"),
    ("DEBUG", "SEGFAULT"),
    ("DEBUG", "PANIC"),
]


@pytest.mark.parametrize("deadly", DEADLY, ids=" ".join)
def test_what_ends_the_server_answers_nobody(deadly: tuple[str, ...]) -> None:
    with RedisServer(**{"enable-debug-command": "yes", "crash-log-enabled": "no"}) as redis:
        line = Line(redis).say(mark(1))
        line.hear(b"$1\r\n0\r\n")
        line.say(words(*deadly), mark(2), words("MULTI"), mark(3), words("EXEC")).hear(b"never")
        assert line.close() == [[b"1", b"0"], LOST, LOST]
        assert line.fed.session.blinded is None


def test_a_shutdown_that_fails_is_answered(redis_server: RedisServer) -> None:
    (redis_server.folder / "dump.rdb").mkdir()  # it cannot be saved there
    line = Line(redis_server).say(mark(1), words("SHUTDOWN", "SAVE"), mark(2))
    assert b"-ERR" in line.hear(b"$1\r\n2\r\n$1\r\n0\r\n")
    assert line.close() == [[b"1", b"0"], [b"2", b"0"]]
    assert line.fed.session.blinded is None


def test_a_client_that_kills_itself(redis_session: RedisServer) -> None:
    line = Line(redis_session).say(words("CLIENT", "ID"))
    number = line.hear(b"\r\n")[1:-2]
    line.say(mark(1), words("CLIENT", "KILL", "ID", number, "SKIPME", "no"), mark(2))
    line.hear(b"never")
    assert line.close() == [[b"1", b"0"], LOST]
    assert line.fed.session.blinded is None


def test_invalidations_redirected_to_a_subscribed_connection(redis_session: RedisServer) -> None:
    channel = "__redis__:invalidate"
    ear = Line(redis_session).say(words("CLIENT", "ID"))
    number = ear.hear(b"\r\n")[1:-2]
    ear.say(mark(1)).hear(b"$1\r\n0\r\n")
    ear.say(words("SUBSCRIBE", channel)).hear(b":1\r\n")
    mouth = Line(redis_session).say(words("CLIENT", "TRACKING", "ON", "REDIRECT", number), words("GET", "k"))
    mouth.hear(b"$-1\r\n")
    mouth.say(words("SET", "k", "v"), mark(7)).hear(b"$1\r\n0\r\n")
    assert b"*1\r\n$1\r\nk\r\n" in ear.hear(b"*1\r\n$1\r\nk\r\n")
    mouth.say(words("FLUSHALL")).hear(b"+OK\r\n")
    assert ear.hear(b"-1\r\n")
    ear.say(words("PING"), words("UNSUBSCRIBE"), mark(2)).hear(b"$1\r\n2\r\n$1\r\n0\r\n")
    assert ear.close() == [[b"1", b"0"], [b"2", b"0"]]
    assert mouth.close() == [[b"7", b"0"], b"OK"]
    assert (ear.fed.session.blinded, mouth.fed.session.blinded) == (None, None)


def test_messages_between_answers_in_resp_3(redis_session: RedisServer) -> None:
    ear = Line(redis_session).say(words("HELLO", 3), words("SUBSCRIBE", "a"), words("SSUBSCRIBE", "s"), mark(1))
    ear.hear(b"$1\r\n1\r\n$1\r\n0\r\n")
    mouth = Line(redis_session).say(words("PUBLISH", "a", "x"), words("SPUBLISH", "s", "y"))
    mouth.hear(b":1\r\n:1\r\n")
    ear.say(words("BLPOP", "none", "0.01"), words("PUBLISH", "a", "z"), words("MULTI"), words("PUBLISH", "b", "q"))
    ear.say(mark(2), words("EXEC"), mark(3)).hear(b"$1\r\n3\r\n$1\r\n0\r\n")
    assert ear.fed.answers == [[b"1", b"0"], [b"2", b"0"], [b"3", b"0"]]
    assert ear.fed.session.blinded is None
    # Redis 7.0 sends such a message in the middle of EXEC's answer, whose length then counts it.
    ear.say(words("MULTI"), words("PUBLISH", "a", "to itself"), mark(4), words("EXEC"), mark(5))
    ear.hear(b"$1\r\n5\r\n$1\r\n0\r\n")
    mouth.close()
    blind = ear.fed.session.blinded is not None
    assert ear.close()[3:] == ([UNREAD, UNREAD] if blind else [[b"4", b"0"], [b"5", b"0"]])


def test_a_push_among_an_exec_s_elements_blinds() -> None:
    fed = Fed().client(words("HELLO", 3), words("MULTI"), words("PUBLISH", "a", "x"), mark(1), words("EXEC"), mark(2))
    fed.server(
        b"%0\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n>3\r\n+message\r\n+a\r\n+x\r\n:1\r\n*2\r\n$1\r\n1\r\n$1\r\n0\r\n"
    )
    assert fed.session.blinded
    assert fed.end().answers == [UNREAD, UNREAD]
    fed = Fed().client(words("HELLO", 3), words("MULTI"), mark(1), words("EXEC"), mark(2))
    fed.server(b"%0\r\n+OK\r\n+QUEUED\r\n*1\r\n$5\r\na\r\n>b\r\n:2\r\n")
    assert fed.session.blinded is None
    assert fed.answers == [b"a\r\n>b", 2]
