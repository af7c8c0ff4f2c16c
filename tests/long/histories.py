"""Random histories on a real Redis with real scripts: laws 4, 5 and 6. `python -m tests.long.histories`.

    --count N    how many (20000)
    --seed N     the first one's seed (0); timing is not repeated by a seed, what is attempted is

Prints the figures; of a history of which the ledger said something untrue, what it was, what reached the ledger and
what was true, and ends with exit code 1. Code 2: no history was untrue of a ledger that takes facts as they are read,
so these histories test nothing.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.locks.playing import Figures, play

BATCH = 1_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began, total = time.monotonic(), Figures()
    for first in range(options.seed, options.seed + options.count, BATCH):
        figures = play(range(first, min(first + BATCH, options.seed + options.count)))
        for story in figures.broken:
            print(story)
        total.add(figures)
        print(f"{total.line()}; {time.monotonic() - began:.0f} s", flush=True)
    print("findings:", ", ".join(f"{word} {count}" for word, count in total.findings.most_common()))
    if total.untrue:
        return 1
    return 0 if total.arrival_order_untrue else 2


if __name__ == "__main__":
    sys.exit(main())
