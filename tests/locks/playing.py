"""Plays random histories on one real Redis, many side by side, and judges each: what was untrue, and the figures."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from typing import Final

import msgspec

from emqproxy.locks.events import Lapsed, LockFact
from emqproxy.locks.ledger import LockLedger
from emqproxy.scripts.catalogue import Catalogue
from tests.locks.judging import Event, Told, Truth, incomplete, tell, untruths
from tests.locks.monitored import Monitor
from tests.locks.real_histories import History, connect
from tests.locks.test_simulator import ArrivalOrder
from tests.processes import RedisServer
from tests.scripts.conftest import LABELS
from tests.scripts.talk import text_of

LANES: Final = 12
"""Histories side by side."""
ARRIVAL_EVERY: Final = 5
"""Every so many histories go through the unsound ledger too."""
BROKEN_MAX: Final = 20
"""Of so many untrue histories the whole story is kept."""


class Figures(msgspec.Struct):
    """What so many histories came to."""

    histories: int = 0
    facts: int = 0
    findings: Counter[str] = msgspec.field(default_factory=Counter)
    lapses: int = 0
    expiries: int = 0
    """Holdings that truly ended by time."""
    arrival_order: int = 0
    """Histories that were also told to a ledger that takes facts as they are read."""
    arrival_order_untrue: int = 0
    """Of those, the ones of which it said something untrue."""
    untrue: int = 0
    """Histories of which the ledger said something untrue, or something else when it was looked at otherwise."""
    broken: list[str] = msgspec.field(default_factory=list)
    """The first of them: the seed, what, what reached the ledger, and what was true."""

    def add(self, more: Figures) -> None:
        """The figures of both together; the stories are left out."""
        self.histories += more.histories
        self.facts += more.facts
        self.findings += more.findings
        self.lapses += more.lapses
        self.expiries += more.expiries
        self.arrival_order += more.arrival_order
        self.arrival_order_untrue += more.arrival_order_untrue
        self.untrue += more.untrue

    def line(self) -> str:
        """In words."""
        return (
            f"{self.histories} histories, {self.facts} facts, {self.untrue} untrue; {self.expiries} locks expired, "
            f"{self.lapses} lapses told; in order of arrival {self.arrival_order_untrue} of {self.arrival_order} untrue"
        )


def judge(seed: int, history: History, truth: Truth, figures: Figures) -> None:
    """One history through a ledger as it was looked at, through one looked at otherwise, and in order of arrival."""
    events = history.events
    told = tell(LockLedger(), events)
    found = incomplete(events, truth) + untruths(told, truth)
    again = tell(LockLedger(), events, random.Random(seed))
    if differences := Counter(told.verdicts) - Counter(again.verdicts):
        found.append(f"looked at other instants it says something else: {list(differences)}")
    if told.open != again.open:
        found.append("looked at other instants it has other attempts open")
    found += [f"{why}" for why in _once_each(events, told)]
    figures.histories += 1
    figures.facts += history.facts
    said = (v.finding for v in told.verdicts if not isinstance(v.fact, Lapsed))
    figures.findings.update(finding.word for finding in said if finding is not None)
    figures.lapses += sum(isinstance(v.fact, Lapsed) for v in told.verdicts)
    figures.expiries += sum(h.how == "expired" for of in truth.held.values() for h in of)
    if seed % ARRIVAL_EVERY == 0:
        figures.arrival_order += 1
        figures.arrival_order_untrue += bool(untruths(tell(ArrivalOrder(), events), truth))
    figures.untrue += bool(found)
    if found and len(figures.broken) < BROKEN_MAX:
        story = "\n".join(f"  {event.at} {event.what}" for event in events)
        figures.broken.append(
            f"seed {seed}:\n" + "\n".join(f"  * {why}" for why in found) + f"\n{story}\n  {truth.held}"
        )


def _once_each(events: list[Event], told: Told) -> list[str]:
    """Each fact of a lock is spoken of once."""
    facts = [v.fact for v in told.verdicts if not isinstance(v.fact, Lapsed)]
    heard = Counter(e.what.place for e in events if isinstance(e.what, LockFact))
    said = Counter(fact.place for fact in facts if isinstance(fact, LockFact))
    return [] if heard == said else [f"of {heard - said} nothing was said, of {said - heard} too much"]


async def _lane(seeds: range, server: RedisServer, monitor: Monitor, figures: Figures) -> None:
    path = str(server.socket_path)
    numbers = itertools.count()
    lines = [await connect(path, numbers) for _ in range(4)]
    catalogue = Catalogue()
    for seed in seeds:
        history = History(seed, b"emq:history%d:" % seed, lines, catalogue, path)
        await history.play()
        judge(seed, history, await history.truth(monitor), figures)
    for line in lines:
        line.transport.abort()


async def _play(seeds: range, server: RedisServer, figures: Figures, lanes: int) -> None:
    loop = asyncio.get_running_loop()
    transport, monitor = await loop.create_unix_connection(Monitor, str(server.socket_path))
    async with asyncio.TaskGroup() as group:
        for lane in range(lanes):
            group.create_task(_lane(seeds[lane::lanes], server, monitor, figures))
    transport.abort()


def play(seeds: range, lanes: int = LANES) -> Figures:
    """Plays a history for each seed; all on one server."""
    figures = Figures()
    with RedisServer() as server:
        for label in LABELS:
            server.call("SCRIPT", "LOAD", text_of(label))
        asyncio.run(_play(seeds, server, figures, lanes))
    return figures
