"""When Redis itself is lost, and when only somebody's connection to it."""

from __future__ import annotations

import pytest

from emqproxy.proxy.ties import Ties
from tests.processes import RedisServer
from tests.proxy.hand import add, hand
from tests.proxy.wires import sidecar


def test_redis_is_lost_with_the_last_connection_that_it_ends() -> None:
    lost: list[int] = []
    ties = Ties(lambda: lost.append(ties.count))
    for _ in range(3):
        ties.made()
    ties.gone(by_redis=True)
    ties.gone(by_redis=False)
    assert lost == []
    ties.gone(by_redis=True)
    assert lost == [0]


def test_clients_that_go_lose_nothing() -> None:
    lost: list[int] = []
    ties = Ties(lambda: lost.append(1))
    ties.made()
    ties.gone(by_redis=False)
    assert (lost, ties.count) == ([], 0)


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_the_only_worker_says_quit_and_redis_is_not_lost(mode: str):
    """Redis closes then, and first."""
    with RedisServer() as redis, sidecar(redis.url, "--mode", mode) as proxy:
        add(redis, "1")
        with hand(proxy.port) as worker:
            assert worker.pick(ttl_ms=300) == "1"
            assert worker.wire.call("QUIT") == b"OK"
        lapse = proxy.wait_journal(lambda line: line["op"] == "lapse", 30)
        assert (lapse["job"], lapse["finding"]) == ("1", "sound")
        assert [line["client"] is None for line in proxy.journal() if line["op"] == "conn"] == [False, False]


def test_the_only_worker_of_a_sidecar_dies_and_its_lapse_is_told():
    with RedisServer() as redis, sidecar(redis.url) as proxy:
        add(redis, "1")
        with hand(proxy.port) as worker:
            assert worker.pick(ttl_ms=300) == "1"
        lapse = proxy.wait_journal(lambda line: line["op"] == "lapse", 30)
        assert (lapse["job"], lapse["finding"]) == ("1", "sound")
