"""What Redis says of its memory, as steps, and what that says of a time."""

from __future__ import annotations

import pytest

from emqproxy.locks.evictions import KEPT_MAX, Evictions, Memory


def memory(at: int, evicted: int, policy: str = "volatile-lru", maxmemory: int = 1 << 30) -> Memory:
    return Memory(at, policy, maxmemory, evicted)


def heard(*all_of_them: Memory) -> Evictions:
    evictions = Evictions()
    for each in all_of_them:
        evictions.heard(each)
    return evictions


def test_only_what_is_new_is_told_with_what_was_last() -> None:
    evictions = Evictions()
    assert evictions.heard(memory(1, 5)) == (memory(1, 5),)
    assert evictions.heard(memory(2, 5)) == ()
    assert evictions.heard(memory(3, 5)) == ()
    assert evictions.heard(memory(4, 7)) == (memory(3, 5), memory(4, 7))
    assert evictions.heard(memory(5, 9)) == (memory(4, 7), memory(5, 9))
    assert evictions.heard(memory(6, 9, "noeviction")) == (memory(5, 9), memory(6, 9, "noeviction"))


def test_what_was_told_gives_the_same_again() -> None:
    """As `replay` hears it: nothing but what is new, from the beginning, or from anywhere."""
    live = Evictions()
    said = (memory(1, 5), memory(2, 5), memory(4, 7), memory(5, 7), memory(9, 8))
    told = [live.heard(each) for each in said]
    flat = [each for news in told for each in news]
    for instant in range(11):
        assert heard(*flat).since(instant) == live.since(instant)
    later = heard(*told[-1])
    assert later.since(6) == live.since(6) == (memory(5, 7), memory(9, 8))


def test_keys_that_were_evicted_since() -> None:
    evictions = heard(memory(10, 5), memory(20, 5), memory(30, 8))
    assert evictions.since(5) == (memory(10, 5), memory(30, 8)), "nothing was known before"
    assert evictions.since(15) == (memory(10, 5), memory(30, 8))
    assert evictions.since(25) == (memory(20, 5), memory(30, 8))
    assert evictions.since(30) is None, "none since"


@pytest.mark.parametrize("policy", ["noeviction", "some-day"])
def test_a_policy_that_evicts_nothing(policy: str) -> None:
    assert heard(memory(10, 5, policy), memory(20, 8, policy)).since(5) is None


def test_without_a_limit_nothing_is_evicted() -> None:
    assert heard(memory(10, 5, maxmemory=0), memory(20, 8, maxmemory=0)).since(5) is None


def test_where_nothing_was_heard_nothing_is_known() -> None:
    assert Evictions().since(5) is None


def test_a_count_that_fell_is_another_redis_s() -> None:
    evictions = heard(memory(10, 500), memory(20, 3))
    assert evictions.since(5) is None
    evictions.heard(memory(30, 4))
    assert evictions.since(5) == (memory(20, 3), memory(30, 4))


def test_it_is_bounded() -> None:
    evictions = heard(*(memory(at, at) for at in range(2 * KEPT_MAX)))
    before, last = evictions.since(0) or (None, None)
    assert before == memory(KEPT_MAX, KEPT_MAX)
    assert last == memory(2 * KEPT_MAX - 1, 2 * KEPT_MAX - 1)
