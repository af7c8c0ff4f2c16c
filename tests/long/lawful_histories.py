"""Random lawful histories behind sidecars in enforce mode, all rules enforced: `python -m tests.long.lawful_histories`.

    --histories N   how many (10000); every second one has two sidecars
    --seed N        the first one's seed (0)
    --lanes N       histories side by side (16)

Prints the figures; ends with exit code 1 if a single call was refused that its process could be certain to be lawful.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest

from emqproxy.locks.events import LockIntent, Place
from emqproxy.locks.policy import Decision, Rule
from emqproxy.proxy.server import DataPlane
from emqproxy.proxy.watched import Watched
from emqproxy.scripts.operation import Operation
from emqproxy.session.exchange import Command
from tests.long.lawful import Lawful
from tests.long.lawful_wire import LABELS, BrokenOffError
from tests.processes import RedisServer
from tests.proxy.wires import data_plane, port_of
from tests.scripts.talk import text_of

ENFORCE: Final = {rule.value: "enforce" for rule in Rule}
LANES: Final = 16


class Figures(msgspec.Struct):
    """What so many histories came to."""

    histories: int = 0
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    wrong: list[str] = msgspec.field(default_factory=list)
    """Calls that were refused, and errors that were given."""
    broken_off: list[str] = msgspec.field(default_factory=list)
    """Histories that found no end, as the machine stood still for seconds; what was refused in them counts."""
    late: int = 0
    """Refused when the caller's time had come while we were busy: it may have lost the job."""

    def line(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        wrong, broken = len(self.wrong), len(self.broken_off)
        apart = f"broken off: {broken}; refused too late to tell: {self.late}"
        return f"{self.histories} histories: {wrong} refused; {counts}; {apart}"


class Desk:
    """Hears of every refusal of every sidecar, before the client does."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self.open: list[Lawful] = []

    def listen(self, plane: DataPlane) -> None:
        refuse = plane.witness._refused

        def heard(watched: Watched, command: Command, operation: Operation | None, decision: Decision) -> bytes:
            self._refused(watched.client, command, operation, decision)
            return refuse(watched, command, operation, decision)

        plane.witness._refused = heard  # type: ignore[method-assign]

    def _refused(self, client: str, command: Command, operation: Operation | None, decision: Decision) -> None:
        for history in self.open:
            if (process := history.by_client.get(client)) is None:
                continue
            intents = () if operation is None else operation.intents(Place(0, 0), command.db)
            keys = [intent.lock.key for intent in intents if isinstance(intent, LockIntent)]
            jobs = [key[len(history.prefix) : -len(b":lock")].decode() for key in keys]
            helds = [process.held.get(job) for job in jobs]
            if jobs and all(held is not None and held.until <= command.opened for held in helds):
                self.figures.late += 1
                return
            about = f"tokens {history.tokens}, pool of {history.pool}, {len(history.ports)} sidecar(s)"
            self.figures.wrong.append(f"seed {history.seed} ({about}): {decision.charge} {jobs} {command.words[:3]}")
            return
        self.figures.wrong.append(f"refused {client}: {decision.charge}")


async def _lane(seeds: Sequence[int], ports: list[int], desk: Desk) -> None:
    for seed in seeds:
        history = Lawful(seed, ports if seed % 2 else ports[:1])
        desk.open.append(history)
        figures = desk.figures
        try:
            await history.play()
            figures.histories += 1
        except* BrokenOffError as broken:
            figures.broken_off.append(f"seed {seed}: {broken.exceptions}")
        finally:
            desk.open.remove(history)
        figures.counts += history.counts
        figures.wrong += [f"seed {seed}: {error}" for error in history.errors]
        if figures.histories % 500 == 0:
            print(figures.line(), flush=True)


async def _play(seeds: Sequence[int], lanes: int, redis: RedisServer, figures: Figures) -> None:
    desk = Desk(figures)
    more: dict[str, Any] = {"mode": "enforce", "rules": ENFORCE, "log_level": "error"}
    async with data_plane(redis.url, desk.listen, **more) as one, data_plane(redis.url, desk.listen, **more) as two:
        ports = [port_of(one), port_of(two)]
        async with asyncio.TaskGroup() as group:
            for lane in range(lanes):
                group.create_task(_lane(seeds[lane::lanes], ports, desk))


def play(seeds: Sequence[int], lanes: int = LANES) -> Figures:
    """Plays a history for each seed, all on one Redis and behind the same two sidecars, which export nothing."""
    figures = Figures()
    with RedisServer() as redis, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_SDK_DISABLED", "true")
        for label in LABELS:
            redis.call("SCRIPT", "LOAD", text_of(label))
        asyncio.run(_play(seeds, lanes, redis, figures))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=LANES)
    asked = parser.parse_args()
    began = time.monotonic()
    figures = play(range(asked.seed, asked.seed + asked.histories), asked.lanes)
    print(*figures.wrong[:50], sep="\n")
    print(f"{figures.line()}; {time.monotonic() - began:.0f} s")
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
