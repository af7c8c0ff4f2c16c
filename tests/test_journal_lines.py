"""A journal's lines, read: whole ones, and what is none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from emqproxy.journal_lines import LINE_BYTES_MAX, JournalLine, LineReader, raw_lines
from tests.observer.records_factory import Story, blind
from tests.shadowed import write_journal


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


def test_of_a_line_without_end_the_beginning_alone_is_held() -> None:
    long = b"x" * (2 * LINE_BYTES_MAX + 5)
    assert list(raw_lines(io.BytesIO(b"a\n" + long + b"\nb"))) == [b"a\n", b"x" * LINE_BYTES_MAX, b"b"]
