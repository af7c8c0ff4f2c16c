"""Plays worlds, one after the other, and adds up what was said of each."""

from __future__ import annotations

import random
from collections.abc import Iterator

from emqproxy.locks.events import LockFact, PerhapsGranted
from emqproxy.records import Record
from emqproxy.scripts.catalogue import Catalogue
from tests.causes import virtual_time
from tests.causes.account import Figures, Stated
from tests.causes.mishaps_more import ALL
from tests.causes.scene import Backing, Scene
from tests.causes.workers import Worker
from tests.causes.world import World
from tests.processes import RedisServer


async def play_one(backing: Backing, catalogue: Catalogue, seed: int, figures: Figures) -> World:
    world = World(backing, catalogue, seed)
    mishap = random.Random(seed).choices([m for m, _ in ALL], [weight for _, weight in ALL])[0]
    try:
        if world.chance.random() < 0.4:
            await bystander(world)
        await mishap(world)
        await virtual_time.settle()
    finally:
        ended_before = set(world.recorder.unheard_of)
        world.end()
    await virtual_time.settle()
    world.recorder.unheard_of = ended_before
    figures.add(stated(world.house.records), world.recorder, f"{seed} {mishap.__name__}")
    if world.house.faults:
        figures.said.append(f"{seed} {mishap.__name__}: faults of our own")
    return world


async def bystander(world: Scene) -> None:
    """A healthy worker on the same queue, which talks and renews."""
    worker = Worker(world, world.chance.choice((2000, 30_000)), 0.25)
    for _ in range(world.chance.randint(0, 2)):
        await worker.take()
    worker.chatter()


def stated(records: list[Record]) -> Iterator[Stated]:
    for r in records:
        fact = r.verdict.fact
        token = getattr(fact, "token", b"").decode()
        job = None
        if isinstance(fact, LockFact):
            job = fact.lock.key.removesuffix(b":lock").rpartition(b":")[2].decode()
        elif not isinstance(fact, PerhapsGranted):
            continue
        if r.peer is None or r.line.outcome in {"unknown", "told"}:
            continue
        key = (r.peer.client, job, token, r.line.op)
        note = f"[seq {r.seq} {r.line.outcome} {r.line.code} idle {r.idle_ms} burst {r.burst} age {r.verdict.age_ms}]"
        yield Stated(key, r.cause, r.because or "", r.verdict.age_ms, r.idle_ms, note)


def play(server: RedisServer, losses: int, first_seed: int = 0, figures: Figures | None = None) -> tuple[Figures, int]:
    """Until so many losses have been diagnosed; the figures, and the next seed."""
    figures = figures or Figures()
    backing, catalogue, seed = Backing(server), Catalogue(), first_seed
    try:
        while figures.losses < losses:
            virtual_time.run(play_one(backing, catalogue, seed, figures))
            seed += 1
    finally:
        backing.close()
    return figures, seed
