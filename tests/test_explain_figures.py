"""Of each cause its worst figures, and who did what it comes of."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from emqproxy.explain_advice import Culprit
from emqproxy.explain_figures import figures_of
from emqproxy.journal_lines import JournalLine
from tests.locks.test_hands import FIELDS, raw


def refused(seq: int, cause: str, *evidence: int, **more: Any) -> JournalLine:
    fields = {"op": "finish", "seq": seq, "outcome": "refused", "cause": cause, "evidence": evidence, "token": "aa"}
    return JournalLine(**{**FIELDS, **fields, **more})


def test_the_worst_of_each_cause() -> None:
    lines = [
        refused(1, "retaken", age_ms=3_000.0, remaining_ms=-1_000.0),
        refused(2, "unknown"),
        refused(3, "retaken", code_name="JobLockMismatch"),
    ]
    figures = figures_of(lines, {("r", 1): 2_500.0, ("r", 3): 2_400.0}, sweeps=True)
    assert list(figures) == ["retaken", "unknown"]
    assert (figures["retaken"].gap_ms, figures["retaken"].ttl_ms) == (2_500, 2_000)
    assert (figures["retaken"].code_name, figures["retaken"].sweeps) == ("JobLockMismatch", True)
    assert figures["unknown"].gap_ms is None


@pytest.mark.parametrize(
    ("cause", "script", "target", "job"),
    [
        ("job_vanished", "DEL", "job", "42"),
        ("not_in_active", "LREM", "active", "42"),
        ("not_in_active", "LTRIM", "active", None),
        ("not_in_active", "LMOVE", "wait", "42"),
        ("double_grant", "LPUSH", "wait", "42"),
        ("double_grant", "RPOPLPUSH", "wait", "42"),
        ("ghost_job", "ZADD", "prioritized", "42"),
        ("ghost_job", "DEL", "job", "42"),
    ],
)
def test_whose_hand_a_cause_comes_of(cause: str, script: str, target: str, job: str | None) -> None:
    hand = raw(script, target, job=job)
    of_hash = target == "job"
    assert figures_of([hand, refused(2, cause)], {}, sweeps=False)[cause].hand == Culprit("a-hand", script, of_hash)
    for nothing in (replace(hand, code=0) if script != "ZADD" else replace(hand, outcome="error"), refused(1, "x")):
        assert figures_of([nothing, refused(2, cause)], {}, sweeps=False)[cause].hand is None
    assert figures_of([refused(2, cause), hand], {}, sweeps=False)[cause].hand is None, "it came after"


@pytest.mark.parametrize(
    ("cause", "script", "target", "job"),
    [
        ("not_in_active", "LREM", "wait", "42"),
        ("not_in_active", "DEL", "wait", None),
        ("not_in_active", "LPUSH", "wait", "42"),
        ("double_grant", "LREM", "active", "42"),
        ("job_vanished", "LREM", "active", "42"),
        ("lock_vanished_early", "DEL", "job", "42"),
    ],
)
def test_another_deed_is_not_what_it_comes_of(cause: str, script: str, target: str, job: str | None) -> None:
    assert figures_of([raw(script, target, job=job), refused(2, cause)], {}, sweeps=False)[cause].hand is None


@pytest.mark.parametrize(("cause", "script", "target"), [("job_removed", "DEL", "job"), ("retaken", "LPUSH", "wait")])
def test_what_comes_mostly_of_other_things_needs_the_evidence(cause: str, script: str, target: str) -> None:
    hand = raw(script, target)
    assert figures_of([hand, refused(2, cause)], {}, sweeps=False)[cause].hand is None
    found = figures_of([hand, refused(2, cause, 1)], {}, sweeps=False)[cause].hand
    assert found == Culprit("a-hand", script, of_hash=target == "job")


def test_who_emptied_it() -> None:
    wipe = raw("FLUSHDB", None, op="wipe", effect="wiped", job=None, queue=None, prefix=None)
    figures = figures_of([wipe, refused(2, "job_removed", 1), refused(3, "retaken", 1)], {}, sweeps=False)
    assert figures["job_removed"].wipe == Culprit("a-hand", "FLUSHDB")
    assert figures["retaken"].wipe is None
