"""The journal is read as it grows: each line once, and none before it is whole. The rest is tried by test_story."""

from __future__ import annotations

from pathlib import Path

from emqproxy.demo.stage import JournalReader


def test_each_line_is_read_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    journal = JournalReader(path)
    assert list(journal.new()) == [], "it is not there yet"
    with path.open("ab", buffering=0) as file:
        file.write(b'{"seq":1}\n{"seq":2}\n{"se')
        assert [line["seq"] for line in journal.new()] == [1, 2]
        assert list(journal.new()) == []
        file.write(b'q":3}\n')
        assert [line["seq"] for line in journal.new()] == [3]
