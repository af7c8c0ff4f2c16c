"""A gated session between a client that numbers its questions and a model of Redis that answers with these numbers.

The model knows as much of Redis as the gate relies on: MULTI and what aborts it, CLIENT REPLY, RESP 3 and its pushes.
It is given twice: what went on to it, to answer; and what the client asked with the refusals known, to say what the
client must be given.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from emqproxy.session.exchange import Command, Exchange
from emqproxy.session.gated import GatedSession
from emqproxy.wire.requests import RequestReader
from tests.session.talk import words

SHA: Final = "f" * 40
ABORTED: Final = b"-EXECABORT Transaction discarded because of previous errors.\r\n"


class _All:
    """Holds every name."""

    def __contains__(self, _: object) -> bool:
        return True


class Asked(NamedTuple):
    """One command as the client sends it, and whether it is to be refused."""

    raw: bytes
    refused: bool = False


def numbered(number: int) -> bytes:
    """A call that is judged, answered with its number."""
    return words("EVALSHA", SHA, 0, number)


def refusal(number: int) -> bytes:
    return b"-EMQPROXY refused %d\r\n" % number


def split(data: bytes) -> list[list[bytes]]:
    """The words of each command in a canonical stream."""
    items = RequestReader(_All()).feed(data)
    return [[word or b"" for word in item.words] for item in items if not isinstance(item, int)]


class Model:
    """Redis."""

    def __init__(self) -> None:
        self.resp = 2
        self._queue: list[bytes] | None = None
        self._aborted = False
        self._off = self._skip = False

    def refuse(self, answer: bytes) -> bytes | None:
        """What the client is given for a refused command; inside MULTI it is as one of the wrong arity."""
        silent = self._off or self._skip
        self._skip = False
        self._aborted = self._aborted or self._queue is not None
        return None if silent else answer

    def run(self, asked: list[bytes]) -> bytes | None:
        """The answer; None where there is none."""
        name, now_silent = asked[0].upper(), self._off or self._skip
        self._skip = False
        if name == b"CLIENT" and asked[1].upper() == b"REPLY":
            return self._reply(asked[2].upper())
        answer = self._answer(name, asked)
        return None if now_silent else answer

    def _reply(self, way: bytes) -> bytes | None:
        if way == b"ON":
            self._off = False
            return b"+OK\r\n"
        self._off = self._off or way == b"OFF"
        self._skip = way == b"SKIP" and not self._off
        return None

    def _answer(self, name: bytes, asked: list[bytes]) -> bytes:
        queue = self._queue
        if name == b"GET" and len(asked) == 1:
            self._aborted = self._aborted or queue is not None
            return b"-ERR wrong number of arguments for 'get' command\r\n"
        if name == b"MULTI" and queue is None:
            self._queue, self._aborted = [], False
            return b"+OK\r\n"
        if name in {b"EXEC", b"DISCARD"} and queue is not None:
            self._queue = None
            if name == b"DISCARD":
                return b"+OK\r\n"
            return ABORTED if self._aborted else b"*%d\r\n" % len(queue) + b"".join(queue)
        if name == b"HELLO" and queue is None:
            self.resp = int(asked[1])
            return b"%1\r\n+proto\r\n:3\r\n" if self.resp == 3 else b"*2\r\n+proto\r\n:2\r\n"
        answer = self._plain(name, asked)
        if queue is None:
            return answer
        queue.append(answer)
        return b"+QUEUED\r\n"

    @staticmethod
    def _plain(name: bytes, asked: list[bytes]) -> bytes:
        if name == b"EVALSHA":
            return b":%b\r\n" % asked[3]
        if name == b"PING" and len(asked) == 1:
            return b"+PONG\r\n"
        return b"$%d\r\n%b\r\n" % (len(asked[-1]), asked[-1])


class Gated:
    """One session at the gate: refuses the calls whose numbers are in `refused`."""

    def __init__(self, refused: Iterable[int] = ()) -> None:
        self.session = GatedSession()
        self.refused = frozenset(refused)
        self.judged: list[bytes] = []
        self.exchanges: list[Exchange] = []

    def asks(self, *data: bytes) -> bytes:
        """What goes on."""
        return b"".join([self.session.from_client_judged(part, 1, self._judge) for part in data])

    def hears(self, *data: bytes) -> bytes:
        """What the client is given."""
        given = b""
        for part in data:
            more, exchanges = self.session.from_server_judged(part, 2)
            given += more
            self.exchanges += exchanges
        return given

    def _judge(self, command: Command) -> bytes | None:
        number = command.words[-1] or b""
        self.judged.append(number)
        if number.isdigit() and int(number) in self.refused:
            return refusal(int(number))
        self.session.keep(command, words=True)
        return None


def expected(asked: Iterable[Asked]) -> list[bytes]:
    """The answers that the client must be given, in order."""
    model, out = Model(), []
    for number, one in enumerate(asked):
        (said,) = split(one.raw)
        answer = model.refuse(refusal(number)) if one.refused else model.run(said)
        if answer is not None:
            out.append(answer)
    return out


def answers(upstream: bytes, rnd: random.Random) -> Iterator[bytes]:
    """The model's frames: answers, with pushes between them and attributes before them where RESP 3 is spoken."""
    model = Model()
    for number, said in enumerate(split(upstream)):
        answer = model.run(said)
        if model.resp == 3 and rnd.random() < 0.3:
            yield b">2\r\n+message\r\n$%d\r\n%b\r\n" % (9 * number, b"\r\n+PONG\r\n"[:9] * number)
        if answer is not None:
            attribute = b"|1\r\n+ttl\r\n:%d\r\n" % number if model.resp == 3 and rnd.random() < 0.1 else b""
            yield attribute + answer
