"""Scenarios S12, S13, S15 to S17, S24, S29, S32, S33, S36 to S38: what the speaker did itself, or never had."""

from __future__ import annotations

from tests.scenarios.in_transactions import evals, queued, words_of
from tests.scenarios.play import SHORT_MS, Play, calm
from tests.scenarios.test_lost_in_time import renew_all
from tests.scripts import talk
from tests.scripts.talk import PREFIX, lock, sha_of, text_of


def test_s12_back_to_wait_then_finish(play: Play) -> None:
    owner = play.owner("a:1")
    assert owner.call("moveJobFromActiveToWait-9", talk.back(play.job, "a:1")) == 0
    assert owner.finish(play.job, "a:1") == -2
    assert play.causes() == [("finish", "refused", "already_moved_by_same_owner")]
    assert "(by wait)" in play.lines("finish")[0]["because"]


def test_s13_finished_twice(play: Play) -> None:
    owner = play.owner("a:1")
    assert owner.finish(play.job, "a:1") == 0
    assert owner.finish(play.job, "a:1") == -2
    assert play.causes() == [("finish", "refused", "already_moved_by_same_owner")]


def test_s13_finished_twice_and_removed_by_the_first(play: Play) -> None:
    owner = play.owner("a:1")
    for code in (0, -1):
        assert owner.call("moveToFinished-14", talk.finish(play.job, "a:1", keep=0)) == code
    assert play.causes() == [("finish", "refused", "already_moved_by_same_owner")]


def test_s15_a_stranger_with_an_invented_token(play: Play) -> None:
    owner, stranger = play.owner("a:1"), play.hand()
    assert stranger.finish(play.job, "x:1") == -6
    assert stranger.call("moveToDelayed-11", talk.delay(play.job, "x:1")) == -6
    assert stranger.call("releaseLock-1", talk.release(play.job, "x:1")) == 0
    assert owner.renew(play.job, "a:1") == 1
    assert owner.finish(play.job, "a:1") == 0
    assert play.causes() == [(op, "refused", "never_owner") for op in ("finish", "delay", "release")]


def test_s16_a_job_that_nobody_picked(play: Play) -> None:
    play.born()
    stranger = play.hand()
    assert stranger.finish(play.job, "a:1") == -2
    assert stranger.finish(play.job, "0") == -3
    assert play.causes() == [("finish", "refused", "never_owner")] * 2
    assert "waiting" in play.lines("finish")[0]["because"]


def test_s17_an_empty_token(play: Play) -> None:
    owner, stranger = play.owner("a:1"), play.hand()
    assert stranger.finish(play.job, "") == -6
    assert stranger.renew(play.job, "") == 0
    assert owner.finish(play.job, "a:1") == 0
    assert play.causes() == [("finish", "refused", "never_owner"), ("renew", "refused", "never_owner")]
    assert {line["because"] for line in play.lines() if line["cause"]} == {"The call carried no token."}


def test_s24_a_batch_that_is_lost_in_part(play: Play) -> None:
    owner, second, third = play.owner("a:1"), play.more(2), play.more(3)
    play.add(second)
    assert owner.pick("a:1") == second
    play.born(third)
    play.redis.call("DEL", lock(second).key)
    assert renew_all(owner, [play.job, second, third], ["a:1"] * 3) == [second, third]
    found = {line["job"]: (line["outcome"], line["cause"]) for line in play.lines("renew")}
    assert found == {
        play.job: ("ok", None),
        second: ("refused", "lock_vanished_early"),
        third: ("refused", "never_owner"),
    }
    assert len(play.causes()) == 2


def test_s29_a_child_that_is_not_done(play: Play) -> None:
    owner = play.owner("a:1")
    play.redis.call("SADD", PREFIX + play.job.encode() + b":dependencies", "emq:orders:child")
    assert owner.finish(play.job, "a:1") == -4
    assert play.locked()
    assert owner.renew(play.job, "a:1") == 1
    assert play.causes() == [("finish", "refused", "pending_children")]


def test_s32_a_finish_that_fetches_the_next(play: Play) -> None:
    owner, second = play.owner("a:1"), play.more(2)
    play.add(second)
    found = owner.call("moveToFinished-14", talk.finish(play.job, "a:1", fetch="1"))
    assert found[1].decode() == second
    lines = [(line["op"], line["job"]) for line in play.lines()]
    assert lines == [("acquire", play.job), ("finish", play.job), ("acquire", second)]
    finish, pickup = play.lines()[1:]
    assert (finish["token"], finish["closed_ns"]) == (pickup["token"], pickup["closed_ns"])
    assert owner.finish(second, "a:1") == 0
    assert play.causes() == []


@calm
def test_s33_two_workers_with_one_token(play: Play) -> None:
    first, second = play.owner("SAME", SHORT_MS), play.hand()
    play.swept_back(second)
    assert second.pick("SAME") == play.job
    assert first.finish(play.job, "SAME") == 0
    assert second.finish(play.job, "SAME") == -2
    told = [("acquire", "ok"), ("finish", "ok"), ("finish", "refused")]
    assert play.causes() == [(*line, "fixed_token") for line in told], "the stale finish, that Redis accepted, too"


def test_s36_noscript_and_then_the_text(play: Play) -> None:
    owner = play.owner("a:1")
    play.redis.call("SCRIPT", "FLUSH")
    call = talk.finish(play.job, "a:1")
    assert str(owner.wire.call(*words_of(call))).startswith("NOSCRIPT")
    assert owner.wire.call(*evals(call, "moveToFinished-14")) == 0
    assert [line["outcome"] for line in play.lines("finish")] == ["ok"]
    assert play.causes() == []


def test_s36_noscript_inside_a_transaction(play: Play) -> None:
    owner = play.owner("a:1")
    play.redis.call("SCRIPT", "FLUSH")
    (said,) = queued(owner, words_of(talk.finish(play.job, "a:1")))  # type: ignore[misc]
    assert str(said).startswith("NOSCRIPT")
    assert play.causes() == [("finish", "error", "server_refused")]
    assert owner.finish(play.job, "a:1") == 0


def test_s37_any_case_is_recognised(play: Play) -> None:
    owner = play.owner("a:1")
    owner.wire.call("SCRIPT", "LOAD", text_of("extendLock-2"))
    call = words_of(talk.renew(play.job, "a:1"))
    for name, sha in ((b"evalsha", sha_of("extendLock-2").upper()), (b"EvalSha", sha_of("extendLock-2"))):
        assert owner.wire.call(name, sha, *call[2:]) == 1
    lines = play.lines("renew")
    assert [(line["outcome"], line["match"], line["script"]) for line in lines] == [
        ("ok", "catalogue", "extendLock-2"),
        ("ok", "catalogue", "extendLock-2"),
    ]
    assert play.causes() == []


def test_s38_a_renewal_that_comes_after_the_finish(play: Play) -> None:
    owner = play.owner("a:1")
    assert owner.finish(play.job, "a:1") == 0
    assert renew_all(owner, [play.job], ["a:1"]) == [play.job]
    assert play.causes() == [("renew", "refused", "benign_renew_race")]
