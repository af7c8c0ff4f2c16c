"""A session fed with a real conversation: the same bytes go to a real Redis and through the pairing."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterable, Sequence

from emqproxy.session.exchange import Command, Exchange
from emqproxy.session.session import Session
from emqproxy.wire.alike import StrangerRule
from tests.processes import RedisServer

MARK = "return {ARGV[1], redis.call('GET', 'whoami') or '0'}"
"""Answers with the number it was called with and the database it ran in (`prepare` wrote that there)."""


def words(*parts: str | bytes | int) -> bytes:
    encoded = [p if isinstance(p, bytes) else str(p).encode() for p in parts]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in encoded)


def mark(number: int) -> bytes:
    return words("EVAL", MARK, 0, number)


def prepare(redis: RedisServer) -> None:
    """Each database knows its number."""
    with socket.create_connection(("127.0.0.1", redis.port), timeout=5) as s:
        s.sendall(b"".join(words("SELECT", db) + words("SET", "whoami", db) for db in range(4)))
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass


def converse(redis: RedisServer, data: bytes) -> bytes:
    """All that Redis answers to all of it; it closes when it has answered what came before our half-close."""
    got = bytearray()
    with socket.create_connection(("127.0.0.1", redis.port), timeout=5) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        try:
            while piece := s.recv(1 << 20):
                got += piece
        except ConnectionResetError:
            pass
    return bytes(got)


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


class Fed:
    """A session that keeps every command of interest, and what came out of it."""

    def __init__(self, strangers: StrangerRule | None = None) -> None:
        self.session = Session(strangers=strangers)
        self.commands: list[Command] = []
        self.exchanges: list[Exchange] = []
        self.now = 0

    def client(self, *data: bytes) -> Fed:
        for piece in data:
            self.now += 1
            for command in self.session.from_client(piece, self.now):
                self.session.keep(command, words=True)
                self.commands.append(command)
        return self

    def server(self, *data: bytes) -> Fed:
        for piece in data:
            self.now += 1
            self.exchanges += self.session.from_server(piece, self.now)
        return self

    def end(self) -> Fed:
        self.now += 1
        self.exchanges += self.session.end(self.now)
        return self

    @property
    def answers(self) -> list[object]:
        return [x.reply for x in self.exchanges]


def numbers(commands: Sequence[Command]) -> list[int]:
    return [int(c.words[3] or b"-1") for c in commands]
