"""A stretch of a journal is played as it was: by its instants, whatever the order in which it was told."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from emqproxy.journal_lines import JournalLine, LineReader
from emqproxy.locks.verdicts import Grade
from emqproxy.observer.journal_replay import JudgedBy
from emqproxy.records import Message
from emqproxy.replay_run import Again, RunPart
from tests.observer.records_factory import OTHER_TOKEN, Numbers, Story
from tests.shadowed import write_journal


def lines(folder: Path, *messages: Message) -> list[JournalLine]:
    reader = LineReader(JournalLine)
    read = [reader.read(raw) for raw in write_journal(folder / "j", *messages).read_bytes().splitlines()]
    return [line for line in read if line is not None]


def played(told: list[JournalLine], *, whole: bool = True) -> list[Again]:
    stretch = RunPart(None, whole=whole)
    early = [again for line in told for again in stretch.take(line)]
    return early + stretch.end()


def words(told: list[Again]) -> list[tuple[str, str | None, str | None]]:
    found = []
    for again in told:
        verdict = again.verdict
        grade = verdict.grade.value if verdict is not None and verdict.grade is not None else None
        finding = verdict.finding.word if verdict is not None and verdict.finding is not None else None
        found.append((again.line.op, finding, grade))
    return found


def test_a_healthy_attempt(tmp_path: Path) -> None:
    story = Story()
    told = played(lines(tmp_path, story.acquire(0), story.renew(15_000), story.renew(34_000), story.finish(40_000)))
    assert words(told) == [
        ("acquire", "sound", None), ("renew", "sound", "on_time"), ("renew", "sound", "late"), ("finish", "sound", None)
    ]  # fmt: skip
    assert [again.found.cause if again.found else None for again in told] == [None, None, "renewal_late", None]


def test_a_line_that_was_told_late_is_weighed_in_its_place(tmp_path: Path) -> None:
    story = Story()
    acquired, renewed, finished = lines(tmp_path, story.acquire(0), story.renew(15_000), story.finish(16_000))
    told = played([acquired, replace(finished, seq=2), replace(renewed, seq=3)])
    assert words(told) == [("acquire", "sound", None), ("finish", "sound", None), ("renew", "sound", "on_time")]


def test_what_was_sent_while_another_was_out_is_not_accused(tmp_path: Path) -> None:
    """The second pickup was under way when the first holder finished: it is told first, and is no double one."""
    numbers = Numbers()
    first, second = Story(numbers=numbers), Story(token=OTHER_TOKEN, numbers=numbers)
    taken, finished, again = lines(tmp_path, first.acquire(0), first.finish(5), second.acquire(4.9))
    assert words(played([taken, finished, replace(again, conn=8)]))[2] == ("acquire", "sound", None)
    late = replace(again, conn=8, opened_ns=finished.opened_ns - 3_000_000, closed_ns=finished.opened_ns - 2_000_000)
    assert words(played([taken, finished, late]))[2] == ("acquire", "double", None)


def test_the_thresholds_are_those_of_the_run(tmp_path: Path) -> None:
    story = Story()
    told = lines(tmp_path, story.acquire(0), story.renew(15_000, Grade.LATE))
    first = replace(told[0], replay=replace(told[0].replay, judged=JudgedBy(0.4, 0.8, False, 9, 1)))
    assert words(played([first, told[1]]))[1] == ("renew", "sound", "late")


def test_after_a_gap_a_job_is_known_from_its_first_pickup_on(tmp_path: Path) -> None:
    numbers = Numbers()
    story, again = Story(numbers=numbers), Story(token=OTHER_TOKEN, numbers=numbers)
    other = Story(job=b"43", token=OTHER_TOKEN, numbers=numbers)
    told = lines(
        tmp_path, story.acquire(0), story.renew(1), story.finish(2), again.acquire(3), again.finish(4),
        other.acquire(5), other.finish(6),
    )[1:]  # fmt: skip
    assert [each.comparable for each in played(told, whole=False)] == [False] * 5 + [True]
    assert [each.comparable for each in played(told)] == [True] * 6


def test_a_line_of_a_lock_that_is_no_jobs_is_not_compared(tmp_path: Path) -> None:
    """A call with keys of no queue: of which lock it was, is not told."""
    story = Story()
    told = lines(tmp_path, story.acquire(0), story.finish(1))
    told[1] = replace(told[1], prefix=None, queue=None, job=None)
    assert [again.comparable for again in played(told)] == [True, False]


def test_a_lapse_is_made_by_time_alone(tmp_path: Path) -> None:
    story = Story()
    told = lines(tmp_path, story.acquire(0), story.lapse(30_031))
    opened = told[0].opened_ns + 30_000_000_000
    gone = told[0].closed_ns + 30_000_000_000 + 31_000_000
    lapse = replace(told[1], opened_ns=opened, closed_ns=gone)
    assert words(played([told[0], lapse])) == [("acquire", "sound", None), ("lapse", "sound", None)]
    stretch = RunPart(None, whole=True)
    for line in (told[0], replace(lapse, closed_ns=gone + 1)):
        stretch.take(line)
    assert words(stretch.end())[1] == ("lapse", None, None)
    assert len(stretch.lapses_untold) == 1
