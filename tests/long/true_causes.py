"""Stated causes against true ones, over thousands of losses: `python -m tests.long.true_causes`.

    --losses N    how many lines that need a cause (10000)
    --seed N      the first world's seed (0); a seed repeats its world to the nanosecond
    --real N      instead so many of them in real time, through a real sidecar (0)
    --show N      so many of what was said that is not so (20)

Worlds in virtual time on a real Redis with the real scripts. Prints the confusion table. Exit code 1: a stated cause
was wrong, a figure in a sentence was not as it truly was, or less than 99 % of what the wire can decide were right.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.causes.account import Figures
from tests.causes.playing import play
from tests.causes.playing_real import play_real
from tests.causes.table import drawn
from tests.processes import RedisServer

VIRTUAL_TOLERANCE_MS, REAL_TOLERANCE_MS = 4.0, 100.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", type=int, default=0)
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    began = time.monotonic()
    figures = Figures(REAL_TOLERANCE_MS if options.real else VIRTUAL_TOLERANCE_MS)
    if options.real:
        worlds = play_real(options.real, options.seed, figures)
    else:
        with RedisServer() as server:
            worlds = play(server, options.losses, options.seed, figures)[1] - options.seed
    for line in figures.said[: options.show]:
        print(line)
    print(drawn(figures))
    print(f"{worlds} worlds; {time.monotonic() - began:.0f} s")
    return 0 if figures.good else 1


if __name__ == "__main__":
    sys.exit(main())
