"""A story with a hole in it, in another order, or with the wrong holder is not taken for whole."""

from __future__ import annotations

from typing import Any

import pytest

from emqproxy.demo.expected import (
    FINISH,
    LAPSE,
    PICKUP,
    REFUSAL,
    RENEWAL,
    STEPS,
    SWEEP,
    TAKEOVER,
    Progress,
    Seen,
    Story,
)
from emqproxy.demo.plan import HEALTHY, JOBS, KILLED, LOCK_MS, ROBBED, SLOW, STUCK, job_id, played
from tests.demo.lines import told

STEP_OF_EACH = [(job, step.name) for job in JOBS for step in STEPS[job]]


def index(job: str, name: str) -> int:
    return [step.name for step in STEPS[job]].index(name)


def seen(job: str, lines: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """The steps that the lines show, in that order, and what is missing."""
    progress = Progress(job)
    return [step.step for line in lines for step in progress.see(line)], progress.missing()


def test_every_job_has_its_steps() -> None:
    assert set(STEPS) == set(JOBS)
    for steps in STEPS.values():
        names = [step.name for step in steps]
        assert len(names) == len(set(names))
        assert (names[0], names[-1]) == (PICKUP, FINISH)
        for place, step in enumerate(steps):
            assert all(other in names[:place] for other in (step.after, step.whose, step.other_than) if other)


@pytest.mark.parametrize("job", JOBS)
def test_the_whole_story_has_each_step_and_nothing_missing(job: str) -> None:
    assert seen(job, told(job)) == ([step.name for step in STEPS[job]], [])


@pytest.mark.parametrize(("job", "name"), STEP_OF_EACH)
def test_what_is_left_out_is_missing(job: str, name: str) -> None:
    lines, step = told(job), STEPS[job][index(job, name)]
    del lines[index(job, name)]
    missing = seen(job, lines)[1]
    assert step.words in missing or (name == PICKUP and missing), "without the first pickup the next one is the first"


@pytest.mark.parametrize(("job", "name"), STEP_OF_EACH)
def test_each_field_counts(job: str, name: str) -> None:
    step = STEPS[job][index(job, name)]
    for field in step.fields:
        lines = told(job)
        lines[index(job, name)][field] = "another"
        missing = seen(job, lines)[1]
        assert step.words in missing or (name == PICKUP and missing), field


@pytest.mark.parametrize("job", [ROBBED, STUCK, KILLED])
def test_the_same_token_is_no_takeover(job: str) -> None:
    lines = told(job)
    lines[index(job, TAKEOVER)]["token"] = "first"
    assert STEPS[job][index(job, TAKEOVER)].words in seen(job, lines)[1]


@pytest.mark.parametrize("job", [ROBBED, STUCK, KILLED])
def test_a_finish_by_the_first_holder_is_not_the_other_s(job: str) -> None:
    lines = told(job)
    lines[index(job, FINISH)]["token"] = "first"
    assert seen(job, lines)[1] == ["the finish by the other"]


def test_a_refusal_of_the_second_holder_is_not_the_first_one_s() -> None:
    lines = told(STUCK)
    lines[index(STUCK, REFUSAL)]["token"] = "other"
    assert "the refusal of the late finish with -6" in seen(STUCK, lines)[1]


@pytest.mark.parametrize("job", JOBS)
def test_a_story_in_the_wrong_order_is_not_whole(job: str) -> None:
    assert seen(job, told(job)[::-1])[1]


@pytest.mark.parametrize("job", [ROBBED, STUCK, KILLED])
def test_the_next_pickup_may_be_heard_of_before_the_sweep(job: str) -> None:
    lines = told(job)
    sweep, takeover = index(job, SWEEP), index(job, TAKEOVER)
    lines[sweep], lines[takeover] = lines[takeover], lines[sweep]
    assert seen(job, lines)[1] == []


@pytest.mark.parametrize("job", [STUCK, KILLED])
def test_a_sweep_at_the_deadline_tells_the_lapse_and_a_later_one_does_not(job: str) -> None:
    lines = told(job)
    held = lines[index(job, RENEWAL)]
    del lines[index(job, LAPSE)]
    sweep = next(line for line in lines if line["op"] == "reap")
    sweep["opened_ns"] = held["closed_ns"] + LOCK_MS * 1_000_000 + 4_000_000
    assert seen(job, lines)[1] == []
    sweep["opened_ns"] += 100_000_000
    assert "the lapse of its lock" in seen(job, lines)[1]


def test_a_lock_that_is_lost_on_the_way_begins_the_story_anew() -> None:
    lost = [{**line, "token": "lost"} for line in told(SLOW)[:1]]
    names, missing = seen(SLOW, lost + told(SLOW))
    assert (names, missing) == ([PICKUP, PICKUP, RENEWAL, FINISH], [])
    assert seen(SLOW, [*told(SLOW)[:2], *lost, *told(SLOW)[2:]])[1] == ["a late renewal", "the finish"]


def test_whoever_takes_it_from_the_second_holder_may_finish_it() -> None:
    lines = told(KILLED)
    third = {**lines[index(KILLED, TAKEOVER)], "token": "third"}
    lines[-1:] = [third, {**lines[-1], "token": "third"}]
    assert seen(KILLED, lines)[1] == []


def test_a_story_sorts_lines_by_job_and_passes_over_others() -> None:
    story = Story()
    assert story.see({"job": None, "op": "sweep"}) == []
    assert story.see({"job": "42", "op": "acquire"}) == []
    assert story.see(told(HEALTHY)[0]) == [Seen(HEALTHY, PICKUP)]
    assert story.see(told(SLOW)[0]) == [Seen(SLOW, PICKUP)]
    for line in told(HEALTHY)[1:]:
        assert not story.is_whole(HEALTHY)
        story.see(line)
    assert story.is_whole(HEALTHY)
    assert "slow: a late renewal" in story.missing()
    assert not [words for words in story.missing() if words.startswith("healthy")]


def test_a_job_that_is_played_again_begins_anew_under_another_id() -> None:
    story = Story()
    story.see(told(SLOW)[0])
    story.begin(SLOW, job_id(SLOW, 2))
    assert story.ids()[SLOW] == "slow-2"
    assert played("slow-2") == SLOW
    for line in told(SLOW):
        assert story.see(line) == [], "what the first one still does counts no more"
    for line in told(SLOW):
        story.see({**line, "job": "slow-2"})
    assert story.is_whole(SLOW)
