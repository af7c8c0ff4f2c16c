"""What `explain` tells of scenarios that were played on a real Redis: whose hand it was, and one figure for a gap."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from emqproxy import explain, explain_words
from emqproxy.explain_names import Names
from emqproxy.explain_story import JobStory, tell
from emqproxy.locks.notes import seconds
from tests.processes import eventually
from tests.proxy.hand import Hand
from tests.scenarios.play import Line, Play, calm
from tests.scripts.talk import PREFIX

TTL_MS = 400


def named(hand: Hand, name: str) -> Hand:
    hand.wire.call("CLIENT", "SETNAME", name)
    return hand


def explained(play: Play) -> tuple[JobStory, str]:
    """The job's story, as values and in words that are not wrapped."""
    key = f"{PREFIX.decode()}{play.job}"
    found = explain._of_journal(str(play.proxy.journal_path), key, 0)
    names, out = Names(), io.StringIO()
    story = tell(key, 0, found.lines, found.left_out, names, sweeps=found.sweeps)
    explain_words.write(story, found.lines, names, Console(file=out, width=100, highlight=False))
    return story, re.sub(r"\s+", " ", out.getvalue())


def age(proof: Line, call: Line) -> str:
    """From an answer to the sending of the next call, as causes tell it."""
    return seconds((call["opened_ns"] - proof["closed_ns"]) / 1e6)


@calm
def test_a_gap_is_one_figure_whoever_tells_it(play: Play) -> None:
    """Its cause, its holding, and the advice: though its worker speaks again, and later, when it has been told."""
    owner, other = named(play.owner("a:1", TTL_MS), "one"), named(play.hand(), "two")
    assert owner.renew(play.job, "a:1", TTL_MS) == 1
    play.swept_back(other)
    assert other.pick("b:1") == play.job
    assert owner.renew(play.job, "a:1", TTL_MS) == 0
    play.redis.call("SET", "a-while", "", "PX", "100")
    eventually(lambda: play.redis.call("EXISTS", "a-while") == b":0\r\n", what="the end of a while")
    assert owner.finish(play.job, "a:1") == -6
    assert other.finish(play.job, "b:1") == 0
    proof, refused = play.lines("renew")
    gap = age(proof, refused)
    story, words = explained(play)
    if refused["cause"] != "expired_worker_silent":  # of a machine so busy that this worker was silent for a second
        assert f"after {gap} without a renewal" in refused["because"]
    first, _ = story.holdings
    assert seconds(first.longest_gap_ms) == gap
    assert f"longest gap {gap} under a lock of 400 ms" in words
    assert story.advice
    for advice in story.advice:
        assert f"its longest gap was {gap} under a lock of 400 ms" in advice.words


@calm
def test_s39_names_the_hand_and_what_to_do_instead(play: Play) -> None:
    owner, other, hand = named(play.owner("a:1"), "one"), named(play.hand(), "two"), named(play.hand(), "a-hand")
    assert hand.wire.call("LREM", PREFIX + b"active", "1", play.job) == 1
    assert hand.wire.call("LREM", PREFIX + b"active", "1", play.job) == 0
    assert hand.wire.call("LPUSH", PREFIX + b"wait", play.job) == 1
    assert other.pick("b:1") == play.job
    assert owner.renew(play.job, "a:1") == 0
    assert other.finish(play.job, "b:1") == 0
    eventually(lambda: play.lines("finish"), what="its last line")
    story, words = explained(play)
    assert [event.words for event in story.events if event.op == "raw"] == [
        "a-hand takes it out of active by hand (LREM)",
        "a-hand puts it into wait by hand (LPUSH)",
    ], "what found nothing is not told"
    assert [holding.end for holding in story.holdings] == ["taken", "finish"]
    assert "double_grant: Let a-hand push no id by hand (LPUSH)" in words
    assert "p put in by hand t taken out by hand" in words


@pytest.mark.parametrize(
    ("command", "told", "advice"),
    [
        (("DEL", "{job}"), "deletes the job's hash (DEL)", "job_removed: Let a-hand remove jobs by the library"),
        (("DEL", "active"), "deletes the whole active list (DEL)", "not_in_active: Let a-hand keep off the active"),
        (("FLUSHDB",), "empties its database (FLUSHDB)", "job_removed: Let a-hand empty no queue or database"),
    ],
)
def test_what_a_hand_took_away(play: Play, command: tuple[str, ...], told: str, advice: str) -> None:
    owner, hand = named(play.owner("a:1"), "one"), named(play.hand(), "a-hand")
    name, *keys = command
    hand.wire.call(name, *(PREFIX + key.format(job=play.job).encode() for key in keys))
    assert owner.finish(play.job, "a:1") in {-1, -3}
    eventually(lambda: play.lines("finish"), what="its last line")
    _, words = explained(play)
    assert f"a-hand {told}" in words
    assert advice in words
