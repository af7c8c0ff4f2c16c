"""When a line is a violation, what kind of error it is, and where it leaves the job."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import Blinded, Place, Window
from emqproxy.locks.verdicts import Finding, Grade, Verdict
from emqproxy.observer import attributes
from emqproxy.records import JobFields, Line, Peer

FACT = Blinded(Place(1, 1), Window(0, 1))


@pytest.mark.parametrize("finding", list(Finding))
def test_a_finding_above_doubtful_is_a_violation(finding: Finding) -> None:
    accused = {"DOUBLE", "FOREIGN", "REAPED_ALIVE", "DISPUTED", "ORPHAN", "RESURRECTED", "STRAGGLER"}
    assert attributes.violates(Line("finish", "ok"), Verdict(FACT, finding)) is (finding.name in accused)


@pytest.mark.parametrize("grade", list(Grade))
def test_a_grade_late_or_worse_is_a_violation(grade: Grade) -> None:
    bad = grade in (Grade.LATE, Grade.CRITICAL, Grade.TOO_LATE)
    assert attributes.violates(Line("renew", "ok"), Verdict(FACT, Finding.SOUND, grade=grade)) is bad


@pytest.mark.parametrize(
    ("line", "violates", "error"),
    [
        (Line("finish", "ok"), False, None),
        (Line("finish", "refused", code=-2, code_name="JobLockNotExist"), True, "JobLockNotExist"),
        (Line("finish", "refused"), True, "_OTHER"),
        (Line("finish", "error", code_name="OOM"), False, "OOM"),
        (Line("finish", "blocked"), True, "enforcement_blocked"),
        (Line("finish", "unknown"), False, None),
        (Line("lapse", "told"), False, "LockLost"),
    ],
)
def test_an_outcome_is_a_violation_or_an_error_or_neither(line: Line, violates: bool, error: str | None) -> None:
    assert attributes.violates(line, Verdict(FACT, None)) is violates
    assert attributes.error_type(line) == error


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (Line("acquire", "ok"), "active"),
        (Line("finish", "ok", target="failed"), "failed"),
        (Line("finish", "refused", target="failed"), None),
        (Line("reap", "ok", target="wait"), "wait"),
        (Line("renew", "ok"), None),
        (Line("lapse", "told"), None),
    ],
)
def test_the_state_after_a_line(line: Line, state: str | None) -> None:
    assert attributes.state_after(line) == state


def test_a_client_is_its_name_or_else_its_address() -> None:
    assert attributes.of_peer(Peer(1, "1.2.3.4:5", "w"))["messaging.client.id"] == "w"
    assert attributes.of_peer(Peer(1, "1.2.3.4:5", None))["messaging.client.id"] == "1.2.3.4:5"
    assert attributes.of_peer(None)["messaging.client.id"] is None


def test_an_attempts_number_is_the_starts_where_they_are_counted() -> None:
    assert attributes.of_job(JobFields(attempts_made=1, attempts_started=3))["emq.job.attempt"] == 3
    assert attributes.of_job(JobFields(attempts_made=1))["emq.job.attempt"] == 1
