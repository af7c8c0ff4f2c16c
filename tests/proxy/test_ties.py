"""When Redis itself is lost, and when only somebody's connection to it."""

from __future__ import annotations

from emqproxy.proxy.ties import Ties


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
