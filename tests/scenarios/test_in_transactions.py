"""Scenario S35: calls inside MULTI. Each element of EXEC's answer has its own verdict and its own cause; what did not
run has none; what was queued happened when EXEC ran, not when it was queued.
"""

from __future__ import annotations

import hiredis

from tests.processes import eventually
from tests.proxy.hand import Hand
from tests.scenarios.in_transactions import evals, queued
from tests.scenarios.play import SHORT_MS, Play, calm
from tests.scenarios.test_lost_in_time import left_ms
from tests.scripts import talk
from tests.scripts.talk import lock

LOCK_MS = 400


def finish(job: str, token: str) -> list[bytes]:
    return evals(talk.finish(job, token), "moveToFinished-14")


def renew_all(jobs: list[str], token: str) -> list[bytes]:
    return evals(talk.renew_all(jobs, [token] * len(jobs)), "extendLocks-1")


def begun(hand: Hand, *commands: list[bytes]) -> None:
    """A transaction that waits for its EXEC."""
    assert hand.wire.call("MULTI") == b"OK"
    for command in commands:
        assert hand.wire.call(*command) == b"QUEUED"


def test_s35_a_refusal_inside_a_transaction(play: Play) -> None:
    owner, stranger = play.owner("a:1"), play.hand()
    assert queued(stranger, finish(play.job, "x:1")) == [-6]
    assert play.causes() == [("finish", "refused", "never_owner")]
    assert owner.finish(play.job, "a:1") == 0


def test_s35_a_transaction_that_does_not_run(play: Play) -> None:
    owner, watching = play.owner("a:1"), play.hand()
    watching.wire.call("WATCH", "emq:orders:seen")
    play.redis.call("SET", "emq:orders:seen", play.job)
    assert queued(watching, finish(play.job, "a:1")) is None
    begun(watching, finish(play.job, "a:1"))
    assert isinstance(watching.wire.call("NO-SUCH-COMMAND"), hiredis.ReplyError)
    assert "EXECABORT" in str(watching.wire.call("EXEC"))
    assert [line["op"] for line in play.lines() if line["outcome"] == "ok"] == ["acquire"]
    assert play.causes() == []
    assert owner.finish(play.job, "a:1") == 0
    assert play.causes() == [], "what did not run is no move of its own"


def test_s35_a_transaction_that_was_given_up(play: Play) -> None:
    owner = play.owner("a:1")
    begun(owner, finish(play.job, "a:1"))
    assert owner.wire.call("DISCARD") == b"OK"
    assert owner.renew(play.job, "a:1") == 1
    assert owner.finish(play.job, "a:1") == 0
    assert [line["op"] for line in play.lines()] == ["acquire", "renew", "finish"]
    assert play.causes() == []


def test_s35_finished_twice_in_one_transaction(play: Play) -> None:
    owner = play.owner("a:1")
    assert queued(owner, finish(play.job, "a:1"), finish(play.job, "a:1")) == [0, -2]
    assert play.causes() == [("finish", "refused", "already_moved_by_same_owner")]
    first, second = play.lines("finish")
    assert second["evidence"] == [first["seq"]]


def test_s35_a_lock_that_was_deleted_in_the_same_transaction(play: Play) -> None:
    owner = play.owner("a:1")
    assert queued(owner, [b"DEL", lock(play.job).key], finish(play.job, "a:1")) == [1, -2]
    assert play.causes() == [("finish", "refused", "lock_deleted_by")]
    assert "(DEL)" in play.lines("finish")[0]["because"]


@calm
def test_s35_each_element_has_its_own_cause(play: Play) -> None:
    """Of three jobs one was taken by another, one was deleted past us, and one is still its own."""
    first, second = play.owner("a:1", SHORT_MS), play.hand()
    play.swept_back(second)
    assert second.pick("b:1") == play.job
    mine, gone = play.more(2), play.more(3)
    for job in (mine, gone):
        play.add(job)
        assert first.pick("a:1") == job
    play.redis.call("DEL", lock(gone).key)
    answer = queued(first, finish(play.job, "a:1"), renew_all([play.job, mine, gone], "a:1"), finish(mine, "a:1"))
    assert answer == [-6, [play.job.encode(), gone.encode()], 0]
    found = {(line["op"], line["job"]): line["cause"] for line in play.lines() if line["cause"]}
    assert found == {
        ("finish", play.job): "retaken", ("renew", play.job): "retaken", ("renew", gone): "lock_vanished_early",
    }  # fmt: skip


@calm
def test_s35_a_renewal_is_late_by_when_exec_was_sent(play: Play) -> None:
    owner = play.owner("a:1", 4000)
    begun(owner, renew_all([play.job], "a:1"))
    eventually(lambda: left_ms(play) < 450)
    assert owner.wire.call("EXEC") == [[]]
    (line,) = play.lines("renew")
    assert (line["grade"], line["cause"]) == ("critical", "renewal_late")
    assert line["idle_ms"] > 3000, "since it was queued"
    assert 0 < line["remaining_ms"] < 480 + play.still_ms()


@calm
def test_s35_a_lock_that_ran_out_between_the_call_and_its_exec(play: Play) -> None:
    """The age is that of EXEC: the call itself was queued in time."""
    owner = play.owner("a:1", LOCK_MS)
    begun(owner, finish(play.job, "a:1"))
    play.lapsed()
    assert owner.wire.call("EXEC") == [-2]
    assert play.causes() == [("finish", "refused", "expired_unswept")]
    line = play.lines("finish")[0]
    assert line["age_ms"] > LOCK_MS / 2, "less what emqproxy itself stood still"
    assert f"under a lock of {LOCK_MS} ms" in line["because"]


def test_s35_redis_refuses_one_element(play: Play) -> None:
    """Memory ran out after the calls were queued: the renewal did not happen, and the finish did."""
    owner = play.owner("a:1")
    begun(owner, renew_all([play.job], "a:1"), finish(play.job, "a:1"))
    play.redis.call("CONFIG", "SET", "maxmemory", "1")
    try:
        refused, done = owner.wire.call("EXEC")  # type: ignore[misc]
    finally:
        play.redis.call("CONFIG", "SET", "maxmemory", "0")
    assert isinstance(refused, hiredis.ReplyError)
    assert done == 0
    assert play.causes() == [("renew", "error", "server_refused")]
