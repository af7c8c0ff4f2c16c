"""What is kept of a job and of a worker, and what is not."""

from __future__ import annotations

from emqproxy.locks.notes import LOST_MAX, MS, NOTES_MAX, JobNotes, Note, WorkerNotes, between_ms, counted, seconds


def note(at_ms: float, op: str = "renew", outcome: str = "ok", effect: str = "renewed", **more: object) -> Note:
    fields = {"token": "a:1", "worker": "a", "grade": "on_time", "queue": "q", "job": "q:1"} | more
    at = int(at_ms * MS)
    return Note(int(at_ms), op, outcome, effect, at, at + 1, **fields)  # type: ignore[arg-type]


def test_of_a_row_of_like_renewals_the_first_two_and_the_last_are_kept():
    job = JobNotes()
    for at_ms in range(10):
        job.add(note(at_ms))
    assert [n.seq for n in job.notes] == [0, 9]
    for at_ms in range(10, 20):
        job.add(note(at_ms, outcome="refused", effect="not_mine"))
    assert [n.seq for n in job.notes] == [0, 9, 10, 19]
    assert job.renewals == {"a:1": 10}
    job.add(note(20, grade="late"))
    job.add(note(21, token="b:1"))
    assert [n.seq for n in job.notes][-2:] == [20, 21]
    assert job.whole


def test_accepted_writes_are_not_kept_and_a_long_job_keeps_its_grants():
    job = JobNotes()
    job.add(note(0, "acquire", effect="granted"))
    for at_ms in range(1, 3 * NOTES_MAX):
        job.add(note(at_ms, "write", effect="untouched"))
        job.add(note(at_ms, "finish", "refused", "absent"))
    assert len(job.notes) == NOTES_MAX
    assert job.notes[0].effect == "granted"
    assert not any(n.op == "write" for n in job.notes)
    assert not job.whole


def test_what_was_said_of_losses_is_bounded():
    job = JobNotes()
    for i in range(2 * LOST_MAX):
        job.lose(f"a:{i}", ("retaken", "", ()))
    assert len(job.lost) == LOST_MAX
    assert f"a:{2 * LOST_MAX - 1}" in job.lost


def test_a_silence_is_remembered_with_whether_its_timer_ran_then():
    worker = WorkerNotes()
    worker.heard(note(500, idle_ms=500.0))
    assert worker.silence is None, "too short to be one"
    worker.heard(note(5000, "finish", "refused", "absent", idle_ms=4500.0))
    assert worker.silence is not None
    assert (worker.silence.ms, worker.silence.renewed) == (4500, False)
    worker.heard(note(5002, outcome="refused", effect="not_mine", idle_ms=4502.0))
    assert (worker.silence.ms, worker.silence.renewed) == (4500, True), "of what is said at once the first counts"


def test_the_rhythm_is_the_shortest_gap_of_two_successes_in_a_row():
    worker, job = WorkerNotes(), JobNotes()
    for at_ms, outcome in ((0, "ok"), (900, "ok"), (1400, "ok"), (1500, "refused"), (1600, "ok")):
        if outcome == "ok":
            worker.renewed(note(at_ms), job)
        job.add(note(at_ms, outcome=outcome))
    assert worker.rhythm_ms == 500
    worker.spoke_on(1, 0)
    worker.spoke_on(2, 0)
    worker.hang_up(1, MS)
    assert worker.rhythm_ms == 500
    worker.hang_up(2, MS)
    assert worker.rhythm_ms is None


def test_who_held_what_when():
    worker = WorkerNotes()
    for at_ms, name in ((0, "q:1"), (10, "q:2"), (20, "q:3")):
        worker.took(note(at_ms, "acquire", effect="granted", job=name))
    worker.left("q", "q:2", 50 * MS)
    assert worker.suspects(15 * MS) == ["q:2", "q:1"]
    assert worker.suspects(30 * MS) == ["q:3", "q:2", "q:1"]
    assert worker.suspects(60 * MS) == ["q:3", "q:1"]


def test_times_are_told_as_they_are_read():
    assert [seconds(ms) for ms in (480, 999.4, 1000, 4512)] == ["480 ms", "999 ms", "1.0 s", "4.5 s"]
    assert seconds(999.999) == "1.0 s", "as it is written, it is a second"
    assert between_ms(MS, 3 * MS) == 2


def test_one_is_one_and_none_are_many():
    assert [counted(number, "line") for number in (0, 1, 2)] == ["0 lines", "1 line", "2 lines"]
    assert [counted(number, "call was", "calls were") for number in (1, 3)] == ["1 call was", "3 calls were"]
