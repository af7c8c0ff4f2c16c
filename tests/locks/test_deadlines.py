"""One instant a lock, and a heap that stays small."""

from __future__ import annotations

import random

from emqproxy.locks.deadlines import STALE_MAX, Deadlines
from tests.locks.history import job


def taken(deadlines: Deadlines, now: int) -> list[int]:
    found = []
    while (lock := deadlines.take(now)) is not None:
        found.append(int(lock.key.split(b":")[2]))
    return found


def test_the_earliest_first_and_each_once() -> None:
    deadlines = Deadlines()
    for number, at in [(1, 30), (2, 10), (3, 20)]:
        deadlines.no_later(job(number), at)
    assert deadlines.first() == 10
    assert taken(deadlines, 9) == []
    assert taken(deadlines, 20) == [2, 3]
    assert taken(deadlines, 100) == [1]
    assert deadlines.first() is None


def test_a_later_instant_changes_nothing_an_earlier_one_counts() -> None:
    deadlines = Deadlines()
    deadlines.no_later(job(1), 20)
    deadlines.no_later(job(1), 30)
    assert deadlines.first() == 20
    deadlines.no_later(job(1), 10)
    assert taken(deadlines, 100) == [1]


def test_what_was_dropped_is_not_due() -> None:
    deadlines = Deadlines()
    deadlines.no_later(job(1), 10)
    deadlines.no_later(job(2), 20)
    deadlines.drop(job(1))
    deadlines.drop(job(3))
    assert deadlines.first() == 20
    assert taken(deadlines, 100) == [2]


def test_what_was_taken_may_be_due_again_at_the_same_instant() -> None:
    deadlines = Deadlines()
    deadlines.no_later(job(1), 30)
    deadlines.no_later(job(1), 10)
    assert taken(deadlines, 10) == [1]
    deadlines.no_later(job(1), 30)
    assert taken(deadlines, 40) == [1]


def test_ever_earlier_deadlines_do_not_fill_the_heap() -> None:
    deadlines = Deadlines()
    for at in range(20_000, 0, -1):
        deadlines.no_later(job(1), at)
        deadlines.no_later(job(at), at)
        deadlines.drop(job(at + 10))
    assert len(deadlines) <= STALE_MAX + 2 * 11
    assert deadlines.first() == 1


def test_as_a_sorted_list_would_do_it() -> None:
    rng = random.Random(7)
    deadlines, model = Deadlines(), {}
    for now in range(3_000):
        number, at = rng.randrange(40), now + rng.randrange(1, 60)
        if rng.random() < 0.2:
            deadlines.drop(job(number))
            model.pop(number, None)
        else:
            deadlines.no_later(job(number), at)
            model[number] = min(at, model.get(number, at))
        due = sorted(n for n, due_at in model.items() if due_at <= now)
        assert sorted(taken(deadlines, now)) == due
        for n in due:
            del model[n]
        assert deadlines.first() == min(model.values(), default=None)
