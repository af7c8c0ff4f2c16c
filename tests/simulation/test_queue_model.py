"""What Redis keeps of a job. `python -m tests.long.simulate_truth` and its short form hold it against a real one."""

from __future__ import annotations

from emqproxy.simulation.queue_model import QueuedJob, Swept


def taken(max_stalled: int = 1) -> QueuedJob:
    job = QueuedJob(max_stalled)
    job.take(b"a", 100, 0)
    return job


def test_a_lock_lives_to_its_end_and_is_renewed_by_its_holder_only() -> None:
    job = taken()
    assert not job.renew(b"b", 100, 50)
    assert job.renew(b"a", 100, 100)
    assert not job.renew(b"a", 100, 201)
    assert not job.is_locked(201)


def test_it_takes_two_sweeps_and_a_renewal_between_them_a_third() -> None:
    job = taken()
    assert job.sweep(50) is Swept.MARKED
    assert job.renew(b"a", 100, 60)
    assert job.sweep(170) is Swept.MARKED
    assert job.sweep(180) is Swept.RECOVERED
    assert job.sweep(190) is Swept.NOTHING


def test_a_marked_job_with_a_lock_is_marked_again() -> None:
    job = taken()
    assert [job.sweep(50), job.sweep(60), job.sweep(101)] == [Swept.MARKED, Swept.MARKED, Swept.RECOVERED]


def test_past_the_limit_whoever_takes_it_next_is_to_fail_it() -> None:
    job = taken(max_stalled=1)
    job.sweep(101)
    assert job.sweep(102) is Swept.RECOVERED
    job.take(b"b", 100, 102)
    job.sweep(203)
    assert not job.deferred_failure
    assert job.sweep(204) is Swept.OVER_LIMIT
    assert (job.stalls, job.deferred_failure) == (2, True)
    job.take(b"c", 100, 204)
    job.finish()
    assert (job.active, job.is_locked(204), job.sweep(205)) == (False, False, Swept.NOTHING)


def test_no_stall_allowed_is_no_stall_forgiven() -> None:
    job = taken(max_stalled=0)
    job.sweep(101)
    assert job.sweep(102) is Swept.OVER_LIMIT
