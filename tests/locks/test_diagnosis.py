"""The doctor: which lines need a cause, the order of the rules, and that what is kept is bounded."""

from __future__ import annotations

import pytest

from emqproxy.locks.diagnosis import HARMLESS, Doctor
from emqproxy.locks.notes import MS, Note
from tests.locks.noting import Story


def test_what_went_well_needs_no_cause():
    story = Story()
    assert story.cause(0, "granted") is None
    assert story.cause(500, "renewed", grade="on_time") is None
    assert story.cause(900, "released", target="completed") is None


def test_a_late_renewal_tells_its_margin():
    story = Story()
    story.say(0, "granted")
    found = story.say(1700, "renewed", grade="critical", age_ms=1700.0, remaining_ms=300.0)
    assert found == ("renewal_late", "The renewal came 1.7 s after the last proof of holding; 300 ms were left.", ())


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_refusals_that_are_no_locks_have_no_cause(name: str):
    assert Story().cause(0, "held_by_other", "", op="remove", outcome="refused", code=0, code_name=name) is None


def test_a_bypass_is_told_where_it_happens():
    story = Story()
    story.say(0, "granted")
    found = story.say(10, "bypassed", "0", finding="orphan", who="Queue-7", conn=9)
    assert found is not None
    assert found.cause == "lock_bypass"
    assert found.because.startswith("Queue-7 moved the job")


def test_the_same_token_twice_on_one_job_is_a_fixed_token():
    story = Story(60)
    story.say(0, "granted", "same")
    assert story.cause(10, "granted", "other", job="q:2") is None
    assert story.cause(20, "granted", "same", job="q:3") is None, "one token for many jobs is lawful"
    story.say(100, "swept", "")
    assert story.cause(200, "granted", "same") == "fixed_token"


def test_a_pickup_without_payload_is_a_ghost_and_one_that_is_doomed_tells_its_stalls():
    story = Story(60)
    assert story.cause(0, "granted", payload=False) == "ghost_job"
    story.say(100, "swept", "")
    story.say(200, "swept", "")
    found = story.say(300, "granted", "b:1", doomed=True)
    assert found is not None
    assert (found.cause, found.evidence) == ("stall_limit", (2, 3))


def test_an_answer_that_says_itself_what_it_is_comes_before_time():
    story = Story(60)
    story.say(0, "granted")
    pending = story.cause(5000, "no_proof", outcome="refused", code=-4, idle_ms=5000, burst=2)
    assert pending == "pending_children"


def test_a_wipe_of_another_queue_explains_nothing():
    story = Story()
    story.say(0, "granted")
    story.say(50, "wiped", "", op="wipe", job=None, queue=(0, "other:"))
    assert story.cause(100, "no_proof", outcome="refused", code=-1) == "job_vanished"


def test_of_a_job_that_was_forgotten_not_all_is_claimed():
    doctor = Doctor(0, 2)
    for job in ("q:1", "q:2", "q:3"):
        doctor.observe(Note(1, "acquire", "ok", "granted", 0, 1, (0, "q:"), job, token="a", worker="a", ttl_ms=10))
    stranger = Note(2, "finish", "refused", "absent", MS, MS, (0, "q:"), "q:1", code=-2, token="x", worker="x")
    found = doctor.observe(stranger)
    assert found is not None
    assert found.cause == "before_our_start"


def test_sweeps_of_two_releases_on_one_queue_are_told_once_and_of_each_queue():
    doctor = Doctor(0, 100)

    def sweep(seq: int, script: str, queue: str = "q:", outcome: str = "ok") -> str | None:
        at = seq * MS
        note = Note(seq, "sweep", outcome, "nothing", at, at, queue=queue, script=script, who=f"w{seq}")
        found = doctor.observe(note)
        return None if found is None else f"{found.cause} {found.evidence}: {found.because}"

    newer, older = "moveStalledJobsToWait-9", "moveStalledJobsToWait-8"
    assert sweep(1, newer) is None
    assert sweep(2, newer) is None
    words = f"Sweeps of two releases run on this queue, {newer} by w1 and {older} by w3: nothing has failed yet."
    assert sweep(3, older) == f"script_mismatch (1,): {words}"
    assert (sweep(4, newer), sweep(5, older), sweep(6, older, "r:")) == (None, None, None)
    assert "failed on what it was given" in (sweep(7, older, outcome="error") or "")
