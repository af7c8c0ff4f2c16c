"""Scenarios S14, S18 to S23, S25, S26, S30, S31, S39, S40 and S43: what others did, or Redis would not do."""

from __future__ import annotations

import pytest

from tests.processes import RedisServer, eventually
from tests.proxy.hand import Hand
from tests.scenarios.play import LONG_MS, SHORT_MS, Play, calm, stage
from tests.scenarios.test_lost_in_time import renew_all
from tests.scripts import talk
from tests.scripts.older import old_texts
from tests.scripts.talk import PREFIX, keys, lock


def remove(hand: Hand, job: str) -> object:
    return hand.call("removeJob-2", talk.evalsha(b"", keys(job, "repeat"), job, "0", PREFIX))


def obliterate(hand: Hand, force: str = "") -> object:
    return hand.call("obliterate-2", talk.evalsha(b"", [PREFIX + b"meta", PREFIX], 100, force))


def test_s14_a_stranger_finishes_with_the_token_0(play: Play) -> None:
    owner, stranger = play.owner("a:1"), play.hand()
    assert stranger.call("moveToFinished-14", talk.finish(play.job, "0", target="failed")) == 0
    assert owner.renew(play.job, "a:1") == 1
    assert owner.finish(play.job, "a:1") == -3
    assert owner.finish(play.job, "a:1") == -2
    assert play.causes() == [
        ("finish", "ok", "lock_bypass"),
        ("finish", "refused", "lock_bypass"),
        ("finish", "refused", "lock_bypass"),
    ]
    bypass, *refused = play.lines("finish")
    assert all(bypass["seq"] in line["evidence"] for line in refused)
    assert bypass["finding"] == "orphan"


@calm
def test_s18_a_job_is_removed_when_its_lock_has_lapsed(play: Play) -> None:
    owner, other = play.owner("a:1", 200), play.hand()
    assert remove(other, play.job) == 0
    play.lapsed()
    assert remove(other, play.job) == 1
    assert owner.finish(play.job, "a:1") == -1
    assert play.causes() == [("finish", "refused", "job_removed")]
    refused, removed = play.lines("remove")
    assert (refused["outcome"], refused["code_name"], refused["cause"]) == ("refused", "JobLocked", None)
    assert removed["client"] in play.lines("finish")[0]["because"]


def test_s19_a_queue_is_obliterated(play: Play) -> None:
    owner, other = play.owner("a:1"), play.hand()
    assert obliterate(other) == -1
    play.redis.call("HSET", PREFIX + b"meta", "paused", "1")
    assert obliterate(other) == -2
    assert obliterate(other, "force") == 0
    assert owner.finish(play.job, "a:1") == -1
    assert renew_all(owner, [play.job], ["a:1"]) == [play.job]
    assert play.causes() == [("finish", "refused", "job_removed"), ("renew", "refused", "job_removed")]
    assert {line["code_name"] for line in play.lines() if line["script"] == "obliterate-2"} >= {
        "NotPaused", "HasActiveJobs",
    }  # fmt: skip
    assert "obliterate" in play.lines("finish")[0]["because"]


@pytest.mark.parametrize("seen", [True, False])
def test_s20_the_lock_is_deleted_by_hand(play: Play, seen: bool) -> None:
    owner = play.owner("a:1")
    if seen:
        other = play.hand()
        other.wire.call("CLIENT", "SETNAME", "a-hand")
        assert other.wire.call("DEL", lock(play.job).key) == 1
    else:
        play.redis.call("DEL", lock(play.job).key)
    assert renew_all(owner, [play.job], ["a:1"]) == [play.job]
    assert owner.finish(play.job, "a:1") == -2
    cause = "lock_deleted_by" if seen else "lock_vanished_early"
    assert play.causes() == [("renew", "refused", cause), ("finish", "refused", cause)]
    words = play.lines("renew")[0]["because"]
    assert ("a-hand" in words and "DEL" in words) if seen else "should have lived" in words


def test_s21_the_database_is_flushed(play: Play) -> None:
    owner = play.owner("a:1")
    assert play.hand().wire.call("FLUSHDB") == b"OK"
    assert renew_all(owner, [play.job], ["a:1"]) == [play.job]
    assert owner.finish(play.job, "a:1") == -1
    assert play.causes() == [("renew", "refused", "job_removed"), ("finish", "refused", "job_removed")]
    assert "FLUSHDB" in play.lines("renew")[0]["because"]


def test_s21_another_redis_answers_and_it_is_empty() -> None:
    with RedisServer() as redis, stage(redis) as proxy:
        play = Play(redis, proxy)
        play.owner("a:1")
        redis.end()
        proxy.wait_journal(lambda line: line["op"] == "conn" and line["conn"] is None)
        assert redis.start()
        owner = play.hand()
        assert renew_all(owner, [play.job], ["a:1"]) == [play.job]
        assert owner.finish(play.job, "a:1") == -1
        lost = "failover_lost_lock"
        assert play.causes() == [("renew", "refused", lost), ("finish", "refused", lost)]
        play.close()


def test_s22_redis_is_out_of_memory(play: Play) -> None:
    owner = play.owner("a:1")
    play.redis.call("CONFIG", "SET", "maxmemory", "1")
    try:
        said = str(owner.wire.call(b"EVAL", talk.text_of("extendLocks-1"), *_rest(talk.renew_all([play.job], ["a:1"]))))
        assert said.startswith("OOM")
        assert owner.finish(play.job, "a:1") == 0
    finally:
        play.redis.call("CONFIG", "SET", "maxmemory", "0")
    assert play.causes() == [("renew", "error", "server_refused")]
    line = play.lines("renew")[0]
    assert "The lock ends in 59." in line["because"] or "The lock ends in 60.0 s" in line["because"]
    assert line["code_name"] == "OOM"


