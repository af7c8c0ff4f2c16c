"""Causes that time decides, each by the smallest story that has it, and by one that all but has it."""

from __future__ import annotations

from emqproxy.locks.evictions import Memory
from emqproxy.locks.notes import MS
from tests.locks.noting import Story


def held(*renewals_ms: float, ttl_ms: int = 2000) -> Story:
    story = Story(ttl_ms)
    story.say(0, "granted")
    for at_ms in renewals_ms:
        story.say(at_ms, "renewed", idle_ms=500)
    return story


def test_a_worker_that_was_silent_for_longer_than_its_lock():
    story = held(500, 1000)
    found = story.say(5500, "not_mine", idle_ms=4500, burst=1)
    assert found is not None
    assert found.cause == "expired_worker_silent"
    assert found.because == (
        "The worker said nothing for 4.5 s under a lock of 2.0 s, as one whose event loop is blocked; it held q:1."
    )
    again = story.say(5503, "absent", idle_ms=3, burst=2, code=-2)
    assert again == found, "one incident"
    assert story.say(5505, "absent", idle_ms=2, burst=3, code=-2) == found


def test_who_holds_it_now_says_more_than_why_it_was_lost():
    """-6, whatever was said of the loss before: the answer is that another holds it."""
    for first_refused in (True, False):
        story = held(500, 1000)
        story.say(4000, "granted", "b:1", conn=2)
        if first_refused:
            assert story.cause(5500, "not_mine", idle_ms=4500, burst=1) == "expired_worker_silent"
        found = story.say(5503, "held_by_other", idle_ms=4503, burst=2, code=-6)
        assert found is not None
        assert found.cause == "retaken"
        assert "after 4.5 s without a renewal under a lock of 2.0 s; it holds it now" in found.because


def test_whose_interval_is_not_known_may_as_well_renew_too_rarely():
    found = held().say(4500, "not_mine", idle_ms=4500, burst=1)
    assert found is not None
    assert "renewal interval is too long" in found.because
    assert "do not tell" in found.because


def test_one_result_after_a_silence_may_be_of_a_worker_whose_timer_was_stopped():
    assert held(500, 1000).cause(5500, "absent", idle_ms=4500, burst=1, code=-2) == "renew_stopped"
    assert held(500, 1000).cause(5500, "absent", idle_ms=4500, burst=2, code=-2) == "expired_worker_silent"
    story = held(500, 1000)
    assert story.cause(5500, "absent", idle_ms=4500, burst=1, code=-2) == "renew_stopped"
    assert story.cause(5502, "absent", idle_ms=4502, burst=2, code=-2) == "renew_stopped", "its own second try"
    assert story.cause(5530, "not_mine", idle_ms=28, burst=1) == "expired_worker_silent", "its timer runs"


def test_a_silence_in_which_the_lock_did_not_run_out_explains_nothing():
    story = held(500, 1000)
    story.say(1000 + 1900, "renewed", idle_ms=1900)
    assert story.cause(5500, "not_mine", idle_ms=100, burst=1) == "expired_unswept"


def test_suspects_are_the_jobs_held_when_it_fell_silent_the_last_started_first():
    story = held(500, 1000)
    story.say(1100, "granted", "a:2", job="q:2", idle_ms=100)
    story.say(3500, "swept", "", job="q:2")
    story.say(3600, "granted", "b:1", job="q:2", conn=2)
    story.say(3700, "released", "b:1", job="q:2", conn=2)
    found = story.say(5500, "not_mine", idle_ms=4400, burst=1)
    assert found is not None
    assert found.because.endswith("it held q:2, q:1.")


def test_a_connection_that_had_to_be_made_anew():
    story = held(500, 1000)
    story.close(1500)
    assert story.cause(5000, "not_mine", conn=7, idle_ms=1) == "link_loss"
    story = held(500, 1000)
    story.say(1100, "granted", "a:2", job="q:2", conn=3, idle_ms=100)
    story.close(1500, conn=3)
    assert story.cause(5000, "not_mine", idle_ms=100) == "expired_unswept", "not the one that it renews on"


def test_our_own_pause_is_no_fault_of_the_workers():
    story = held(1000)
    found = story.say(4500, "not_mine", idle_ms=3500, age_ms=1000.0, lag_ms=2500.0)
    assert found is not None
    assert found.cause == "proxy_pause"
    assert story.cause(5500, "absent", idle_ms=900, age_ms=2000.0, code=-2) == "proxy_pause", "met again"
    story = Story()
    story.say(0, "granted", took_ms=2500, lag_ms=2450.0)
    assert story.cause(3000, "not_mine", idle_ms=3000, age_ms=500.0) == "proxy_pause", "its answer lay with us"
    assert held(1000).cause(4500, "not_mine", idle_ms=3500, age_ms=3400.0, lag_ms=100.0) != "proxy_pause"
    in_all = held(500, 1000).cause(4500, "not_mine", idle_ms=3500, age_ms=1900.0)
    assert in_all == "expired_unswept", "we stood still, though not when it spoke: nobody is accused"


def test_a_call_that_was_sent_in_time_and_carried_out_too_late():
    assert held(1000).cause(2000, "not_mine", took_ms=1500, idle_ms=900) == "slow_redis"
    assert held(1000).cause(2000, "absent", took_ms=1500, idle_ms=900, code=-2) == "slow_redis"
    assert held(1000).cause(3100, "not_mine", took_ms=1500, idle_ms=900) != "slow_redis"


