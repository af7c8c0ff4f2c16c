"""Each cause has its advice, with the figures of the job."""

from __future__ import annotations

import pytest

from emqproxy.explain_advice import ADVICE, BY_HAND, Culprit, StoryFigures, advice
from emqproxy.redaction import CAUSES

HARMLESS = {"benign_renew_race", "pending_children"}


@pytest.mark.parametrize("cause", sorted(CAUSES - HARMLESS))
@pytest.mark.parametrize("figures", [StoryFigures(4_500, 2_000, "OOM", "me"), StoryFigures(None, None, None, "")])
def test_every_cause_but_the_harmless_says_what_to_change(cause: str, figures: StoryFigures) -> None:
    words = advice(cause, figures)
    assert words is not None
    assert words.endswith(".")
    assert "{" not in words
    assert "None" not in words


def test_what_is_harmless_needs_none() -> None:
    assert set(ADVICE) == CAUSES - HARMLESS
    assert advice("pending_children", StoryFigures(1, 1, None, "")) is None


def test_the_figures_of_the_job_stand_in_it() -> None:
    words = advice("expired_worker_silent", StoryFigures(4_500, 2_000, None, ""))
    assert words is not None
    assert "or raise lockDuration above 9 s: its longest gap was 4.5 s under a lock of 2.0 s." in words
    assert "raise maxmemory" in (advice("server_refused", StoryFigures(None, None, "OOM", "")) or "")
    assert "Renew every 1.0 s at the latest" in (advice("renew_config", StoryFigures(3_000, 2_000, None, "")) or "")


def test_a_script_that_nobody_knows_is_refused_by_a_rule_of_its_own() -> None:
    words = advice("lock_deleted_by", StoryFigures(None, None, None, "me", "dd818e8f")) or ""
    assert "sha dd818e8f" in words
    assert "unknown_script" in words
    assert "raw_lock_write" not in words
    assert "raw_lock_write" in (advice("lock_deleted_by", StoryFigures(None, None, None, "me")) or "")


def test_who_sweeps_is_not_told_to_sweep() -> None:
    words = advice("expired_unswept", StoryFigures(852, 600, None, "", sweeps=True)) or ""
    assert "at least one worker" not in words
    assert "what blocks the worker" in words
    assert "at least one worker" in (advice("expired_unswept", StoryFigures(852, 600, None, "")) or "")


def test_a_command_on_the_job_s_own_key_is_watched() -> None:
    words = advice("job_vanished", StoryFigures(None, None, None, "")) or ""
    assert "DEL" not in words
    assert "what is not watched: an EXPIRE, or a script that nobody knows" in words


@pytest.mark.parametrize("cause", sorted(BY_HAND))
def test_whose_hand_it_was_is_told_what_to_do_instead(cause: str) -> None:
    figures = StoryFigures(4_500, 2_000, None, "another", hand=Culprit("a-hand", "CMD"))
    words = advice(cause, figures) or ""
    assert "Let a-hand " in words
    assert "CMD" in words
    assert "another" not in words
    assert words != advice(cause, figures._replace(hand=None))
    assert "Let whoever did it " in (advice(cause, figures._replace(hand=Culprit("", "CMD"))) or "")


def test_who_emptied_a_queue_is_told_of_the_rule() -> None:
    words = advice("job_removed", StoryFigures(None, None, None, "x", wipe=Culprit("an-operator", "FLUSHDB"))) or ""
    assert "Let an-operator empty no queue or database that is worked on (FLUSHDB)" in words
    assert "mass_delete" in words
    assert "mass_delete" not in (advice("job_removed", StoryFigures(None, None, None, "x")) or "")


def test_a_ghost_comes_of_a_push_or_of_a_hash_that_was_deleted() -> None:
    pushed, deleted = (
        advice("ghost_job", StoryFigures(None, None, None, "", hand=Culprit("a-hand", "CMD", of_hash))) or ""
        for of_hash in (False, True)
    )
    assert "push no id by hand (CMD)" in pushed
    assert "a CMD of the job's hash" in deleted
    assert "push" not in deleted
