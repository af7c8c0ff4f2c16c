"""The demo's words: each transition is one sentence that fits a terminal's line."""

from __future__ import annotations

import pytest

from emqproxy.demo.expected import STEPS
from emqproxy.demo.plan import JOBS, KILLED, ROBBED, SLOW, STUCK
from emqproxy.demo.words import Scene, Sentence
from tests.demo.lines import told


def sentences(job: str) -> dict[str, Sentence]:
    """By step, the sentences of a whole story."""
    scene = Scene()
    said = {step.name: scene.sentence(line) for step, line in zip(STEPS[job], told(job), strict=True)}
    assert None not in said.values()
    return {name: sentence for name, sentence in said.items() if sentence is not None}


@pytest.mark.parametrize("job", JOBS)
def test_every_step_is_a_sentence_or_two_that_fit_a_line(job: str) -> None:
    for sentence in sentences(job).values():
        assert 10 < len(sentence.what) <= 71
        assert len(sentence.why) <= 71


def test_the_second_pickup_is_told_as_such() -> None:
    said = sentences(STUCK)
    assert said["pickup"].what.startswith("worker-1 picked it up: ")
    assert said["takeover"].what == "worker-2 picked it up AGAIN, under a new token."


def test_why_it_matters_is_said_once() -> None:
    scene = Scene()
    first, second = (scene.sentence(line) for line in told(SLOW)[1:2] * 2)
    assert first is not None
    assert second is not None
    assert first.why
    assert (second.what, second.why) == (first.what, "")


def test_a_late_renewal_says_by_how_much() -> None:
    assert sentences(SLOW)["renewal"].what == "worker-1 renewed LATE: 2.1 s old, only 0.9 s were left."


def test_a_refused_renewal_says_whether_it_was_late() -> None:
    assert "although it came in time" in sentences(ROBBED)["refusal"].what
    line = next(line for line in told(ROBBED) if line["outcome"] == "refused")
    late = Scene().sentence({**line, "remaining_ms": -900.5})
    assert late is not None
    assert "0.9 s too late" in late.what


def test_a_refused_finish_says_the_code_and_who_holds_the_lock() -> None:
    said = sentences(STUCK)["refusal"]
    assert said.what == "worker-1's finish REFUSED by Redis: code -6, JobLockMismatch."
    assert said.why.startswith("worker-2 holds the lock")
    line = next(line for line in told(STUCK) if line["outcome"] == "refused")
    gone = Scene().sentence({**line, "code": -2, "code_name": "JobLockNotExist"})
    assert gone is not None
    assert gone.why.startswith("Nobody holds the lock")


def test_a_lapse_has_the_worker_s_name_though_its_line_has_none() -> None:
    scene = Scene()
    pickup = told(KILLED)[0]
    scene.sentence(pickup)
    lapse = scene.sentence({**pickup, "op": "lapse", "outcome": "told", "client_name": None})
    assert lapse is not None
    assert lapse.what.startswith("worker-1 LOST THE LOCK: 3.0 s passed")


def test_who_has_no_name_is_somebody() -> None:
    assert Scene().who({"job": "1", "token": None, "client_name": None}) == "somebody"


def test_what_belongs_to_no_transition_is_passed_over() -> None:
    assert Scene().sentence({"op": "add", "outcome": "ok", "job": "slow"}) is None
