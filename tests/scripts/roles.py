"""Calls by role: any script of 6.x or 5.65.1, its KEYS and ARGV laid out as the layout of its release says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bullmq
import msgpack
import pytest

from emqproxy.locks.events import AnyFact
from emqproxy.records import Line
from emqproxy.scripts import layouts
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.session.exchange import Reply
from tests.processes import RedisServer
from tests.scripts.older import old_texts
from tests.scripts.talk import PREFIX, Conversation, evalsha, lock, pick

NEW, OLD = "6.x", "5.65.1"
NOW_MS = 1_700_000_000_000
LAYOUTS = layouts.load()
_TEXTS = {path.stem.rpartition("-")[0]: path for path in (Path(bullmq.__file__).parent / "commands").glob("*.lua")}
_ROLES: dict[str, Any] = {"timestamp": NOW_MS, "prefix": PREFIX, "fields": b"", "lifo": "0", "keep": "", "producer": ""}


def packed(*values: Any) -> bytes:
    return msgpack.packb(values[0] if len(values) == 1 else list(values))


class Speaker:
    """A connection that calls scripts of one release, by their roles."""

    def __init__(self, talk: Conversation, line: str) -> None:
        self.talk, self.line = talk, line
        self.redis = talk.redis

    def text(self, name: str) -> bytes:
        return old_texts()[name][0] if self.line == OLD else _TEXTS[name].read_bytes()

    def sent(self, name: str, **roles: Any) -> list[bytes | None]:
        """A call; a role that is not given stands for what a client would send there."""
        text = self.text(name)
        assert isinstance(self.redis("SCRIPT", "LOAD", text), bytes)
        script = self.talk.catalogue.identify(text)
        assert script is not None
        layout = layouts.in_range(LAYOUTS[name, script.arity], *script.releases.split("-"))
        assert layout is not None
        job = roles.get("job_id")
        values = _ROLES | ({} if job is None else {"job": PREFIX + str(job).encode()}) | roles
        keys = [_bytes(values.get(role, PREFIX + _suffix(role))) for role in layout.row.keys]
        args: list[object] = []
        for role in layout.row.args:
            value = values.get(role.removesuffix("…"), "0")
            args += value if isinstance(value, list) else [value]
        return evalsha(hashlib.sha1(text).hexdigest().encode(), keys, *args)

    def happenings(self, name: str, **roles: Any) -> list[tuple[AnyFact, Line | None]]:
        found = self.talk.ask(self.sent(name, **roles))
        return [(happening.fact, happening.line) for happening in found]

    def one(self, name: str, **roles: Any) -> tuple[AnyFact, Line]:
        """A call with one fact and its line."""
        ((fact, line),) = self.happenings(name, **roles)
        assert line is not None
        return fact, line

    def token_of(self, job: str) -> Reply:
        return self.redis("GET", lock(job).key)

    def held(self, job: str = "1", token: str = "a:1") -> None:
        """A job in active, held by a token."""
        self.talk.add(job)
        options = packed({"token": token, "lockDuration": 30_000})
        if self.line == NEW:
            assert isinstance(self.redis("SCRIPT", "LOAD", self.text("moveToActive")), bytes)
            self.talk.ask(pick(token))
        else:
            self.talk.ask(self.sent("moveToActive", packed_options=options))
        assert self.token_of(job) == token.encode()


def _suffix(role: str) -> bytes:
    return layouts.SUFFIXES[role][0].removeprefix(b":") if role in layouts.SUFFIXES else role.encode()


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def speakers(request: pytest.FixtureRequest, server: RedisServer, catalogue: Catalogue) -> Iterator[Speaker]:
    """For a fixture with the params NEW and OLD."""
    talk = Conversation(server.port, catalogue)
    yield Speaker(talk, request.param)
    talk.close()
