"""Scenario S14 where calls are refused: a stranger's token "0" does nothing, and the owner finishes its job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import RedisServer
from tests.scenarios.in_transactions import evals, queued
from tests.scenarios.play import Play, stage
from tests.scripts import talk

BYPASS = ("moveToFinished-14", "moveToDelayed-11", "retryJob-11", "moveJobFromActiveToWait-9")


@pytest.fixture(scope="module")
def _stage(scenario_redis: RedisServer) -> Iterator[Play]:
    with stage(scenario_redis, "--mode", "enforce") as proxy:
        yield Play(scenario_redis, proxy)


@pytest.fixture
def strict(_stage: Play) -> Iterator[Play]:
    _stage.anew()
    yield _stage
    _stage.close()


def bypass(label: str, job: str) -> list[bytes | None]:
    calls = (talk.finish, talk.delay, talk.retry, talk.back)
    return calls[BYPASS.index(label)](job, "0")


@pytest.mark.parametrize("label", BYPASS)
def test_s14_a_stranger_s_token_0_is_refused(strict: Play, label: str) -> None:
    owner, stranger = strict.owner("a:1"), strict.hand()
    assert stranger.call(label, bypass(label, strict.job)) == -6
    assert owner.renew(strict.job, "a:1") == 1
    assert owner.finish(strict.job, "a:1") == 0
    assert strict.causes() == [], "nothing was lost"
    blocked = strict.lines()[1]
    assert (blocked["outcome"], blocked["action"], blocked["rule"], blocked["code"]) == (
        "blocked", "blocked", "zero_token", -6,
    )  # fmt: skip
    assert [line["outcome"] for line in strict.lines()] == ["ok", "blocked", "ok", "ok"]


def test_s14_inside_a_transaction_nothing_of_it_runs(strict: Play) -> None:
    owner, stranger = strict.owner("a:1"), strict.hand()
    assert stranger.wire.call("MULTI") == b"OK"
    assert stranger.wire.call(*evals(talk.finish(strict.job, "0"), "moveToFinished-14")) == -6
    assert "EXECABORT" in str(stranger.wire.call("EXEC"))
    assert owner.finish(strict.job, "a:1") == 0
    assert strict.causes() == []


def test_s14_once_the_job_is_free_the_token_0_goes_on(strict: Play) -> None:
    owner, stranger = strict.owner("a:1"), strict.hand()
    assert owner.finish(strict.job, "a:1") == 0
    assert queued(stranger, evals(talk.finish(strict.job, "0"), "moveToFinished-14")) == [-3]
    assert [line["outcome"] for line in strict.lines()] == ["ok", "ok", "refused"]
