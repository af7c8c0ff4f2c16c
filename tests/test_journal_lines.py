"""A journal's lines, read: whole ones, and what is none."""

from __future__ import annotations

import copy
import functools
import io
import json
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from emqproxy.journal_lines import LINE_BYTES_MAX, JournalLine, LineReader, raw_lines
from tests.observer.records_factory import Story, blind
from tests.shadowed import write_journal

FIGURES: Final = frozenset({"age_ms", "remaining_ms", "idle_ms", "late", "critical"})
"""Which need not be whole numbers."""


def test_a_line_as_the_journal_writes_it(tmp_path: Path) -> None:
    story, reader = Story(), LineReader(JournalLine)
    path = write_journal(tmp_path / "j", story.acquire(0), blind(story.numbers, 5))
    taken, gone = [reader.read(raw) for raw in path.read_bytes().splitlines()]
    assert taken is not None
    assert gone is not None
    assert (taken.key, taken.who, taken.effect) == ("emq:orders:42", "emq:b3JkZXJz:w:one", "granted")
    assert (taken.replay.request, taken.replay.asked_ttl_ms) == (1, 30_000)
    assert (gone.key, gone.op, gone.who) == (None, "blind", "unix:7")
    assert (reader.other_versions, reader.unreadable) == (0, 0)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        (b"\n", (0, 0)),
        (b"{", (0, 1)),
        (b'{"v":1}', (0, 1)),
        (b"\xff\xfe", (0, 1)),
        (b"[" * 100_000, (0, 1)),
        (b'{"v":2,"other":1}', (1, 0)),
        (b'{"event":"log"}', (0, 1)),
    ],
)
def test_what_is_none_is_counted(line: bytes, counts: tuple[int, int]) -> None:
    reader = LineReader(JournalLine)
    assert reader.read(line) is None
    assert (reader.other_versions, reader.unreadable) == counts


@pytest.mark.parametrize("far", [10**400, -(10**400), 2**63, -(2**63) - 1, 1e308, -1e308])
def test_numbers_that_nothing_can_be_reckoned_with_are_no_line_s(far: float, tmp_path: Path) -> None:
    raw = write_journal(tmp_path / "j", Story().acquire(0)).read_bytes()
    line = json.loads(raw)
    beside = {"effect": "wiped", "conn": 1, "request": 1, "opened_ns": 1, "closed_ns": 2}
    judged = {"late": 0.6, "critical": 0.8, "sole_path": True, "locks": 9, "began_ns": 1}
    more = {"pauses": [[1, 2]], "memory": [[1, "noeviction", 2, 3]], "besides": [beside], "judged": judged}
    numbers = {name: 1 for name, kind in JournalLine.__annotations__.items() if "Int64" in kind or "Figure" in kind}
    line |= numbers | {"evidence": [1], "replay": {**line["replay"], **more}}
    places = list(_numbers(line))
    assert LineReader(JournalLine).read(json.dumps(line).encode()) is not None
    assert len(places) > 30
    for *where, last in places:
        if (*where, last) == ("v",) or (abs(far) < 1e19 and last in FIGURES):
            continue
        held = copy.deepcopy(line)
        inner = functools.reduce(operator.getitem, where, held)
        inner[last] = far
        reader = LineReader(JournalLine)
        assert reader.read(json.dumps(held).encode()) is None, (where, last)
        assert reader.unreadable == 1


@pytest.mark.parametrize("time", ["", "noon", "\x1b[31m", "2026-02-30T00:00:00Z", "2026-11-30T00:00:00+00:00", "0"])
def test_a_time_that_is_none(time: str, tmp_path: Path) -> None:
    line = json.loads(write_journal(tmp_path / "j", Story().acquire(0)).read_bytes())
    reader = LineReader(JournalLine)
    assert reader.read(json.dumps({**line, "time": time}).encode()) is None
    assert reader.unreadable == 1
    assert reader.read(json.dumps({**line, "time": "2028-02-29T23:59:59.5Z"}).encode()) is not None


def _numbers(held: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each number in it."""
    if isinstance(held, dict | list):
        for name, inner in held.items() if isinstance(held, dict) else enumerate(held):
            yield from _numbers(inner, (*where, name))
    elif isinstance(held, int | float) and not isinstance(held, bool):
        yield where


def test_of_a_line_without_end_the_beginning_alone_is_held() -> None:
    long = b"x" * (2 * LINE_BYTES_MAX + 5)
    assert list(raw_lines(io.BytesIO(b"a\n" + long + b"\nb"))) == [b"a\n", b"x" * LINE_BYTES_MAX, b"b"]
