"""Who speaks in a job's lines: no two by one name, and one worker's connections by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from emqproxy.explain_names import NAME_MAX, Names
from emqproxy.journal_lines import JournalLine
from tests.observer.records_factory import OTHER_TOKEN, Numbers, Story
from tests.test_explain_story import read

SAME = "ad30d99f658d5e0e"


@pytest.fixture
def pickup(tmp_path: Path) -> JournalLine:
    """With a token that has no worker in it, by nobody who has a name."""
    (line,) = read(tmp_path, Story().acquire(0))
    return replace(line, token=SAME, worker=None, client_name=None, client="10.0.0.1:1")


def test_two_workers_of_one_name_are_told_apart(tmp_path: Path) -> None:
    numbers, names = Numbers(), Names()
    first, second = Story(numbers=numbers), Story(token=OTHER_TOKEN, numbers=numbers)
    one, two, again = read(tmp_path, first.acquire(0), second.acquire(1), first.finish(2))
    assert [names.of(replace(line, client_name="w")) for line in (one, two, again)] == ["w", "w (2)", "w"]
    assert names.of(replace(one, token=None, worker=None, client_name="w")) == "w"
    assert names.of(replace(one, client_name=None, worker="f" * 16)).startswith("worker ffffffff")


def test_another_name_under_one_token_is_another(pickup: JournalLine) -> None:
    names = Names()
    one, two = replace(pickup, client_name="raw-a"), replace(pickup, client_name="raw-b", client="10.0.0.1:2")
    lapse = replace(pickup, effect="lapsed", client=None, conn=None)
    finish = replace(two, effect="released")
    told = [names.of(line) for line in (one, lapse, two, finish, lapse, replace(one, effect="held_by_other"))]
    assert told == ["raw-a", "raw-a", "raw-b", "raw-b", "raw-b", "raw-a"]


def test_a_pickup_from_another_address_with_the_same_token_is_another_s(pickup: JournalLine) -> None:
    names, other = Names(), replace(pickup, client="10.0.0.2:1")
    finish = replace(other, effect="released")
    again = replace(pickup, effect="renewed")
    told = [names.of(line) for line in (pickup, other, finish, again)]
    assert told == ["worker ad30d99f", "worker ad30d99f (2)", "worker ad30d99f (2)", "worker ad30d99f"]


def test_a_pool_of_one_worker_s_connections_is_one(pickup: JournalLine) -> None:
    """A token a pickup, calls over any connection; and one that says only later what it is called."""
    names, worker = Names(), "ab" * 8
    lines = [
        replace(pickup, token=f"{at // 2:016x}", worker=worker, client=f"10.0.0.1:{at % 3}", effect=effect)
        for at, effect in enumerate(["granted", "released"] * 4)
    ]
    lines.append(replace(lines[-1], client_name="pool"))
    lines.append(replace(lines[-1], client="10.0.0.1:9"))
    assert {names.of(line) for line in lines} == {"worker abababab"}


def test_long_names_are_told_short_and_stay_apart() -> None:
    names = Names()
    one, two = (f"{'w' * 2_000}{letter}{'w' * 2_000}" for letter in "xy")
    told = [names.shortened(name) for name in (one, two, one, "w" * NAME_MAX)]
    assert told == [f"{'w' * 40}…{'w' * 15}", f"{'w' * 40}…{'w' * 15} (2)", told[0], "w" * NAME_MAX]
    assert names.shortened_in(f"{one} and {two}") == f"{told[0]} and {told[1]}"
    assert names.shortened_in(None) is None


def test_who_says_only_later_what_it_is_called_may_have_a_long_name(pickup: JournalLine) -> None:
    names, long = Names(), "w" * 4_000
    told = [names.of(line) for line in (pickup, replace(pickup, client_name=long))]
    assert told == ["worker ad30d99f"] * 2
    assert len(names.shortened_in(f"{long} did it")) < NAME_MAX + 10
