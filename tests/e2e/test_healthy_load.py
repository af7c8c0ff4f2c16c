"""The short form of tests/long/healthy_load.py, and that what it holds against the ledger can fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.long.healthy_evidence import Charge, Evidence, Span
from tests.long.healthy_load import Load, play

ON_TIME = {"op": "renew", "lag_us": 0, "finding": "sound", "cause": None}


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_of_healthy_workers_nothing_but_good_is_said(mode: str) -> None:
    report = play(Load(seconds=8, nap_ms_max=5000, mode=mode))
    assert report.good, str(report)
    assert report.grades["on_time"] > 100, str(report)
    assert not report.causes.keys() - {"renewal_late", "benign_renew_race"}, str(report)


def test_of_a_worker_that_holds_its_loop_nothing_is_said_that_its_own_log_does_not() -> None:
    report = play(Load(seconds=6, nap_ms_max=3000, blocks=0.02))
    assert report.charges, str(report)
    # Whoever lost a job, and takes it again while still at work on it, forgets to renew it when the first of both ends:
    # its own log says nothing of that.
    lost: set[tuple[str, str]] = set()
    for charge in report.charges:
        job = (charge.worker, charge.line["job"])
        assert charge.explained or job in lost, str(report)
        if charge.line["op"] == "lapse" or charge.line["finding"] == "straggler":
            lost.add(job)
    assert max(report.worst_lag_ms.values()) >= 700, str(report)
    assert not report.otherwise, str(report)


@pytest.mark.parametrize(
    ("line", "asleep", "explained"),
    [
        ({"grade": "late"}, [], False),
        ({"grade": "late"}, [(4800.0, 5000.0)], True),
        ({"grade": "late"}, [(3000.0, 3700.0)], False),  # before the time that the line speaks of
        ({"finding": "straggler"}, [(4800.0, 5000.0)], True),
        ({"finding": "straggler", "age_ms": None}, [(0.0, 5000.0)], False),
        ({"cause": "renewal_late"}, [(4800.0, 5000.0)], True),
        ({"cause": "renewal_late"}, [], False),
        ({"cause": "link_loss"}, [(0.0, 5000.0)], False),
        ({"cause": "benign_renew_race", "age_ms": None, "job": "1"}, [], True),
        ({"cause": "benign_renew_race", "age_ms": None, "job": "2"}, [], False),  # it never finished that one
        ({"finding": "disputed"}, [(0.0, 5000.0)], False),  # not of the worker's making, however late it was
    ],
)
def test_a_charge_stands_only_on_what_the_worker_says_itself(
    line: dict[str, Any], asleep: list[Span], explained: bool
) -> None:
    evidence = Evidence({})
    evidence.asleep["w"] = asleep
    evidence.done.add(("w", "1"))
    assert weighed(evidence, line).explained is explained


def weighed(evidence: Evidence, line: dict[str, Any]) -> Charge:
    """A renewal sent at 5,000 ms, 1,250 ms after its last proof."""
    return evidence.weigh(
        ON_TIME | {"opened_ns": 5_000_000_000, "closed_ns": 5_001_000_000, "age_ms": 1250.0} | line, "w"
    )


def test_waiting_for_an_answer_counts_and_once() -> None:
    evidence = Evidence({})
    evidence.asleep["w"] = [(4000.0, 4100.0)]
    evidence.note({"op": "renew", "opened_ns": 4_050_000_000, "closed_ns": 4_200_000_000, "lag_us": 20_000}, "w")
    charge = weighed(evidence, {"grade": "late"})
    assert (charge.awaited_ms, charge.ours_ms, charge.explained) == (170.0, 20.0, True)  # 200 ms in all, 60 tolerated
    assert not weighed(evidence, {"grade": "late", "age_ms": 1261.0}).explained