def _rest(call: list[bytes | None]) -> list[bytes]:
    return [word for word in call[2:] if word is not None]


def test_s23_redis_has_become_a_replica(play: Play) -> None:
    owner = play.owner("a:1")
    play.redis.call("REPLICAOF", "127.0.0.1", "1")
    try:
        call = talk.renew_all([play.job], ["a:1"])
        assert str(owner.wire.call(b"EVAL", talk.text_of("extendLocks-1"), *_rest(call))).startswith("READONLY")
        assert str(owner.finish(play.job, "a:1")).startswith("READONLY")
    finally:
        play.redis.call("REPLICAOF", "NO", "ONE")
    assert owner.renew(play.job, "a:1") == 1
    assert owner.finish(play.job, "a:1") == 0
    assert play.causes() == [("renew", "error", "server_refused"), ("finish", "error", "server_refused")]
    assert not play.lines("lapse")


def test_s25_a_sweep_whose_keys_are_shifted(play: Play) -> None:
    names = ("stalled", "wait", "active", "failed", "stalled-check", "meta", "paused", "marker", "events")
    shifted = talk.evalsha(b"", keys(*names), 1, PREFIX, 1_700_000_000_000)
    assert isinstance(play.hand().call("moveStalledJobsToWait-9", shifted), str)
    assert [(outcome, cause) for _, outcome, cause in play.causes()] == [("error", "script_mismatch")]
    (line,) = play.lines("sweep")
    assert (line["prefix"], line["queue"]) == ("emq", "orders"), "the keys', not what stands where a prefix is expected"


def test_s26_two_sweeps_within_the_guard(play: Play) -> None:
    play.owner("a:1")
    for sweeper in (play.hand(), play.hand()):
        assert sweeper.call("moveStalledJobsToWait-9", talk.sweep(guard_ms=LONG_MS)) == []
    assert play.causes() == []
    assert [line["outcome"] for line in play.lines("sweep")] == ["ok", "ok"]


def test_s30_an_id_whose_job_is_gone(play: Play) -> None:
    play.redis.call("LPUSH", PREFIX + b"wait", play.job)
    assert play.hand().pick("a:1") == play.job
    assert play.causes() == [("acquire", "ok", "ghost_job")]


@pytest.mark.parametrize("ttl_ms", [0, None])
def test_s31_a_pickup_without_a_duration(play: Play, ttl_ms: int | None) -> None:
    play.add()
    assert isinstance(play.hand().call("moveToActive-11", talk.pick("a:1", ttl_ms)), str)
    assert play.redis.call("LPOS", PREFIX + b"active", play.job) == b":0\r\n"
    assert not play.locked()
    assert play.causes() == [("acquire", "error", "pickup_failed_dirty")]


def test_s39_a_job_is_given_out_twice(play: Play) -> None:
    first, second, pusher = play.owner("a:1"), play.hand(), play.hand()
    pusher.wire.call("CLIENT", "SETNAME", "a-pusher")
    assert pusher.wire.pipeline(
        ("LREM", PREFIX + b"active", 1, play.job), ("LPUSH", PREFIX + b"wait", play.job)
    ) == [1, 1]
    assert second.pick("b:1") == play.job
    assert first.renew(play.job, "a:1") == 0
    assert first.finish(play.job, "a:1") == -6
    assert second.finish(play.job, "b:1") == 0
    assert play.causes() == [
        ("acquire", "ok", "double_grant"),
        ("renew", "refused", "double_grant"),
        ("finish", "refused", "double_grant"),
    ]
    assert play.lines("acquire")[1]["finding"] == "double"
    out, pushed = play.lines("raw")
    assert (out["script"], out["target"], pushed["script"], pushed["target"]) == ("LREM", "active", "LPUSH", "wait")
    for line in (play.cause(op, "double_grant") for op in ("acquire", "renew", "finish")):
        assert "a-pusher had put it into wait by hand (LPUSH)" in line["because"]
        assert pushed["seq"] in line["evidence"]


def test_s40_sweeps_of_two_releases_on_one_queue(play: Play) -> None:
    text, _ = old_texts()["moveStalledJobsToWait"]
    sweeper = play.hand()
    assert play.sweep(sweeper) == []
    names = ("stalled", "wait", "active", "stalled-check", "meta", "paused", "marker", "events")
    older = talk.evalsha(b"", keys(*names), 1, PREFIX, 1_700_000_000_000, 1)
    sweeper.wire.call(b"EVAL", text, *_rest(older))
    eventually(lambda: play.redis.call("EXISTS", PREFIX + b"stalled-check") == b":0\r\n")
    assert play.sweep(sweeper) == []
    assert play.causes() == [("sweep", "ok", "script_mismatch")]


@calm
def test_s43_what_was_before_our_start_is_unknown(play: Play) -> None:
    play.owner("a:1", SHORT_MS)
    play.lapsed()
    with stage(play.redis) as restarted:
        later = Play(play.redis, restarted)
        later.name, later.job = play.name, play.job
        assert renew_all(later.hand(), [later.job], ["a:1"]) == [later.job]
        assert later.causes() == [("renew", "refused", "before_our_start")]
        later.close()
