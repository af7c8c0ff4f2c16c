"""A worker by hand for fault tests: one connection, calls of the published texts, answers as they are, errors too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import hiredis

from emqproxy.locks.verdicts import Finding
from tests.e2e.dialects import Wire, job_id
from tests.processes import EmqProxy, RedisServer
from tests.scripts import talk
from tests.scripts.talk import PREFIX, text_of

GRAVE = frozenset(finding.word for finding in Finding if finding < Finding.DOUBTFUL)
TTL_MS = 60_000
"""Outlasts any test: a lapse that is told of it is untrue."""


def add(redis: RedisServer, job: str) -> None:
    """A waiting job, straight into Redis."""
    redis.call("HSET", PREFIX + job.encode(), "name", "n", "data", "{}", "opts", "{}", "timestamp", "1")
    redis.call("LPUSH", PREFIX + b"wait", job)


class Hand:
    """Its errors are values, so that they can be held against those that Redis gives directly."""

    def __init__(self, port: int) -> None:
        self.wire = Wire(port)

    def call(self, label: str, call: list[Any]) -> Any:
        """One script, as EVAL; `call` is one of `talk`'s."""
        return self.answer(self.wire.call("EVAL", text_of(label), *call[2:]))

    def ask(self, label: str, call: list[Any]) -> None:
        """Sends it only; `read` gives the answer."""
        self.wire.write(("EVAL", text_of(label), *call[2:]))

    def read(self) -> Any:
        return self.answer(self.wire.read())

    @staticmethod
    def answer(reply: Any) -> Any:
        return str(reply) if isinstance(reply, hiredis.ReplyError) else reply

    def pick(self, token: str = "t", ttl_ms: int = TTL_MS) -> str | None:
        """The job's id."""
        return job_id(self.call("moveToActive-11", talk.pick(token, ttl_ms)))

    def renew(self, job: str = "1", token: str = "t", ttl_ms: int = TTL_MS) -> Any:
        return self.call("extendLock-2", talk.renew(job, token, ttl_ms))

    def finish(self, job: str = "1", token: str = "t") -> Any:
        return self.call("moveToFinished-14", talk.finish(job, token))

    def close(self) -> None:
        self.wire.close()


@contextlib.contextmanager
def hand(port: int) -> Iterator[Hand]:
    made = Hand(port)
    try:
        yield made
    finally:
        made.close()


def untrue(proxy: EmqProxy) -> list[dict[str, Any]]:
    """Lines that suspect somebody, or tell a lapse: of an honest worker whose lock outlasts the test there are none."""
    return [line for line in proxy.journal() if line["finding"] in GRAVE or line["op"] == "lapse"]


def wait_line(proxy: EmqProxy, **fields: Any) -> dict[str, Any]:
    return proxy.wait_journal(lambda line: all(line[name] == value for name, value in fields.items()))
