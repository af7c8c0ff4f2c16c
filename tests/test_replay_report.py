"""Runs, gaps and differences of a whole journal."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from emqproxy.journal_lines import JournalLine, LineReader
from emqproxy.locks.verdicts import Finding
from emqproxy.replay_report import RUNS_MAX, Difference, Rejudging
from tests.observer.records_factory import Story
from tests.shadowed import write_journal


def lines(folder: Path, run: str = "run one") -> list[JournalLine]:
    story, reader, path = Story(), LineReader(JournalLine), folder / run
    write_journal(path, story.acquire(0), story.renew(5_000), story.finish(9_000), run=run)
    read = [reader.read(raw) for raw in path.read_bytes().splitlines()]
    taken, renewed, finished = [line for line in read if line is not None]
    return [taken, renewed, replace(finished, age_ms=3_999.6)]


def judged(told: list[JournalLine]) -> tuple[Rejudging, list[Difference]]:
    rejudging = Rejudging()
    found = [difference for line in told for difference in rejudging.on(line)]
    return rejudging, [*found, *rejudging.end()]


def test_a_whole_run_without_a_difference(tmp_path: Path) -> None:
    rejudging, found = judged(lines(tmp_path))
    assert (found, rejudging.notes) == ([], [])
    counts = rejudging.counts
    assert (counts.lines, counts.judged, counts.differing, counts.unseen, counts.runs) == (3, 3, 0, 0, 1)


def test_each_word_that_differs(tmp_path: Path) -> None:
    taken, renewed, finished = lines(tmp_path)
    renewed = replace(renewed, finding=Finding.DOUBTFUL.word, grade="late", cause="renewal_late")
    finished = replace(finished, age_ms=7.0, ttl_ms=5)
    rejudging, found = judged([taken, renewed, finished])
    assert [(each.line.seq, each.what, each.then, each.now) for each in found] == [
        (2, "finding", "doubtful", "sound"),
        (2, "grade", "late", "on_time"),
        (2, "cause", "renewal_late", "none"),
        (3, "age_ms", "7.000", "3999.600"),
        (3, "ttl_ms", "5", "unknown"),
    ]
    assert [each.is_verdict for each in found] == [True, True, True, False, False]
    assert (rejudging.counts.differing, rejudging.counts.figures) == (1, 1)


def test_after_a_gap_nothing_is_compared_that_rests_on_it(tmp_path: Path) -> None:
    taken, _, finished = lines(tmp_path)
    rejudging, found = judged([taken, finished])
    assert found == []
    assert rejudging.notes == ["run run one: 1 line is missing after line 1: no lease is known there"]
    assert (rejudging.counts.judged, rejudging.counts.unseen) == (1, 1)


def test_a_journal_that_begins_in_the_middle(tmp_path: Path) -> None:
    rejudging, found = judged(lines(tmp_path)[1:])
    assert found == []
    assert rejudging.notes == ["run run one is here from its line 2 on: no lease is known there"]
    assert rejudging.counts.unseen == 2


def test_runs_that_are_mixed_are_judged_each_by_itself(tmp_path: Path) -> None:
    told = [line for both in zip(lines(tmp_path), lines(tmp_path, "run two"), strict=True) for line in both]
    rejudging, found = judged(told)
    assert (found, rejudging.notes, rejudging.counts.runs) == ([], [], 2)


def test_of_many_runs_the_oldest_is_at_its_end(tmp_path: Path) -> None:
    starts = [line for at in range(RUNS_MAX + 1) for line in lines(tmp_path, f"run {at}")[:2]]
    rejudging, found = judged([*starts, *lines(tmp_path, "run 0 ")[:0], lines(tmp_path, "run 0x")[0]])
    assert (found, rejudging.counts.runs) == ([], RUNS_MAX + 2)
    again = replace(lines(tmp_path, "run y")[2], run="run 0")
    list(rejudging.on(replace(again, seq=3)))
    assert len(rejudging._runs) <= RUNS_MAX  # what is held is bounded


def test_calls_whose_tokens_are_not_told_are_counted(tmp_path: Path) -> None:
    rejudging, _ = judged([replace(line, token=None) for line in lines(tmp_path)])
    assert (rejudging.counts.proofs, rejudging.counts.tokenless) == (2, 2)


def test_bytes_are_read_as_lines_are(tmp_path: Path) -> None:
    rejudging = Rejudging()
    for line in lines(tmp_path):
        assert list(rejudging.take(msgspec.json.encode(line))) == []
    assert list(rejudging.take(b"torn")) == []
    assert (rejudging.counts.lines, rejudging.reader.unreadable) == (3, 1)
