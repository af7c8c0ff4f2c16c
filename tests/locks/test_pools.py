"""What a pool shows of itself, and how much of it is remembered."""

from __future__ import annotations

import pytest

from emqproxy.locks import pools
from emqproxy.locks.pools import Newest, Pools
from tests.locks.test_claims import Seen


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


def test_a_pool_shows_itself_by_a_token_that_it_made_good_since() -> None:
    """Its first token is used over its other connection when the job was taken again: that is a pool's doing still."""
    seen = Seen()
    for token, conn in [(b"a", 1), (b"b", 2), (b"c", 1)]:  # the third makes good what the first one lost
        seen.fact("grant", token, conn)
    seen.use(b"a", 3)
    seen.fact("grant", b"d", 3)
    assert seen.zombie(1) is None
    seen.fact("grant", b"e", 4)
    assert (seen.zombie(1), seen.zombie(2), seen.zombie(3)) == (None, b"e", None)


@pytest.mark.parametrize("token", [b"a", b"b"])
def test_who_uses_its_own_token_late_is_no_pool(token: bytes) -> None:
    seen = Seen()
    for number, given in enumerate([b"a", b"b", b"c"], 1):
        seen.fact("grant", given, number)
        seen.fact("released", given, number)
    seen.fact("grant", token + b"2", 1 if token == b"a" else 2)
    seen.use(token, 1 if token == b"a" else 2)
    seen.fact("grant", b"e", 4)
    assert seen.zombie(1 if token == b"a" else 2) == b"e"
