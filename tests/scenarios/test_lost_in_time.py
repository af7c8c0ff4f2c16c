"""Scenarios S1, S3 to S10, S27, S28 and S34: locks that are renewed in time, late, or not at all."""

from __future__ import annotations

from tests.processes import eventually
from tests.proxy.hand import Hand
from tests.scenarios.play import SHORT_MS, Play, calm
from tests.scripts import talk
from tests.scripts.talk import PREFIX, lock


def renew_all(hand: Hand, jobs: list[str], tokens: list[str]) -> object:
    found = hand.call("extendLocks-1", talk.renew_all(jobs, tokens, 60_000))
    return [job.decode() for job in found]


def left_ms(play: Play) -> int:
    """What the lock has left; below 0 where there is none."""
    return int(play.redis.call("PTTL", lock(play.job).key)[1:])


def test_s1_nothing_is_wrong(play: Play) -> None:
    owner = play.owner("a:1")
    assert renew_all(owner, [play.job], ["a:1"]) == []
    assert owner.finish(play.job, "a:1") == 0
    assert [(line["op"], line["outcome"]) for line in play.lines()] == [
        ("acquire", "ok"), ("renew", "ok"), ("finish", "ok"),
    ]  # fmt: skip
    assert play.causes() == []
    assert {line["grade"] for line in play.lines("renew")} == {"on_time"}


@calm
def test_s3_late_but_lucky(play: Play) -> None:
    owner = play.owner("a:1", 4000)
    eventually(lambda: left_ms(play) < 450)
    assert owner.renew(play.job, "a:1") == 1
    line = play.lines("renew")[0]
    assert (line["grade"], line["cause"]) == ("critical", "renewal_late")
    assert 0 < line["remaining_ms"] < 480 + play.still_ms()
    assert len(play.causes()) == 1


@calm
def test_s4_expired_and_nobody_swept(play: Play) -> None:
    owner = play.owner("a:1", SHORT_MS)
    play.lapsed()
    assert owner.renew(play.job, "a:1") == 0
    assert renew_all(owner, [play.job], ["a:1"]) == [play.job]
    assert owner.finish(play.job, "a:1") == -2
    assert play.redis.call("LPOS", PREFIX + b"active", play.job) == b":0\r\n"
    refused = [("renew", "refused", "expired_unswept")] * 2
    assert play.causes() == [*refused, ("finish", "refused", "expired_unswept")]
    assert [line["grade"] for line in play.lines("renew")] == ["too_late", "too_late"]


@calm
def test_s5_swept_back_and_not_taken_again(play: Play) -> None:
    owner = play.owner("a:1", SHORT_MS)
    play.swept_back(play.hand())
    assert owner.finish(play.job, "a:1") == -2
    assert play.causes() == [("finish", "refused", "recovered_not_retaken")]
    assert play.lines("reap")[0]["seq"] in play.lines("finish")[0]["evidence"]


@calm
def test_s6_taken_by_another(play: Play) -> None:
    first, second = play.owner("a:1", SHORT_MS), play.hand()
    second.wire.call("CLIENT", "SETNAME", "the-other")
    play.swept_back(second)
    assert second.pick("b:1") == play.job
    assert first.finish(play.job, "a:1") == -6
    assert first.renew(play.job, "a:1") == 0
    assert second.finish(play.job, "b:1") == 0
    assert first.finish(play.job, "a:1") == -2
    mine = [("finish", "refused", "retaken"), ("renew", "refused", "retaken"), ("finish", "refused", "retaken")]
    assert play.causes() == mine
    *held, last = (line["because"] for line in play.lines() if line["cause"])
    assert all("the-other" in words and "holds it now" in words for words in held)
    assert "the-other" in last
    assert "ended it since (by finish)" in last


@calm
def test_s7_the_same_worker_takes_its_own_job_again(play: Play) -> None:
    owner = play.owner("u:1", SHORT_MS)
    play.swept_back(owner)
    assert owner.pick("u:2") == play.job
    assert owner.finish(play.job, "u:1") == -6
    assert play.causes() == [("finish", "refused", "retaken")]
    assert "the same worker, under another token" in play.lines("finish")[0]["because"]


@calm
def test_s9_a_worker_that_talks_and_never_renews(play: Play) -> None:
    owner = play.owner("a:1", 600)
    progress = talk.evalsha(b"", [PREFIX + play.job.encode(), PREFIX + b"events", PREFIX + b"meta"], play.job, "50")

    def work() -> bool:
        assert owner.call("updateProgress-3", progress) == 0
        return not play.locked()

    eventually(work)
    assert owner.finish(play.job, "a:1") == -2
    assert play.causes() == [("finish", "refused", "renew_config")]
    assert play.lines("finish")[0]["idle_ms"] < 300


@calm
def test_s10_renewals_stop(play: Play) -> None:
    owner = play.owner("a:1", 200)
    for _ in range(3):
        assert owner.renew(play.job, "a:1", 200) == 1
    play.lapsed()
    assert owner.finish(play.job, "a:1") == -2
    assert play.causes() == [("finish", "refused", "renew_stopped")]
    assert play.lines("finish")[0]["because"].startswith("3 renewals came, and then none for")


@calm
def test_s27_marked_renewed_and_expired(play: Play) -> None:
    owner, sweeper = play.owner("a:1"), play.hand()
    assert play.sweep(sweeper) == []
    assert owner.renew(play.job, "a:1", SHORT_MS) == 1
    play.lapsed()
    assert play.sweep(sweeper) == []
    assert play.sweep(sweeper) == [play.job]
    assert play.causes() == []
    assert owner.finish(play.job, "a:1") == -2
    assert play.causes() == [("finish", "refused", "recovered_not_retaken")]


@calm
def test_s28_one_stall_is_one_too_many(play: Play) -> None:
    play.owner("a:1", SHORT_MS)
    second = play.hand()
    play.swept_back(second, limit=0)
    assert second.pick("b:1") == play.job
    assert second.call("moveToFinished-14", talk.finish(play.job, "b:1", target="failed")) == 0
    assert play.causes() == [("acquire", "ok", "stall_limit")]
    line = play.lines("acquire")[1]
    assert line["evidence"] == [play.lines("reap")[0]["seq"]]
    assert "once" in line["because"]


@calm
def test_s34_a_renewal_that_shortens_the_lock(play: Play) -> None:
    owner = play.owner("a:1")
    assert owner.renew(play.job, "a:1", 50) == 1
    play.lapsed()
    assert owner.finish(play.job, "a:1") == -2
    assert play.causes() == [("finish", "refused", "expired_unswept")]
    line = play.lines("finish")[0]
    assert line["remaining_ms"] < 50
    assert "50 ms" in line["because"]
