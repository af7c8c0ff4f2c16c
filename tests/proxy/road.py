"""A bus to a real observer that writes a journal, and a test that drives along it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog.testing
import uvloop

from emqproxy.locks.events import Blinded, Place, Window
from emqproxy.locks.verdicts import Verdict
from emqproxy.proxy import clock
from emqproxy.proxy.bus import Bus
from emqproxy.records import Hello, Line, ObserverSettings, Peer, Record
from tests.proxy.wires import until

Lines = list[dict[str, Any]]


class Road:
    """A bus to a real observer that writes a journal."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal"
        self.hellos: list[int] = []
        self.bus = Bus(self._hello, lambda: (), structlog.get_logger())

    def _hello(self, restarts: int) -> Hello:
        self.hellos.append(restarts)
        return Hello("run", "0", "redis", 6379, restarts, ObserverSettings(journal=str(self.path)))

    def tell(self, reason: str = "x") -> int:
        """One record; its number."""
        seq, now = self.bus.number(), clock.now()
        verdict = Verdict(Blinded(Place(seq, 0), Window(now, now)), None, at=now)
        self.bus.tell(Record(seq, Line("blind", "told"), verdict, Peer(seq, "c:1", None), None, reason=reason))
        return seq

    def seqs(self) -> list[int]:
        return seqs(self.path)

    async def told(self, seq: int) -> None:
        await until(lambda: seq in self.seqs())


def seqs(journal: Path) -> list[int]:
    whole = journal.read_text().rpartition("\n")[0] if journal.exists() else ""
    return [json.loads(line)["seq"] for line in whole.splitlines()]


def on_a_road(folder: Path, test: Callable[[Road, Lines], Awaitable[None]]) -> None:
    async def within() -> None:
        with structlog.testing.capture_logs() as lines:
            road = Road(folder)
            await road.bus.start()
            try:
                await test(road, lines)
            finally:
                await road.bus.close()

    uvloop.run(within())
