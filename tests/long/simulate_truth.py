"""Holds `emqproxy simulate` against what really happens: real Redis, real scripts, real time, random settings.

    python -m tests.long.simulate_truth --settings 50

Each instant that is simulated must be within 50 ms of the real one: pickups, renewals, the lock's end (looked for every
2 ms), the sweep that puts the job back, what a worker learns too late, the failure for good. Exit code 1 where one is
not. Half a minute for 50; as root it goes before other processes, else run it where little else does. What is decided
by less than 70 ms is not drawn.
"""

from __future__ import annotations

import argparse
import random
import sys

from tests.processes import RedisServer
from tests.simulation.draw import settings
from tests.simulation.punctual import play_all

BOUND_MS = 50.0


def main() -> int:
    """1 where an instant is further away than BOUND_MS."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--settings", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    drawn = settings(random.Random(options.seed), options.settings)
    kinds = {kind: sum(outcome.outcome == kind for outcome in drawn) for kind in ("owned", "recovered", "failed")}
    print(f"seed {options.seed}: {len(drawn)} settings, {kinds}", flush=True)
    with RedisServer() as server:
        played = play_all(server, drawn, options.at_once)
    bad = 0
    for outcome, found, slack_ms in played:
        for instant in found:
            if instant.apart_ms > BOUND_MS:
                bad += 1
                print(f"{outcome.setting}: {instant}; our own lateness {slack_ms:.0f} ms")
    apart = sorted(instant.apart_ms for _, found, _ in played for instant in found if instant.simulated_ms is not None)
    late = max(slack_ms for _, _, slack_ms in played)
    at_95, middle = apart[len(apart) * 95 // 100], apart[len(apart) // 2]
    print(f"{len(apart)} instants: {apart[-1]:.1f} ms apart at most, {at_95:.1f} ms at the 95th percentile,")
    print(f"median {middle:.1f} ms; {bad} past {BOUND_MS:.0f} ms; our own lateness in a setting {late:.1f} ms at most")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
