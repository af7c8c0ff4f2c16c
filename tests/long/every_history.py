"""Every history of two workers with two connections each, as deep as time allows: `python -m tests.long.every_history`.

    --minutes M   how long (10)
    --enforced    past the judge of enforce mode instead: each scheme of tokens, from each beginning, as deep; then
                  long ones at random for as long again

Prints, for one job and two, from an empty start and from a job that was just picked up, how deep it came and how many
histories that were; ends with exit code 1 at the first that makes the ledger say something untrue.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from emqproxy.locks.ledger import LockLedger
from tests.locks.enforced_histories import enforced_histories, preambles, wandering
from tests.locks.schemes import DOORS, SCHEMES
from tests.locks.simulator import BrokenError, Run
from tests.locks.small_redis import PICKED, histories

STARTS = [(jobs, start, preamble) for jobs in (1, 2) for start, preamble in (("empty", ()), ("picked", PICKED))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--enforced", action="store_true")
    asked = parser.parse_args()
    if asked.enforced:
        return enforced(asked.minutes * 60)
    end = time.monotonic() + asked.minutes * 60
    depth, total = 1, 0
    while True:
        for jobs, start, preamble in STARTS:
            began, count = time.monotonic(), 0
            for history in histories(jobs, depth, preamble):
                try:
                    Run(LockLedger(), jobs).play(history)
                except BrokenError as broken:
                    print(f"untrue: {broken}\n  " + "\n  ".join(map(str, history)))
                    return 1
                count += 1
                if count % 256 == 0 and time.monotonic() > end:
                    print(
                        f"{jobs} job(s), {start}, {depth} choices: {count} histories, not all; {total + count} in all"
                    )
                    return 0
            total += count
            print(
                f"{jobs} job(s), {start}, {depth} choices: all {count} histories, {time.monotonic() - began:.1f} s",
                flush=True,
            )
        depth += 1


def enforced(seconds: float) -> int:
    """Every history past the judge, as deep as the time allows; then as long at random."""
    try:
        _enforced(time.monotonic() + seconds)
        _wandering(time.monotonic() + seconds)
    except BrokenError as broken:
        print(f"wrong: {broken}")
        return 1
    return 0


def _enforced(end: float) -> None:
    total, refused, hidden = 0, 0, 0
    for depth, scheme, jobs in itertools.product(range(1, 100), SCHEMES, (1, 2)):
        began, count = time.monotonic(), 0
        for preamble in preambles(scheme).values():
            for run, _ in enforced_histories(scheme, jobs, depth, preamble):
                count, refused, hidden = count + 1, refused + run.refused, hidden + run.hidden
                if count % 256 == 0 and time.monotonic() > end:
                    print(f"{total + count} histories, not all of {depth} choices: {refused} refusals, {hidden} hidden")
                    return
        total += count
        took_s = time.monotonic() - began
        print(f"{scheme.name}, {jobs} job(s), {depth} choices: all {count} histories, {took_s:.1f} s", flush=True)


def _wandering(end: float) -> None:
    runs, refused, hidden = 0, 0, 0
    schemes = (*SCHEMES, *DOORS)
    for number in itertools.count():
        run = wandering(schemes[number % len(schemes)], number)
        runs, refused, hidden = runs + 1, refused + run.refused, hidden + run.hidden
        if time.monotonic() > end:
            break
    print(f"{runs} long histories: {refused} refusals, {hidden} of a pool that had not shown itself")


if __name__ == "__main__":
    sys.exit(main())
