"""Scenarios S2, S8 and S11: an unmodified worker of npm's bullmq, in time, blocked, and that goes on after a move."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.peers import Peer, produce
from tests.e2e.stage import job
from tests.processes import EmqProxy, RedisServer
from tests.scenarios.play import stage

LATE_US = 300_000
"""A worker whose own loop was late by that much may have renewed late."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[EmqProxy]:
    with RedisServer() as redis, stage(redis) as made:
        yield made


@contextlib.contextmanager
def working(proxy: EmqProxy, queue: str, *jobs: dict[str, Any], **options: Any) -> Iterator[Peer]:
    """A worker on a queue with these jobs."""
    config = {"port": proxy.port, "prefix": "emq", "queue": queue}
    assert produce("ioredis", config | {"jobs": jobs, "flows": []})
    peer = Peer("ioredis", "worker", config | {"options": options, "lag_us_min": LATE_US})
    try:
        yield peer
    finally:
        peer.end()


def lines(proxy: EmqProxy, queue: str, last: str) -> list[dict[str, Any]]:
    """A queue's lines of jobs, when one with this outcome of a finish stands among them."""
    proxy.wait_journal(lambda line: line["queue"] == queue and line["op"] == "finish" and line["outcome"] == last, 30)
    mine = [line for line in proxy.journal() if line["queue"] == queue and line["job"] and line["op"] != "watch"]
    return sorted(mine, key=lambda line: line["seq"])


def causes(told: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(line["op"], line["outcome"], line["cause"]) for line in told if line["cause"]]


def test_s2_a_real_worker_renews_in_time(proxy: EmqProxy) -> None:
    slow = job("nap", "long", {"ms": 6500})
    with working(proxy, "s2", slow, lockDuration=8000, stalledInterval=6000) as worker:
        worker.wait(event="completed", job="long")
        told = lines(proxy, "s2", "ok")
        renewals = [line for line in told if line["op"] == "renew"]
        assert len(renewals) >= 2
        assert {line["outcome"] for line in told} == {"ok"}
        if not worker.find(event="lag"):
            assert {line["grade"] for line in renewals} == {"on_time"}
            assert causes(told) == []


def test_s8_a_real_worker_whose_loop_is_blocked(proxy: EmqProxy) -> None:
    blocking = job("block", "b", {"ms": 4500})
    with working(proxy, "s8", blocking, lockDuration=2000, stalledInterval=1500) as worker:
        worker.wait(event="renewal_refused", job="b")
        told = lines(proxy, "s8", "refused")
        assert told
        worker.wait(event="completed", job="b")
        told = lines(proxy, "s8", "ok")
    refused = [line for line in told if line["outcome"] == "refused"]
    assert {(line["op"], line["cause"]) for line in refused} == {
        ("renew", "expired_worker_silent"), ("finish", "expired_worker_silent"),
    }  # fmt: skip
    assert [line["target"] for line in refused if line["op"] == "finish"] == ["completed", "failed"]
    assert len({line["token"] for line in refused}) == 1, "one incident"
    assert len(causes(told)) == len(refused)
    assert refused[0]["idle_ms"] > 4000
    assert "b" in refused[0]["because"].partition("it held")[2]


def test_s11_a_real_worker_that_returns_after_a_move(proxy: EmqProxy) -> None:
    with working(proxy, "s11", job("stray", "d", {"ms": 60_000}), lockDuration=8000) as worker:
        worker.wait(event="active", job="d")
        proxy.wait_journal(lambda line: line["queue"] == "s11" and line["target"] == "failed", 30)
        told = lines(proxy, "s11", "refused")
    refused = [line for line in told if line["outcome"] == "refused"]
    assert [(line["op"], line["target"], line["code"]) for line in refused] == [
        ("finish", "completed", -2), ("finish", "failed", -2),
    ]  # fmt: skip
    assert causes(told) == [("finish", "refused", "already_moved_by_same_owner")] * 2
    assert "(by delay)" in refused[0]["because"]
