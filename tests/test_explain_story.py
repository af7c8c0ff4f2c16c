"""A job's lines become its story: who held it, with which gaps, what was refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emqproxy.explain_story import JobStory, tell
from emqproxy.journal_lines import JournalLine, LineReader
from emqproxy.locks.verdicts import Grade
from emqproxy.records import Message
from tests.observer.records_factory import OTHER_TOKEN, Numbers, Story
from tests.shadowed import write_journal

JOB = "emq:orders:42"


def read(folder: Path, *messages: Message) -> list[JournalLine]:
    reader = LineReader(JournalLine)
    lines = [reader.read(raw) for raw in write_journal(folder / "j", *messages).read_bytes().splitlines()]
    return [line for line in lines if line is not None]


def told(lines: list[JournalLine]) -> JobStory:
    return tell(JOB, 0, lines)


def words(story: JobStory) -> list[str]:
    return [event.words for event in story.events]


def lost(folder: Path) -> list[JournalLine]:
    numbers = Numbers()
    first, second = Story(numbers=numbers), Story(token=OTHER_TOKEN, numbers=numbers)
    lines = read(
        folder, first.acquire(0), first.renew(10_000), first.renew(20_000), first.lapse(50_031), first.reap(60_000),
        second.acquire(60_001), first.finish_refused(61_000), second.finish(62_000),
    )  # fmt: skip
    refusal: dict[str, Any] = {"cause": "retaken", "because": "Taken.", "evidence": (3, 6), "seq": 7}
    lines[6] = replace(lines[6], **refusal)
    return [replace(line, client_name="two" if line.seq in {6, 8} else "one") for line in lines]


def test_a_job_that_was_lost(tmp_path: Path) -> None:
    story = told(lost(tmp_path))
    assert words(story) == [
        "one is given it; the lock lives 30.0 s",
        "one renews, 2 times in a row, up to 00:53:40.000",
        "the lock of one lapses: 0 ms without a renewal",
        "a sweep by one finds it without a lock: back to wait",
        "two is given it; the lock lives 30.0 s",
        "one: finish (completed) refused: -6 JobLockMismatch",
        "two finishes it (completed)",
    ]
    first, second = story.holdings
    assert (first.who, first.renewals, first.end, first.longest_gap_ms) == ("one", 2, "lapse", 40_999.6)
    assert (second.who, second.renewals, second.end) == ("two", 0, "finish")
    assert [each.cause for each in story.advice] == ["retaken"]
    assert "above 82 s" in story.advice[0].words


def test_a_late_renewal_stands_by_itself(tmp_path: Path) -> None:
    story = Story()
    lines = read(tmp_path, story.acquire(0), story.renew(20_000, Grade.LATE), story.finish(21_000))
    lines[1] = replace(lines[1], cause="renewal_late", because="Late.")
    assert words(told(lines))[1] == "emq:b3JkZXJz:w:one renews late, 20.0 s after its last proof"


def test_a_pickup_that_was_not_seen(tmp_path: Path) -> None:
    story = Story()
    lines = read(tmp_path, story.acquire(0), story.renew(10_000))[1:]
    (holding,) = told(lines).holdings
    assert (holding.seen, holding.renewals, holding.end) == (False, 1, None)


def test_two_releases_sweep(tmp_path: Path) -> None:
    story = Story()
    lines = read(tmp_path, story.acquire(0), story.reap(60_000), story.reap(90_000))
    lines[2] = replace(lines[2], script="moveStalledJobsToWait-9")
    assert "Two releases sweep this queue (moveStalledJobsToWait-8 and " in told(lines).advice[-1].words


def test_no_lines_no_story() -> None:
    story = told([])
    assert (story.events, story.holdings, story.advice, story.lines) == ([], [], [], 0)


def test_a_refusal_that_disproves_the_holding_ends_it(tmp_path: Path) -> None:
    story = Story()
    lines = read(tmp_path, story.acquire(0), story.finish_refused(5_000))
    for effect, code, ends in (("absent", -2, True), ("not_mine", 0, True), ("released", -3, True),
                               ("no_proof", -1, True), ("no_proof", -4, False)):  # fmt: skip
        said = replace(lines[1], effect=effect, code=code)
        (holding,) = told([lines[0], said]).holdings
        assert (holding.end, holding.ended) == (("refused", said.time) if ends else (None, None)), effect
    (holding,) = told([lines[0], replace(lines[1], outcome="error", effect="no_proof", code=None)]).holdings
    assert holding.end is None


def test_two_clients_with_one_token_are_two(tmp_path: Path) -> None:
    """The first held it before; the second took it with the same token, and finished it."""
    numbers = Numbers()
    first, second = Story(numbers=numbers), Story(numbers=numbers)
    lines = read(
        tmp_path, first.acquire(0), first.lapse(30_031), first.reap(60_000), second.acquire(60_001),
        second.renew(61_000), second.finish(62_000),
    )  # fmt: skip
    spoken = ["raw-a", None, "sweeper", "raw-b", "raw-b", "raw-b"]
    lines = [
        replace(line, client_name=name, client=name and f"127.0.0.1:{len(name)}{name[-1]}")
        for line, name in zip(lines, spoken, strict=True)
    ]
    story = told(lines)
    assert [event.who for event in story.events] == ["raw-a", "raw-a", "sweeper", "raw-b", "raw-b", "raw-b"]
    one, two = story.holdings
    assert (one.who, one.renewals, one.end, one.longest_gap_ms) == ("raw-a", 0, "lapse", 0)
    assert (two.who, two.renewals, two.end) == ("raw-b", 1, "finish")


def test_who_renews_with_the_token_of_another_holds_it_from_then_on(tmp_path: Path) -> None:
    story = Story()
    lines = read(tmp_path, story.acquire(0), story.renew(10_000))
    lines[1] = replace(lines[1], client_name="two")
    one, two = told(lines).holdings
    assert (one.end, one.ended, two.who, two.seen, two.end) == ("taken", lines[1].time, "two", False, None)


def test_a_long_name_is_told_short_wherever_it_stands(tmp_path: Path) -> None:
    story, long = Story(), "w" * 4_000
    lines = [replace(line, client_name=long) for line in read(tmp_path, story.acquire(0), story.finish_refused(9))]
    lines[1] = replace(lines[1], cause="lock_deleted_by", because=f"{long} deleted it.")
    told_short = told(lines)
    said = [*words(told_short), *(event.because or "" for event in told_short.events)]
    said += [each.words for each in told_short.advice] + [holding.who for holding in told_short.holdings]
    assert len(said) == 6
    assert max(map(len, said)) < 250
    assert said[3] == f"{'w' * 40}…{'w' * 15} deleted it."


def test_a_sidecar_that_was_started_again_is_told_and_makes_no_gap(tmp_path: Path) -> None:
    story = Story()
    first, renewed, later, refused, finish = read(
        tmp_path, story.acquire(0), story.renew(10_000), story.renew(11_000), story.finish_refused(60_000),
        story.finish_refused(61_000),
    )  # fmt: skip
    ago = 10**15
    again = [replace(line, run="two", opened_ns=line.opened_ns - ago, closed_ns=line.closed_ns - ago, age_ms=None)
             for line in (later, refused, finish)]  # fmt: skip
    story_told = told([first, renewed, *again])
    assert [(event.op, event.words) for event in story_told.events][1:4] == [
        ("renew", "emq:b3JkZXJz:w:one renews"),
        ("start", "emqproxy was started again"),
        ("renew", "emq:b3JkZXJz:w:one renews"),
    ]
    (holding,) = story_told.holdings
    assert (holding.renewals, holding.longest_gap_ms, holding.end) == (2, 48_999.6, "refused")
    (holding,) = told([first, renewed, *again[1:]]).holdings
    assert (holding.longest_gap_ms, holding.end) == (9_999.6, "refused")


def test_two_sidecars_that_write_one_journal_are_no_restart(tmp_path: Path) -> None:
    story = Story()
    first, renewed, finish = read(tmp_path, story.acquire(0), story.renew(10_000), story.finish(11_000))
    mixed = told([first, replace(renewed, run="two"), finish])
    assert [event.op for event in mixed.events] == ["acquire", "renew", "finish"]
