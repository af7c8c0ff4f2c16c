"""Every history of two workers with two connections each, as deep as time allows: `python -m tests.long.every_history`.

    --minutes M   how long (10)

Prints, for one job and two, from an empty start and from a job that was just picked up, how deep it came and how many
histories that were; ends with exit code 1 at the first that makes the ledger say something untrue.
"""

from __future__ import annotations

import argparse
import sys
import time

from emqproxy.locks.ledger import LockLedger
from tests.locks.simulator import BrokenError, Run
from tests.locks.small_redis import PICKED, histories

STARTS = [(jobs, start, preamble) for jobs in (1, 2) for start, preamble in (("empty", ()), ("picked", PICKED))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    end = time.monotonic() + parser.parse_args().minutes * 60
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


if __name__ == "__main__":
    sys.exit(main())