def test_a_lock_that_should_have_lived():
    assert held(1000).cause(1500, "not_mine") == "lock_vanished_early"
    story = held(1000)
    story.close(1200, conn=None)
    assert story.cause(1500, "not_mine") == "failover_lost_lock"
    assert held(1000).cause(1500, "released", outcome="refused", code=-3) == "not_in_active"
    late = held(500, 1000).cause(5500, "released", outcome="refused", code=-3, idle_ms=4500, burst=2)
    assert late == "not_in_active", "it was held until then, says the answer"


def test_a_lock_that_vanished_while_redis_evicted_keys():
    full = Memory(0, "volatile-lru", 1 << 20, 5)
    story = held(1000)
    story.doctor.evictions.heard(full._replace(at=500 * MS))
    story.doctor.evictions.heard(full._replace(at=1400 * MS, evicted_keys=12))
    found = story.say(1500, "not_mine")
    assert found is not None
    assert found.cause == "eviction_suspected"
    assert found.because == (
        "The lock should have lived 1.5 s more, and nobody was seen ending it; Redis evicted 7 keys in the last 1.0 s "
        "(maxmemory 1048576 bytes, maxmemory-policy volatile-lru), and it may be one of them."
    )
    assert story.say(9000, "absent", code=-2) == found, "one incident"


def test_no_eviction_is_suspected_where_none_was_counted_since():
    full = Memory(0, "volatile-lru", 1 << 20, 5)
    for last in (full, full._replace(evicted_keys=12, policy="noeviction"), full._replace(evicted_keys=1)):
        story = held(1000)
        story.doctor.evictions.heard(full._replace(at=500 * MS))
        story.doctor.evictions.heard(last._replace(at=1400 * MS))
        assert story.cause(1500, "not_mine") == "lock_vanished_early", last
    before = held(1000)
    before.doctor.evictions.heard(full._replace(at=500 * MS))
    before.doctor.evictions.heard(full._replace(at=900 * MS, evicted_keys=12))
    assert before.cause(1500, "not_mine") == "lock_vanished_early", "it lived after that"


def test_what_is_explained_otherwise_is_no_eviction():
    full = Memory(500 * MS, "allkeys-lru", 1 << 20, 5)
    for conn, cause in ((None, "failover_lost_lock"), (1, "eviction_suspected")):
        story = held(1000)
        story.doctor.evictions.heard(full)
        story.close(1200, conn=conn)
        story.doctor.evictions.heard(full._replace(at=1400 * MS, evicted_keys=12))
        assert story.cause(1500, "not_mine") == cause


def test_what_a_worker_says_at_once_behind_a_silence_is_no_talk_in_it():
    """It was blocked for longer than its short lock, and gives in all its results in a row."""
    story = held(ttl_ms=150)
    story.say(5, "granted", "a:2", job="q:2", idle_ms=5)
    assert story.cause(242, "absent", "a:2", job="q:2", idle_ms=208, burst=1, code=-2) == "expired_unswept"
    assert story.cause(247, "absent", idle_ms=4, burst=2, code=-2) == "expired_unswept"


def test_for_certain_it_talked_only_where_it_is_heard_while_the_lock_ran_out():
    """Something that has no line ended its block, and its result came a moment later."""
    for write_ms, certain in ((215, False), (120, True)):
        story = held(ttl_ms=150)
        story.say(150, "lapsed", op="lapse", outcome="told", conn=None)
        story.say(write_ms, "untouched", "", op="write")
        found = story.say(write_ms + 65, "absent", idle_ms=14, code=-2)
        assert found is not None
        assert found.cause == "renew_config"
        assert ("do not tell" not in found.because) is certain


def test_a_worker_that_talks_and_does_not_renew():
    assert held().cause(3000, "absent", idle_ms=100, code=-2) == "renew_config"
    assert held(500, 1000).cause(4000, "absent", idle_ms=100, code=-2) == "renew_stopped"
    story = held()
    assert story.cause(3000, "not_mine", idle_ms=100) == "renew_config"
    assert story.cause(3500, "absent", idle_ms=100, code=-2) == "renew_config"
    story.say(3600, "swept", "")
    assert story.cause(3700, "absent", idle_ms=100, code=-2) == "recovered_not_retaken"


def test_errors_that_kept_the_renewals_out():
    story = held(500, 1000)
    for at_ms in (1500, 2000, 2500, 3000):
        error = {"op": "renew", "outcome": "error", "code_name": "OOM", "idle_ms": 400}
        assert story.cause(at_ms, "perhaps", **error) == "server_refused"
    assert story.cause(3500, "not_mine", idle_ms=400) == "server_refused"


def test_one_renewal_that_was_refused_is_one():
    story = held(500, 1000)
    story.say(1500, "perhaps", op="renew", outcome="error", code_name="OOM", idle_ms=400)
    found = story.say(3500, "not_mine", idle_ms=400)
    assert found is not None
    assert found.because.startswith("Redis refused 1 renewal before, the last with OOM")


def test_completed_and_then_failed_is_one_incident_and_has_one_cause():
    """Its second refusal comes when its loop has gone round once more, and looks like a timer that runs again."""
    story = held()
    story.say(3000, "swept", "", conn=3)
    story.say(3600, "granted", "b:1", conn=2, who="B")
    story.say(4500, "released", "b:1", conn=2, who="B")
    assert story.cause(4757, "absent", code=-2, idle_ms=4757, burst=1) == "retaken"
    assert story.cause(4763.6, "absent", code=-2, idle_ms=6.6, burst=2) == "retaken"
