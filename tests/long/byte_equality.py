"""Equal bytes with and without us, over generated conversations: `python -m tests.long.byte_equality`.

    --count N   how many (100,000); every second one speaks RESP 3
    --seed N    what they are made from (drawn, and printed)
    --lanes N   how many are held at the same time (48)

Each is held on two roads (`two_roads`): on a direct connection, and through a real sidecar to an equal server. Prints
how many commands of which class that was, and the first differences with the bytes of both roads. Exit code 1 at any.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import uvloop

from tests.long.conversations import Composer
from tests.long.script_calls import Scripts
from tests.long.steps import Conversation
from tests.long.two_roads import Difference, Roads

BATCH: int = 4000
"""So many, and both servers are compared key by key and emptied."""
ALONE_SHARE = 0.04
SHOWN_MAX = 5
DIFFERENCES_MAX = 20
"""Past it, it is not held further."""


@dataclass(slots=True)
class Tally:
    """What was held, and what was found."""

    conversations: int = 0
    alone: int = 0
    two: int = 0
    sent_bytes: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    resp: Counter[int] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    keys_apart: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.differences and not self.keys_apart

    def add(self, said: Conversation, found: list[Difference]) -> None:
        self.conversations += 1
        self.two += said.connections == 2
        self.sent_bytes += said.sent_bytes
        self.resp[said.resp] += 1
        self.classes.update(said.classes)
        self.differences += found

    def __str__(self) -> str:
        rows = [
            f"{self.conversations} conversations, {self.classes.total()} commands, {self.sent_bytes / 1e6:.1f} MB sent",
            f"{self.resp[2]} in RESP 2, {self.resp[3]} in RESP 3; {self.two} of two connections; {self.alone} alone",
            *(f"  {name:16}{count:10}" for name, count in self.classes.most_common()),
            *(f"DIFFERENT {one}" for one in self.differences[:SHOWN_MAX]),
            *(f"KEY APART {one}" for one in self.keys_apart[:SHOWN_MAX]),
            f"{len(self.differences)} connections and {len(self.keys_apart)} keys differ",
        ]
        return "\n".join(rows)


async def hold_all(
    roads: Roads,
    scripts: Scripts,
    seed: int,
    count: int,
    *,
    lanes: int = 48,
    batch: int = BATCH,
    tell: Callable[[str], None] = lambda _: None,
) -> Tally:
    """Holds `count` conversations. Each batch begins with empty servers. `tell` is told after each."""
    tally, composer, load = Tally(), Composer(scripts, seed), scripts.load()
    for begin in range(0, count, batch):
        end = min(begin + batch, count)
        together = end - int((end - begin) * ALONE_SHARE)
        await asyncio.to_thread(roads.fresh, load)
        numbers = iter(range(begin, together))
        await asyncio.gather(*(_lane(roads, composer, lane, numbers, tally) for lane in range(lanes)))
        for number in range(together, end):
            said = composer.conversation(number, number % lanes, alone=True)
            tally.alone += 1
            tally.add(said, await roads.compare(said))
        tally.keys_apart += await asyncio.to_thread(roads.keys_apart)
        tell(f"{tally.conversations} held, {len(tally.differences)} differ")
        if len(tally.differences) + len(tally.keys_apart) > DIFFERENCES_MAX:
            break
    return tally


async def _lane(roads: Roads, composer: Composer, lane: int, numbers: Iterator[int], tally: Tally) -> None:
    """One after the other over names of its own: what one has left, the next finds."""
    for number in numbers:
        said = composer.conversation(number, lane)
        tally.add(said, await roads.compare(said))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--lanes", type=int, default=48)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with Roads() as roads:
        scripts = Scripts(roads.direct)
        began = time.monotonic()
        held = hold_all(roads, scripts, given.seed, given.count, lanes=given.lanes, tell=partial(print, flush=True))
        tally = uvloop.run(held)
        took_s = time.monotonic() - began
        print(f"{tally}\n{took_s:.0f} s, {tally.conversations / took_s:.0f} conversations a second")
        roads.proxy.end()
        lines = Counter(line["op"] for line in roads.proxy.journal())
        print(f"the journal has {lines.total()} lines; {lines['blind']} connections went blind")
        faults = [line for line in roads.proxy.log if line.get("level") in ("error", "critical")]
        print(f"{len(faults)} errors in the sidecar's log{''.join(f'{chr(10)}  {line}' for line in faults[:3])}")
    return 0 if tally.equal else 1


if __name__ == "__main__":
    sys.exit(main())
