"""What bears on a refused call, of all that is known of its job and its worker."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emqproxy.locks.case import Case
from emqproxy.locks.notes import JobNotes, Note, WorkerNotes
from tests.locks.test_notes import MS, note

GRANT = note(0, "acquire", effect="granted", ttl_ms=2000, conn=1)
REFUSED = {"op": "finish", "outcome": "refused", "effect": "absent"}


def case(*before: Note, worker: WorkerNotes | None = None, **refused: object) -> Case:
    last = note(float(refused.pop("at_ms", 3000)), **(REFUSED | {"conn": 1} | refused))  # type: ignore[arg-type]
    job = JobNotes()
    for each in before:
        job.add(each)
    return Case(last, job, worker, 0)


def test_what_the_speaker_had_and_what_others_did_since():
    other = note(2500, "acquire", effect="granted", token="b:1", worker="b")
    found = case(GRANT, note(1000, ttl_ms=3000), note(2400, "reap", effect="absent", token=None), other)
    assert found.grant is GRANT
    assert (found.ttl_ms, round(found.age_ms), found.expired) == (3000, 2000, False)
    assert found.taken is other
    assert found.swept is not None
    assert found.renewals == 1


def test_who_was_never_given_the_job_has_no_grant():
    found = case(GRANT, token="b:1", worker="b")
    assert (found.grant, found.proof, found.hung_up, found.own_lag_ms, found.expired) == (None, None, None, 0.0, False)


def test_an_end_of_its_own_counts_until_it_takes_the_job_again():
    end = note(1000, "finish", effect="released")
    assert case(GRANT, end).own_end is end
    assert case(GRANT, end, note(2000, "acquire", effect="granted", ttl_ms=2000)).own_end is None


def test_its_own_second_try_is_not_something_else_that_it_says():
    assert case(GRANT, note(2998, **REFUSED)).said_just_before(5) == 1  # type: ignore[arg-type]
    assert case(GRANT, note(2900, **REFUSED)).said_just_before(5) == 0  # type: ignore[arg-type]
    assert case(GRANT, note(2998, outcome="refused", effect="not_mine")).said_just_before(5) == 0


def test_a_connection_that_closed_counts_where_it_was_the_one():
    worker = WorkerNotes()
    worker.spoke_on(1, 0)
    worker.spoke_on(2, 0)
    worker.conns[2].closed = 1000 * MS
    assert case(GRANT, worker=worker).hung_up is None, "the lock was proved on another, which is open"
    worker.conns[1].closed = 1500 * MS
    worker.spoke_on(3, 2900 * MS)
    assert case(GRANT, worker=worker, conn=3).hung_up == 1500 * MS


def test_our_own_lag_is_what_the_ledger_took_off_the_age_and_what_the_answer_lay_with_us():
    assert case(GRANT, age_ms=2500.0).own_lag_ms == pytest.approx(500, abs=0.001)
    late = replace(GRANT, closed=1000 * MS, lag_ms=900.0)
    assert case(late, age_ms=2000.0, lag_ms=50.0).lay_with_us_ms == 950
