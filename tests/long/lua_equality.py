"""Our scripts against the released ones, on very many random sequences: `python -m tests.long.lua_equality`.

    --sequences N   how many (50,000; `tests/lua` plays 1,000)
    --seed S        which ones (0)
    --workers W     processes (one a core)
    --again HEX,…   plays one sequence, as a difference names it, and prints what it does

Ends with exit code 1 at the first difference that tests/lua/differences.toml does not explain, made small.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.lua.play import UnequalError, play
from tests.lua.sequences import EXAMPLES_MAX, hold, stage
from tests.lua.twins import LANES, Twins

CHUNK = EXAMPLES_MAX * LANES


@functools.cache
def _twins() -> Twins:
    """One a process; its server ends with it."""
    return stage()


def _chunk(job: tuple[int, int]) -> tuple[int, int, str]:
    """(number of the first sequence, how many) → sequences, steps, and the first difference, if any."""
    start, count = job
    try:
        return count, hold(_twins(), count, start), ""
    except UnequalError as unequal:
        return count, 0, str(unequal)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", default="")
    asked = parser.parse_args()
    if asked.again:
        return _again(asked.again)
    jobs = [(asked.seed * 1_000_000 + at, min(CHUNK, asked.sequences - at)) for at in range(0, asked.sequences, CHUNK)]
    began, sequences, steps = time.monotonic(), 0, 0
    # An executor lets its processes end by themselves, and so the servers that they started; a pool kills them.
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_chunk, job) for job in jobs]):
            count, more, difference = done.result()
            if difference:
                print(difference)
                pool.shutdown(wait=True, cancel_futures=True)
                return 1
            sequences, steps = sequences + count, steps + more
            print(f"{sequences} sequences, {steps} steps, {time.monotonic() - began:.0f} s", flush=True)
    print(f"no difference in {sequences} sequences, {steps} steps")
    return 0


def _again(text: str) -> int:
    with stage() as twins:
        try:
            print("\n".join(play(twins, [[bytes.fromhex(word) for word in text.split(",")]])[0]))
        except UnequalError as unequal:
            print(unequal)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
