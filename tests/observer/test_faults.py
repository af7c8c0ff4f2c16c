"""A fault stays with whom it befell; it is told by type and place, never by its text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO

import pytest
import structlog

from emqproxy import logs
from emqproxy.observer.faults import Guard


@pytest.fixture
def log() -> Iterator[StringIO]:
    stream = StringIO()
    before = structlog.get_config()
    logs.configure("info", stream)
    yield stream
    structlog.configure(**before)


def fails(secret: str) -> None:
    raise ValueError(secret)


def test_a_fault_is_counted_and_told_once_without_its_text(log: StringIO) -> None:
    guard = Guard("journal")
    for _ in range(3):
        guard.call(fails, "CANARY-token")
    assert guard.faults == 3
    (line,) = [json.loads(text) for text in log.getvalue().splitlines()]
    assert (line["consumer"], line["fault"], line["faults"]) == ("journal", "ValueError", 1)
    assert "test_faults.py" in line["where"]
    assert "CANARY" not in log.getvalue()


def test_what_does_not_fail_is_just_called(log: StringIO) -> None:
    guard, seen = Guard("x"), []
    guard.call(seen.append, 1)
    assert (seen, guard.faults, log.getvalue()) == ([1], 0, "")


def test_each_has_its_turn_whatever_one_of_them_raises() -> None:
    guard, done = Guard("x"), []

    def act(number: int) -> None:
        if number % 2:
            raise ValueError
        done.append(number)

    guard.each(act, range(6))
    assert (done, guard.faults) == ([0, 2, 4], 3)
