"""The short way of a healthy fact says exactly what the long way says, and nearly every fact takes it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings

from emqproxy.locks.events import AnyFact, Instant
from emqproxy.locks.healthy import HealthyLane
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Verdict
from tests.locks.history import History
from tests.locks.simulator import Run
from tests.locks.small_redis import Choice, after, begin, choices
from tests.locks.test_laws import Step, Ticking, histories, never, play, restless, sluggish, timely


class _Counting(HealthyLane):
    """The lane, and how often it was taken."""

    taken = 0

    def hear(self, fact: AnyFact, unsure_until: Instant) -> Verdict | None:
        verdict = super().hear(fact, unsure_until)
        self.taken += verdict is not None
        return verdict


class _Closed(HealthyLane):
    """No fact is taken for healthy: each is weighed."""

    def hear(self, fact: AnyFact, unsure_until: Instant) -> Verdict | None:  # noqa: ARG002
        return None


def _ledger(lane: type[HealthyLane]) -> LockLedger:
    ledger = LockLedger()
    ledger._lane = lane(ledger._accounts, ledger._flights, ledger._deadlines, ledger._grading)
    return ledger


@pytest.mark.parametrize("ticking", [never, timely, restless, sluggish])
@settings(max_examples=150, deadline=None)
@given(events=histories)
def test_both_ways_say_the_same_of_any_facts(ticking: Ticking, events: list[Step]) -> None:
    short, long = (play(events, ticking, _ledger(lane)) for lane in (_Counting, _Closed))
    assert short.said == long.said
    assert short.ledger.open_attempts() == long.ledger.open_attempts()
    assert short.ledger.next_deadline() == long.ledger.next_deadline()


def _quiet(seed: int) -> list[Choice]:
    """A history in which answers come soon and renewals often, so that nothing else is out at most of them."""
    chance, m = random.Random(seed), begin(1)
    history: list[Choice] = []
    for _ in range(chance.randint(20, 80)):
        ways = list(choices(m, leaps_max=6))
        soon = [way for way in ways if way[0] in {"run", "read"}]
        renewals = [way for way in ways if way[2] is not None and way[2].kind == "renew"]
        likely = soon if soon and chance.random() < 0.8 else renewals if chance.random() < 0.7 else ways
        history.append(chance.choice(likely or ways))
        m = after(m, history[-1])
    return history


def test_both_ways_say_the_same_of_what_a_redis_can_have_made() -> None:
    taken = 0
    for seed in range(300):
        history = _quiet(seed)
        short, long = (Run(_ledger(lane), 1).play(history) for lane in (_Counting, _Closed))
        assert short.verdicts == long.verdicts
        assert isinstance(short.ledger._lane, _Counting)
        taken += short.ledger._lane.taken
    assert taken > 200, "hardly a fact went the short way: nothing was compared"


def test_a_worker_that_keeps_its_lock_is_told_the_short_way() -> None:
    ledger = _ledger(_Counting)
    history = History(ledger)
    history.do(0, "grant")
    for second in range(1, 100):
        history.tick(second * 4_000 - 1)  # the data plane's timer fires in between
        verdict = history.one(second * 4_000, "renewed")
        assert verdict.attempt is not None
        assert verdict.attempt.renewals == second
    assert isinstance(ledger._lane, _Counting)
    history.one(99 * 4_000 + 1, "released")
    assert ledger._lane.taken == 101
