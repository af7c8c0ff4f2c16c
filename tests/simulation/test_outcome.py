"""The shape of `emqproxy simulate --json`: field for field, as README has it. To change one is a breaking change."""

from __future__ import annotations

import json

import msgspec

from emqproxy.simulation.course import play
from emqproxy.simulation.outcome import Outcome
from emqproxy.simulation.settings import Block, Setting

FAILED = Setting(
    lock_duration_ms=1000, renew_ms=700, stalled_interval_ms=2000, first_sweep_ms=500, max_stalled=0,
    blocks=(Block(800, 1000),),
)  # fmt: skip


def test_the_shape() -> None:
    assert json.loads(msgspec.json.encode(play(FAILED))) == {
        "v": 1,
        "setting": {
            "lock_duration_ms": 1000, "renew_ms": 700, "stalled_interval_ms": 2000, "first_sweep_ms": 500,
            "max_stalled": 0, "blocks": [{"at_ms": 800, "for_ms": 1000}], "block_every_attempt": False,
        },
        "outcome": "failed",
        "owned": False,
        "stalls": 1,
        "failed_ms": 4500,
        "until_ms": 4500,
        "attempts": [
            {
                "worker": "worker 1",
                "taken_ms": 0,
                "renewals": [
                    {"at_ms": 700, "outcome": "ok", "grade": "late", "finding": "sound", "age_ms": 700.0,
                     "remaining_ms": 300.0},
                    {"at_ms": 1800, "outcome": "refused", "grade": "too_late", "finding": "straggler",
                     "age_ms": 1100.0, "remaining_ms": -100.0},
                ],
                "lapsed_ms": 1700,
                "recovered_ms": 4500,
                "learned_ms": 1800,
                "end": "lapsed",
            },
            {"worker": "worker 2", "taken_ms": 4500, "renewals": [], "lapsed_ms": None, "recovered_ms": None,
             "learned_ms": None, "end": "released"},
        ],
        "sweeps": [
            {"at_ms": 500, "job": "marked"}, {"at_ms": 2500, "job": "marked"}, {"at_ms": 4500, "job": "over_limit"},
        ],
    }  # fmt: skip


def test_it_can_be_read_back() -> None:
    outcome = play(FAILED)
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome
