"""Causes that somebody's deed decides, each by the smallest story that has it, and by one that all but has it."""

from __future__ import annotations

import pytest

from tests.locks.noting import Story


def held(ttl_ms: int = 2000) -> Story:
    story = Story(ttl_ms)
    story.say(0, "granted", starts=1)
    return story


@pytest.mark.parametrize(("code", "name"), [(-4, "JobPendingChildren"), (-9, "JobHasFailedChildren")])
def test_a_job_that_waits_for_children_has_lost_nothing(code: int, name: str):
    assert held().cause(100, "no_proof", outcome="refused", code=code, code_name=name) == "pending_children"


@pytest.mark.parametrize(
    ("op", "name", "cause"),
    [
        ("renew", "OOM", "server_refused"),
        ("finish", "READONLY", "server_refused"),
        ("renew", "WRONGTYPE", "script_mismatch"),
        ("acquire", "ERR", "pickup_failed_dirty"),
        ("finish", "ERR", "script_mismatch"),
    ],
)
def test_an_error_says_itself_what_it_is(op: str, name: str, cause: str):
    assert held().cause(100, "no_proof", op=op, outcome="error", code_name=name) == cause


def test_a_renewal_that_redis_refuses_tells_when_the_lock_ends():
    found = held().say(500, "no_proof", op="renew", outcome="error", code_name="OOM")
    assert found is not None
    assert "The lock ends in 1.5 s" in found.because


def test_who_finished_twice_is_told_of_the_first_time():
    story = held()
    story.say(100, "released", target="completed")
    found = story.say(103, "absent", code=-2)
    assert found is not None
    assert found.cause == "already_moved_by_same_owner"
    assert found.evidence == (2,)
    assert "3 ms before" in found.because


def test_a_renewal_that_crosses_its_own_finish_is_harmless_and_a_late_one_is_not():
    for at_ms, cause in [(101, "benign_renew_race"), (1900, "already_moved_by_same_owner")]:
        story = held()
        story.say(100, "released", target="completed")
        assert story.cause(at_ms, "not_mine") == cause


def test_a_finish_whose_first_answer_never_came_may_have_been_applied():
    story = held()
    story.say(100, "perhaps", outcome="unknown")
    assert story.cause(200, "absent", code=-2) == "maybe_applied_twice"
    assert held().cause(200, "absent", code=-2) != "maybe_applied_twice"


def test_an_invented_token_is_told_apart_from_one_of_before_our_start():
    story = held()
    assert story.cause(100, "held_by_other", "x:1", code=-6) == "never_owner"
    young = Story(began_ms=0)
    assert young.cause(1000, "absent", "x:1", code=-2) == "before_our_start"
    assert Story().cause(1000, "absent", "x:1", code=-2) == "never_owner", "since long before anything like it"


def test_no_token_at_all():
    assert held().cause(100, "held_by_other", "", code=-6) == "never_owner"


def test_another_suffix_of_the_same_worker():
    assert held().cause(100, "held_by_other", "a:7", code=-6) == "stale_suffix"


def test_a_move_with_the_token_zero_is_named_to_the_owner():
    story = held()
    story.say(50, "bypassed", "0", who="a stranger", conn=9)
    found = story.say(100, "released", outcome="refused", code=-3)
    assert found is not None
    assert found.cause == "lock_bypass"
    assert found.because.startswith("a stranger moved the job")


def test_a_removal_is_named_also_where_it_is_a_wipe():
    for op, effect, job in [("remove", "absent", "q:1"), ("wipe", "wiped", None)]:
        story = held()
        story.say(50, effect, "", op=op, outcome="ok", job=job, who="cleaner", script="FLUSHDB")
        assert story.cause(100, "no_proof", outcome="refused", code=-1) == "job_removed"


def test_a_job_that_is_gone_with_nobody_seen_removing_it():
    assert held().cause(100, "no_proof", outcome="refused", code=-1) == "job_vanished"
    story = held()
    story.close(50, None)
    assert story.cause(100, "no_proof", outcome="refused", code=-1) == "failover_lost_lock"


@pytest.mark.parametrize("alone", [True, False])
def test_what_befell_a_whole_queue_before_the_job_was_there_is_nothing_to_it(alone: bool):
    """A write asks for no token: what is since is told by the job's own signs of life."""
    for cause, lost in [("job_removed", False), ("failover_lost_lock", True)]:
        story = Story()
        if not alone:
            story.say(0, "untouched", "", op="add")
        _befall(story, 50, lost=lost)
        if alone:
            story.say(3000, "granted", starts=1)
        found = story.cause(3100, "no_proof", "", op="write", outcome="refused", code=-1, conn=2)
        assert found == ("job_vanished" if alone else cause)


def test_of_a_job_that_was_never_seen_no_wipe_is_to_blame():
    story = Story()
    _befall(story, 50, lost=False)
    assert story.cause(100, "no_proof", "", op="write", outcome="refused", code=-1) == "job_vanished"


def _befall(story: Story, at_ms: int, *, lost: bool) -> None:
    if lost:
        story.close(at_ms, None)
    else:
        story.say(at_ms, "wiped", "", op="wipe", outcome="ok", job=None, who="cleaner", script="FLUSHDB")


def test_two_workers_with_one_token_are_not_taken_for_one():
    story = Story()
    story.say(0, "granted", "same", conn=1, who="A", starts=1)
    story.say(2100, "swept", "", conn=3)
    again = story.say(2200, "granted", "same", conn=2, who="B", starts=2)
    assert again is not None
    assert again.cause == "fixed_token"
    stale = story.say(2300, "released", "same", conn=1, who="A", target="completed")
    assert stale is not None
    assert stale[:2] == (
        "fixed_token",
        "B took the job 100 ms before with the same token, and Redis accepted this from who had it before.",
    )
    found = story.say(2350, "absent", "same", conn=2, who="B", code=-2)
    assert found is not None
    assert found.cause == "fixed_token"
    assert found.because.startswith("A finished (completed) the job 50 ms before with the same token: two connections ")


def test_one_worker_that_finishes_over_another_connection_is_no_second_worker():
    story = held()
    assert story.say(100, "released", conn=2, target="completed") is None
    assert story.cause(200, "absent", conn=1, code=-2) == "already_moved_by_same_owner"


def test_a_hand_on_the_lock_is_named_where_the_lock_lived():
    for at_ms, cause in [(50, "lock_deleted_by"), (2500, "expired_unswept")]:
        story = held()
        story.say(at_ms, "deleted", "", op="raw", who="cli", script="DEL", conn=9)
        assert story.cause(2600 if at_ms > 2000 else 100, "not_mine", idle_ms=1500) == cause


def test_a_takeover_is_named_with_who_has_it():
    story = held(60)
    story.say(100, "swept", "")
    story.say(120, "granted", "b:1", who="worker b", conn=2)
    found = story.say(150, "held_by_other", code=-6, idle_ms=150)
    assert found is not None
    assert found.cause == "retaken"
    assert "taken by worker b 30 ms before" in found.because
    assert "it holds it now" in found.because


def test_a_takeover_while_the_lock_lived_is_a_double_grant():
    story = held()
    assert story.cause(100, "granted", "b:1", finding="double") == "double_grant"
    assert story.cause(150, "held_by_other", code=-6) == "double_grant"


def test_a_job_put_back_and_not_taken_again():
    story = held(60)
    story.say(100, "swept", "")
    assert story.cause(150, "absent", code=-2, idle_ms=150) == "recovered_not_retaken"
