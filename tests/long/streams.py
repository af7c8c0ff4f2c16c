"""Values of half a GiB through a sidecar, both ways, in every form a worker has: `python -m tests.long.streams`.

    --mib M     how large each value is (512, Redis's own limit for a word)

Takes about 10 GiB of memory, for Redis's copies and this client's, and a minute or two. Each scene prints how long it
took and how much the sidecar has grown since it was ready: exit code 1 where that is ever more than 64 MiB, or where
one byte or one line of the journal is not what it should be.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.processes import RedisServer
from tests.proxy import streams
from tests.proxy.streams import Client, Stage, Value
from tests.proxy.wires import sidecar

GROWN_MIB_MAX = 64
LIMITS = {"proto-max-bulk-len": "1gb", "client-query-buffer-limit": "4gb"}


def scenes(stage: Stage, value: Value) -> dict[str, Callable[[], None]]:
    """By what is done: nobody reads the value, or somebody what stands behind it."""

    def on(resp: int, play: Callable[[Client], None]) -> Callable[[], None]:
        def run() -> None:
            with Client(stage.proxy.port, resp) as client:
                play(client)

        return run

    return {
        "SET and GET": on(2, lambda client: stage.set_and_get(client, value)),
        "SET and GET, RESP 3": on(3, lambda client: stage.set_and_get(client, value)),
        "job data, return value": on(2, lambda client: stage.play(client, value, value)),
        "job data, return value, EVAL": on(2, lambda client: stage.play(client, value, value, eval_=True)),
        "job data, return value, RESP 3": on(3, lambda client: stage.play(client, value, value)),
        "GET and return value in EXEC": on(2, lambda client: stage.play_in_exec(client, value, value)),
        "job data in EXEC, RESP 3": on(3, lambda client: stage.acquire_in_exec(client, value)),
        "an array of small elements": on(2, lambda client: stage.listed(client, value.mib)),
        "a client that does not read": lambda: stage.slow_reader(value),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=512)
    value = Value(parser.parse_args().mib)
    streams.ANSWER_S = 600
    with RedisServer(**LIMITS) as redis, sidecar(redis.url) as proxy:
        stage = Stage(redis, proxy)
        print(f"ready with {stage.began_mib:.0f} MiB; values of {value.mib} MiB", flush=True)
        for name, play in scenes(stage, value).items():
            began = time.monotonic()
            play()
            print(f"{name:36}{time.monotonic() - began:8.1f} s{stage.grown_mib:10.1f} MiB more", flush=True)
        sys.exit(stage.grown_mib > GROWN_MIB_MAX)


if __name__ == "__main__":
    main()
