"""A story on a terminal: no line wider than it, no escape of a client's, figures with their units."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from emqproxy import explain_words
from emqproxy.explain_names import Names
from emqproxy.explain_story import tell
from emqproxy.explain_words import EVENTS_MAX
from emqproxy.journal_lines import JournalLine
from tests.locks.test_hands import raw
from tests.observer.records_factory import OTHER_TOKEN, Story
from tests.test_explain_story import JOB, lost, read


def shown(lines: list[JournalLine], width: int = 80, left_out: int = 0) -> str:
    names, out = Names(), io.StringIO()
    story = tell(JOB, 0, lines, left_out, names)
    explain_words.write(story, lines, names, Console(file=out, width=width, highlight=False))
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    out = shown(lost(tmp_path), width)
    assert max(map(len, out.splitlines())) <= width
    assert "What to change" in out
    assert "▶" in out
    assert not any(line.rstrip().endswith(("41.0", "30.0")) for line in out.splitlines())


def test_a_healthy_job(tmp_path: Path) -> None:
    story = Story()
    out = shown(read(tmp_path, story.acquire(0), story.renew(10_000), story.finish(12_000)), left_out=3)
    assert "Nothing went wrong with its lock, as far as was seen." in out
    assert "3 of its lines were not kept" in out
    one = shown(read(tmp_path, Story().acquire(0)), left_out=1)
    assert "1 of its lines was not kept" in one


def test_a_job_that_was_lost_without_a_word(tmp_path: Path) -> None:
    story, other = Story(), Story(token=OTHER_TOKEN)
    out = shown(read(tmp_path, story.acquire(0), story.lapse(30_000), other.acquire(40_000), other.finish(41_000)))
    assert "Nothing went wrong" not in out
    words = " ".join(out.split())
    assert "Nobody was refused; but emq:b3JkZXJz:w:one lost the lock without a word: it ended, hung, or lost" in words


def test_a_terminal_does_not_act_upon_names(tmp_path: Path) -> None:
    assert "\x1b" not in shown([replace(line, client_name="\x1b[31mred") for line in lost(tmp_path)])


def test_of_a_long_story_the_middle_is_left_out(tmp_path: Path) -> None:
    story = Story()
    messages = [message for at in range(EVENTS_MAX) for message in (story.acquire(at * 10), story.finish(at * 10 + 5))]
    out = shown(read(tmp_path, *messages))
    assert f"… {2 * EVENTS_MAX - EVENTS_MAX} more; --json has them all" in out


def test_days_are_told_where_there_are_two(tmp_path: Path) -> None:
    story = Story()
    out = shown(read(tmp_path, story.acquire(0), story.finish(86_400_000)))
    assert "  11-30 00:53:20  " in out
    assert "  12-01 00:53:20  " in out
    assert "held it from 11-30 00:53:20 to 12-01 00:53:20 (finish)" in " ".join(out.split())


def test_who_was_told_that_it_holds_nothing_does_not_still_hold_it(tmp_path: Path) -> None:
    story = Story()
    out = " ".join(shown(read(tmp_path, story.acquire(0), story.finish_refused(5_000))).split())
    assert "held it from 00:53:20.000 to 00:53:25.000 at the latest (refused)" in out
    assert "still does" not in out


def test_a_cause_that_is_told_again_in_the_same_words_is_said_to_be(tmp_path: Path) -> None:
    story = Story()
    lines = read(tmp_path, story.acquire(0), story.renew_refused(40_000), story.finish_refused(41_000))
    why = {"cause": "retaken", "because": "It was taken."}
    lines[1:] = [replace(line, **why) for line in lines[1:]]
    out = shown(lines)
    assert out.count("retaken: It was taken.") == 1
    assert out.count("retaken: the same.") == 1
    assert shown([*lines[:2], replace(lines[2], because="Otherwise.")]).count("the same") == 0


def test_a_lock_that_was_taken_away_did_not_go_well(tmp_path: Path) -> None:
    story = Story()
    lines = read(tmp_path, story.acquire(0))
    wipe = raw("FLUSHDB", None, op="wipe", effect="wiped", job=None, closed_ns=lines[0].closed_ns + 1)
    out = " ".join(shown([*lines, replace(wipe, time=lines[0].time, run=lines[0].run)]).split())
    assert "Nothing went wrong" not in out
    assert "lost the lock without a word: it was taken away, as told above" in out


@pytest.mark.parametrize("outcome", ["ok", "error"])
def test_a_hand_that_harmed_nobody_yet_is_pointed_at(tmp_path: Path, outcome: str) -> None:
    story = Story()
    lines = read(tmp_path, story.acquire(0), story.finish(10))
    hand = raw("LREM", "active", outcome=outcome, code=1, time=lines[0].time, run=lines[0].run)
    out = " ".join(shown([lines[0], hand, lines[1]]).split())
    assert "as far as was seen; but see above what was done by hand." in out
