"""The short form of `python -m tests.long.simulate_truth`: some settings played for real, at once, in a few seconds.

On a busy machine our own threads are late, and then no instant can be told: each course measures by how much. Orders
that decide something are MARGIN_MS apart, so up to that lateness the course must be as simulated, each instant within
the bound and the lateness; past it nothing is known, and the setting is played again.
"""

from __future__ import annotations

import random

import pytest

from emqproxy.simulation.course import play
from emqproxy.simulation.outcome import Outcome
from emqproxy.simulation.settings import Block, Setting
from tests.long.simulate_truth import BOUND_MS
from tests.processes import RedisServer
from tests.simulation.draw import MARGIN_MS, end_ms, is_clear, settings
from tests.simulation.punctual import play_all

ROUNDS = 3
LONG_MS = 2_800


def outcome(
    lock_ms: int,
    renew_ms: int,
    interval_ms: int,
    first_ms: int,
    most: int,
    *blocks: tuple[int, int],
    every: bool = False,
) -> Outcome:
    return play(
        Setting(
            lock_duration_ms=lock_ms,
            renew_ms=renew_ms,
            stalled_interval_ms=interval_ms,
            first_sweep_ms=first_ms,
            max_stalled=most,
            blocks=tuple(Block(*block) for block in blocks),
            block_every_attempt=every,
        )
    )


OUTCOMES = [
    outcome(645, 559, 1422, 1164, 1),
    outcome(900, 300, 450, 200, 1, (500, 500)),  # survived
    outcome(557, 398, 613, 278, 2, (320, 929), (2497, 1231)),
    outcome(525, 322, 299, 351, 2, (196, 1694)),
    outcome(803, 284, 795, 237, 1, (128, 1910)),
    outcome(848, 1993, 494, 1412, 0, (372, 77), (2315, 196), every=True),
    outcome(423, 1737, 783, 182, 1, (2288, 1216), every=True),
    outcome(500, 200, 475, 300, 1, (300, 1000), every=True),  # the job blocks whoever takes it
]
"""Of each kind; drawn once, but for those with a remark."""


def test_they_are_of_each_kind_and_can_be_timed() -> None:
    assert [o.outcome for o in OUTCOMES] == ["owned"] * 2 + ["recovered"] * 3 + ["failed"] * 3
    assert all(is_clear(o) and end_ms(o) <= LONG_MS for o in OUTCOMES)


def test_what_is_drawn_is_of_each_kind_and_can_be_timed() -> None:
    drawn = settings(random.Random(28), 3, LONG_MS)
    assert [o.outcome for o in drawn] == ["owned", "recovered", "failed"]
    assert all(is_clear(o) and end_ms(o) <= LONG_MS for o in drawn)


def test_it_is_as_simulated(redis_server: RedisServer) -> None:
    left, told = OUTCOMES, 0
    for _ in range(ROUNDS):
        again = []
        for simulated, found, late_ms in play_all(redis_server, left, len(OUTCOMES)):
            if late_ms >= MARGIN_MS:
                again.append(simulated)
                continue
            told += 1
            apart = [instant for instant in found if instant.apart_ms > BOUND_MS + late_ms]
            assert not apart, f"{simulated.setting}, our own lateness {late_ms:.0f} ms"
        if not (left := again):
            break
    if told < len(OUTCOMES) // 2:
        pytest.skip(f"the machine is too busy to tell: {told} of {len(OUTCOMES)} settings could be timed")
