"""The demo's words: each transition is one sentence, and a story with a hole is not taken for whole."""

from __future__ import annotations

from typing import Any

import pytest

from emqproxy.demo.words import EXPECTED, Scene, missing


def line(job: str, fields: dict[str, Any]) -> dict[str, Any]:
    """A journal line, as far as the words look at it; of alternatives the first."""
    chosen = {name: value[0] if isinstance(value, tuple) else value for name, value in fields.items()}
    return {"job": job, "ttl_ms": 3000, "age_ms": 3900.5, "remaining_ms": -900.5, "code_name": None, **chosen}


WHOLE = [line(expected.job, dict(expected.fields)) for expected in EXPECTED]


def test_the_whole_story_has_nothing_missing() -> None:
    assert missing(WHOLE) == []


@pytest.mark.parametrize("left_out", range(len(EXPECTED)), ids=lambda index: f"{EXPECTED[index].job}-{index}")
def test_what_is_left_out_is_named(left_out: int) -> None:
    job = EXPECTED[left_out].job
    absent = missing(WHOLE[:left_out] + WHOLE[left_out + 1 :])
    assert absent
    assert all(words.startswith(f"{job}: ") for words in absent)


def test_a_story_in_the_wrong_order_is_not_whole() -> None:
    assert missing(WHOLE[::-1])


def test_every_expected_transition_is_told_in_words() -> None:
    scene = Scene()
    sentences = [scene.sentence(told) for told in WHOLE]
    assert all(sentence is not None and sentence.what for sentence in sentences)


def test_the_second_pickup_is_told_as_such() -> None:
    scene = Scene()
    taken = line("stuck", {"op": "acquire", "outcome": "ok"})
    first, second = scene.sentence(taken), scene.sentence(taken)
    assert first is not None
    assert second is not None
    assert "AGAIN" not in first.what
    assert "AGAIN" in second.what


def test_a_refused_renewal_says_by_how_much_it_was_late() -> None:
    told = Scene().sentence(line("stuck", {"op": "renew", "outcome": "refused"}))
    assert told is not None
    assert "3.9 s" in told.what
    assert "0.9 s too late" in told.what


def test_what_belongs_to_no_transition_is_passed_over() -> None:
    assert Scene().sentence(line("stuck", {"op": "raw", "outcome": "ok"})) is None
