"""Soundness: over every short history, and many long ones, each thing the ledger says is true.

The long form (every history that ten minutes of one core allow) is `python -m tests.long.every_history`.
"""

from __future__ import annotations

import random

import pytest

from emqproxy.locks.account import Account
from emqproxy.locks.events import Place
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Finding
from tests.locks.simulator import BrokenError, Run
from tests.locks.small_redis import PICKED, Ask, Choice, after, begin, choices, histories


class ArrivalOrder(LockLedger):
    """What a ledger would be that takes facts in the order in which their answers are read, and waits for nothing."""

    def _wait(self, account: Account, before: int, conn: int | None = None) -> set[Place]:  # noqa: ARG002
        return set()


def wandering(seed: int) -> tuple[int, list[Choice]]:
    """A long history: how many jobs, and what happened."""
    rnd = random.Random(seed)
    jobs = rnd.choice((1, 2))
    m, history = begin(jobs), []
    for _ in range(rnd.randint(8, 60)):
        choice = rnd.choice(list(choices(m, leaps_max=8)))
        history.append(choice)
        m = after(m, choice)
    return jobs, history


@pytest.mark.parametrize(("jobs", "depth", "preamble"), [(1, 4, ()), (2, 4, ()), (1, 5, PICKED), (2, 4, PICKED)])
def test_every_short_history(jobs: int, depth: int, preamble: tuple[Choice, ...]) -> None:
    for history in histories(jobs, depth, preamble):
        Run(LockLedger(), jobs).play(history)


@pytest.mark.parametrize("batch", range(4))
def test_long_histories(batch: int) -> None:
    for seed in range(batch * 700, batch * 700 + 700):
        jobs, history = wandering(seed)
        Run(LockLedger(), jobs).play(history)


def test_taking_facts_as_they_arrive_is_not_sound() -> None:
    broken = 0
    for seed in range(700):
        jobs, history = wandering(seed)
        try:
            Run(ArrivalOrder(), jobs).play(history)
        except BrokenError:
            broken += 1
    assert broken > 5


def test_the_simulator_can_be_lied_to() -> None:
    """A lock deleted behind everybody's back is not put down to nobody."""
    run = Run(LockLedger(), 1).play(PICKED)
    run.m = run.m._replace(locks=(None,))
    with pytest.raises(BrokenError, match=Finding.DISPUTED.word):
        run.play([("send", 0, Ask("renew", 0, b"w0:0")), ("run", 0, None), ("read", 0, None)])
