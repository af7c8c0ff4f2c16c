"""What a pool shows of itself, and how much of it is remembered."""

from __future__ import annotations

import pytest

from emqproxy.locks import pools
from emqproxy.locks.pools import Newest, Pools


def test_a_set_of_the_newest() -> None:
    kept: Newest[int] = Newest(2)
    for key in (1, 2, 1, 3):
        kept.add(key)
    assert (1 in kept, 2 in kept, 3 in kept, len(kept)) == (True, False, True, 2)
    kept.discard(1)
    kept.discard(1)
    assert (1 in kept, len(kept)) == (False, 1)


def test_a_token_used_over_two_connections_makes_a_pool_of_them() -> None:
    known = Pools()
    known.shared(b"A", 1, 2)
    assert known.has_token(b"A")
    assert known.has_conn(1)
    assert known.has_conn(2)
    assert not known.has_token(b"B")
    assert not known.has_conn(3)


def test_a_worker_that_connects_anew_is_no_pool_but_its_token_is_used_over_two() -> None:
    known = Pools()
    known.hang_up(1)
    known.shared(b"A", 1, 2)
    assert known.has_token(b"A")
    assert not known.has_conn(2)


def test_a_doubtful_token_says_nothing_of_connections() -> None:
    known = Pools()
    known.unsure(b"A")
    assert known.has_token(b"A")
    assert not known.has_conn(1)


def test_who_speaks_for_what_was_taken_elsewhere_is_of_a_pool() -> None:
    known = Pools()
    known.elsewhere(b"A", 1)
    assert known.has_token(b"A")
    assert known.has_conn(1)


def test_a_closed_connection_is_of_no_pool_any_more() -> None:
    known = Pools()
    known.shared(b"A", 1, 2)
    known.hang_up(1)
    assert not known.has_conn(1)
    assert known.has_conn(2)


def test_memory_is_bounded_and_what_is_used_so_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKENS_MAX", "CONNS_MAX", "CLOSED_MAX"):
        monkeypatch.setattr(pools, name, 10)
    known = Pools()
    for number in range(100):
        known.shared(b"%d" % number, 1000 + number, 2000 + number)
        known.shared(b"A", 1, 2)
        known.hang_up(5000 + number)
    assert known.has_token(b"A")
    assert known.has_conn(1)
    assert not known.has_token(b"80")
    assert len(known._tokens) == len(known._conns) == len(known._closed) == 10
