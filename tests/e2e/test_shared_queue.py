"""The short form of tests/long/shared_queue.py, in enforce mode, and that what it accounts for can be wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.long.shared_account import Outcome, Planned, complaints
from tests.long.shared_queue import Run, play


@pytest.mark.timeout(240)
def test_npm_pypi_and_our_workers_share_a_queue_and_are_killed() -> None:
    faults, figures = play(Run("emq", jobs=210, kills=3, workers=1, lock_ms=6000, timeout_s=60, enforce=True))
    assert not faults, "\n".join([*faults, figures])


PLAN = [Planned("a", fails=1, attempts=3), Planned("b", fails=9, attempts=1)]


def line(seq: int, op: str, job: str, outcome: str = "ok", token: str = "w1:1", **more: Any) -> dict[str, Any]:
    at = {"seq": seq, "opened_ns": 10 * seq, "closed_ns": 10 * seq + 5}
    return at | {"op": op, "job": job, "outcome": outcome, "token": token, "finding": "sound", "target": None} | more


def good() -> Outcome:
    """Job a: taken by one who is killed, put back, failed once, done. Job b: failed for good."""
    journal = [
        line(1, "acquire", "a", token="dead:1"), line(2, "lapse", "a", "told", token="dead:1"),
        line(3, "reap", "a", token=""), line(4, "acquire", "a"), line(5, "retry", "a"), line(6, "acquire", "a"),
        line(7, "finish", "a", target="completed"), line(8, "acquire", "b"), line(9, "finish", "b", target="failed"),
    ]  # fmt: skip
    hashes = {"a": {"atm": 2, "stc": 1}, "b": {"atm": 1, "stc": 0}}
    return Outcome({"a"}, {"b"}, {"active": 0}, hashes, journal, Counter(a=3, b=1), {"dead"})


def test_nothing_is_wrong_with_what_went_well() -> None:
    assert complaints(PLAN, good()) == []


WRONGS: dict[str, Callable[[Outcome], object]] = {
    "a is not completed": lambda told: told.completed.clear(),
    "should not be": lambda told: told.failed.add("a"),
    "left in active": lambda told: told.left.update(active=1),
    "attempts were counted": lambda told: told.hashes["a"].update(atm=1),
    "it stalled 2 times": lambda told: told.hashes["a"].update(stc=2),
    "it was begun 4 times": lambda told: told.begun.update(["a"]),
    "it was taken 4 times": lambda told: told.journal.append(line(10, "acquire", "a")),
    "it was finished": lambda told: told.journal.append(line(10, "finish", "a", target="completed")),
    "refused": lambda told: told.journal.append(line(10, "finish", "a", "refused")),
    "was not killed": lambda told: told.killed.clear(),
    "above doubtful": lambda told: told.journal.append(line(10, "renew", "a", finding="straggler")),
    "charged with zero_token": lambda told: told.journal.append(line(10, "renew", "a", rule="zero_token")),
    "lost lines": lambda told: told.journal.append(line(11, "renew", "a")),
    "w said: no lock": lambda told: told.errors.update(w=["no lock"]),
    "python-1 said": lambda told: told.errors.update({"python-1": ["could not renew lock for job a"]}),
}


@pytest.mark.parametrize("words", WRONGS)
def test_what_went_wrong_is_said(words: str) -> None:
    told = good()
    WRONGS[words](told)
    assert any(words in complaint for complaint in complaints(PLAN, told))


def test_a_renewal_that_met_its_own_finish_is_no_fault() -> None:
    told = good()
    told.errors["python-1"] = ["could not renew lock for job a"]
    told.journal.append(line(10, "renew", "a", "refused"))
    assert complaints(PLAN, told) == []
