"""No bytes make Redis run what was not judged: `python -m tests.long.fuzz_framing --inputs 1000000`.

    --inputs N       how many (1,000,000)
    --seed N         what they are made from (drawn, and printed)
    --sidecars N     each Nth goes through two real sidecars as well (100); 0: none
    --lanes N        how many travel at the same time (2)
    --first N        the number of the first (0)
    --corpus FILE    at the end, writes the smallest few of each class there

An input is a pipeline bent byte by byte (`framing_inputs`); it travels to Redis directly and through us in both modes
(`framing_roads`, `framing_sidecars`), and what each road answers and leaves in its keys is compared. An input that
differs travels again: only what differs each time is counted, for a key may lapse between two servers. Prints how many
inputs were of which class; exit code 1 at any difference.

Differences that are lawful, and are classes, not differences:

- Closed by us where Redis says a protocol error: Redis has a sentence of its own and closes too.
- Closed by us, and Redis gives more answers: what it reads in a way of its own (anything in place of the CRLF behind a
  word or a length, quotes, control characters), what it skips (`*0`), what chance decides (a zero byte in a name), and
  what cannot be followed any more (MONITOR, CLIENT REPLY inside MULTI or beside subscriptions, a command that changes
  the connection and whose answer is kept back).
- Closed by us, and Redis answers nothing: it waits for what a length promised, or reads on for a line's end.
- Not followed: Redis answered in a way that leaves open what it did. What had been answered before was given.
- In another order, or cut short: who leaves all channels at once leaves them in the order of the server's hash seed,
  and of answers past 64 KiB Redis drops the end when it finds that we have half-closed.
- Closed by us for a request of HTTP, and what was asked before is answered: Redis closes at once and drops that.
- What a refused command would have done is not done, and what follows finds it so: that is what a refusal is. Where
  CLIENT REPLY keeps the refusal itself back, its effect is all that shows.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.long.framing_inputs import made
from tests.long.framing_roads import Found, Roads
from tests.long.framing_sidecars import Sidecars

DIFFERENCES_MAX: Final = 50
"""Past it, it is not run further."""
TRIES: Final = 3
KEPT_PER_CLASS: Final = 3
TOLD_EVERY: Final = 20_000


@dataclass(slots=True)
class Tally:
    """What travelled, and what was found."""

    inputs: int = 0
    sent_bytes: int = 0
    refused: int = 0
    with_refusals: int = 0
    died_directly: int = 0
    through_sidecars: int = 0
    once: int = 0
    """Differed, and not again."""
    classes: Counter[str] = field(default_factory=Counter)
    differences: list[Found] = field(default_factory=list)
    smallest: dict[str, list[bytes]] = field(default_factory=dict)

    def add(self, found: Found) -> None:
        self.inputs += 1
        self.sent_bytes += len(found.data)
        self.refused += found.refused
        self.with_refusals += bool(found.refused)
        self.died_directly += found.died_directly
        self.classes[found.kind] += 1
        few = self.smallest.setdefault(found.kind, [])
        if len(few) < KEPT_PER_CLASS:
            few.append(found.data)
        elif len(found.data) < len(few[-1]) and found.data not in few:
            few[-1] = found.data
        few.sort(key=len)

    def __str__(self) -> str:
        rows = [
            f"{self.inputs} inputs, {self.sent_bytes / 1e6:.1f} MB; {self.through_sidecars} through sidecars, too",
            f"{self.refused} commands refused, in {self.with_refusals} inputs",
            f"the canary: killed by {self.died_directly} inputs directly",
            *(f"{count:9}  {kind}" for kind, count in self.classes.most_common()),
            f"{len(self.differences)} differ; {self.once} differed once and not again",
        ]
        return "\n".join(rows)


def fuzz(
    inputs: Iterable[tuple[int, bytes]],
    lanes: list[Roads],
    sidecars: Sidecars | None = None,
    each: int = 100,
    tell: Callable[[str], None] = lambda _: None,
) -> Tally:
    """Sends all of them on their roads; `each`th goes through the sidecars, too."""
    tally, began = Tally(), time.monotonic()
    left = iter(inputs)
    while few := [one for _, one in zip(lanes, left, strict=False)]:
        journeys = [roads.stages(data, _chance(number)) for roads, (number, data) in zip(lanes, few, strict=False)]
        for _ in range(2):
            for journey in journeys:
                next(journey)
        for roads, (number, data), found in zip(lanes, few, map(next, journeys), strict=False):
            assert found is not None
            if found.faults:
                _again(tally, found, partial(_travel, roads, number, data), tell, number)
            tally.add(found)
            if sidecars is not None and number % each == 0:
                tally.through_sidecars += 1
                ended = sidecars.travel(data)
                tally.classes[ended.kind] += 1
                if ended.faults:
                    _again(tally, ended, partial(sidecars.travel, data), tell, number)
        if len(tally.differences) > DIFFERENCES_MAX:
            break
        if tally.inputs % TOLD_EVERY < len(few):
            tell(f"{tally.inputs} sent, {len(tally.differences)} differ, {time.monotonic() - began:.0f} s")
    return tally


def _again(tally: Tally, found: Found, travel: Callable[[], Found], tell: Callable[[str], None], number: int) -> None:
    if all(travel().faults for _ in range(TRIES - 1)):
        tally.differences.append(found)
        tell(f"DIFFERENT {number}: {found}")
    else:
        tally.once += 1


def _travel(roads: Roads, number: int, data: bytes) -> Found:
    return roads.travel(data, _chance(number))


def _chance(number: int) -> random.Random:
    return random.Random(number)


def numbered(seed: int, count: int, first: int = 0) -> Iterator[tuple[int, bytes]]:
    """A run's inputs."""
    return ((number, made(seed, number)) for number in range(first, first + count))


def written(tally: Tally) -> str:
    """The smallest few of each class: lines of Python's bytes."""
    return "".join(f"{data!r}\n" for kind in sorted(tally.smallest) for data in tally.smallest[kind])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 24))
    parser.add_argument("--sidecars", type=int, default=100)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--corpus", type=Path)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with contextlib.ExitStack() as stack:
        lanes = [stack.enter_context(Roads()) for _ in range(given.lanes)]
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sidecars = stack.enter_context(Sidecars(folder)) if given.sidecars else None
        began = time.monotonic()
        inputs = numbered(given.seed, given.inputs, given.first)
        tally = fuzz(inputs, lanes, sidecars, max(1, given.sidecars), partial(print, flush=True))
        took_s = time.monotonic() - began
        troubles = sidecars.troubles() if sidecars is not None else []
    print(f"{tally}\n{took_s:.0f} s, {tally.inputs / took_s:.0f} inputs a second")
    print(f"{len(troubles)} errors in the sidecars' logs{''.join(f'{chr(10)}  {line}' for line in troubles[:3])}")
    if given.corpus:
        given.corpus.write_text(written(tally))
    return 1 if tally.differences or troubles else 0


if __name__ == "__main__":
    sys.exit(main())
