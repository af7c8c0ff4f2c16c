"""The short form of `python -m tests.long.simulate_truth`: some settings played for real, at once, in a few seconds.

On a busy machine our own threads are late, and then no instant can be told: each course measures by how much. Orders
that decide something are MARGIN_MS apart, so up to that lateness the course must be as simulated, each instant within
the bound and the lateness; past it nothing is known, and the setting is played again.
"""

from __future__ import annotations

import random

import pytest

from tests.long.simulate_truth import BOUND_MS
from tests.processes import RedisServer
from tests.simulation.draw import MARGIN_MS, settings
from tests.simulation.punctual import play_all

SETTINGS = 8
ROUNDS = 3


def test_it_is_as_simulated(redis_server: RedisServer) -> None:
    left = settings(random.Random(25), SETTINGS, long_ms=2_800)
    told = 0
    for _ in range(ROUNDS):
        again = []
        for outcome, found, late_ms in play_all(redis_server, left, SETTINGS):
            if late_ms >= MARGIN_MS:
                again.append(outcome)
                continue
            told += 1
            apart = [instant for instant in found if instant.apart_ms > BOUND_MS + late_ms]
            assert not apart, f"{outcome.setting}, our own lateness {late_ms:.0f} ms"
        if not (left := again):
            break
    if told < SETTINGS // 2:
        pytest.skip(f"the machine is too busy to tell: {told} of {SETTINGS} settings could be timed")
