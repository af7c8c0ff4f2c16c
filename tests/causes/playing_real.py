"""Plays a sample of the same stories in real time, many at once where they befall nobody else."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from tests.causes import mishaps, mishaps_more
from tests.causes.account import Figures, Stated
from tests.causes.mishaps import Mishap
from tests.causes.real_world import RealScene
from tests.causes.scene import Backing
from tests.processes import EmqProxy, RedisServer

LEFT_OUT: Final = {
    mishaps.repeats,  # an answer that is on its way when the connection ends cannot be arranged from outside
    mishaps_more.before_us,  # what is so within two minutes of the start only
}
ALONE: Final = {
    mishaps.removed, mishaps.vanished, mishaps.lock_deleted, mishaps_more.refused_by_redis, mishaps_more.slow,
    mishaps_more.own_pause,
}  # fmt: skip
"""They befall the whole server, or the whole sidecar."""
AT_ONCE: Final = 12
STILL_S: Final = 15
"""No lock of these stories lives longer."""
RAW: Final = {"EMQPROXY_TRACE__TOKEN": "raw"}


async def _story(scene: RealScene, mishap: Mishap) -> None:
    try:
        await mishap(scene)
    finally:
        await scene.settled()
        scene.end()


async def _together(scenes: Sequence[tuple[RealScene, Mishap]]) -> None:
    narrow = asyncio.Semaphore(AT_ONCE)

    async def one(scene: RealScene, mishap: Mishap) -> None:
        async with narrow:
            await _story(scene, mishap)

    await asyncio.gather(*(one(*each) for each in scenes))
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def play_real(losses: int, seed: int, figures: Figures) -> int:
    """So many losses; how many scenes it took."""
    weights = [(m, weight) for m, weight in mishaps_more.ALL if m not in LEFT_OUT]
    chance, played = random.Random(seed), 0
    while figures.losses < losses:
        batch = chance.choices([m for m, _ in weights], [weight for _, weight in weights], k=48)
        together = [m for m in batch if m not in ALONE]
        _play([together], seed + played, figures)
        _play([[m] for m in batch if m in ALONE], seed + played + len(together), figures)
        played += len(batch)
    return played


def _play(groups: Sequence[Sequence[Mishap]], seed: int, figures: Figures) -> None:
    """Group after group on one server with one sidecar; within a group all at once."""
    with RedisServer() as server, EmqProxy(server.url, env=RAW) as proxy:
        backing, scenes = Backing(server), []
        for group in groups:
            now = [(RealScene(backing, server, proxy, seed + len(scenes) + i), m) for i, m in enumerate(group)]
            scenes += now
            asyncio.run(_together(now))
        backing.close()
        proxy.end()
        lines = proxy.journal()
    pauses = [pause for line in lines for pause in line["replay"].get("pauses", ())]
    by_client: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: int(line["seq"])):
        if line.get("client"):
            by_client[line["client"]].append(line)
    for scene, mishap in scenes:
        own = sorted((line for link in scene.links for line in by_client[link.client]), key=lambda n: int(n["seq"]))
        stated = filter(None, (_stated(line, pauses) for line in own))
        figures.add(stated, scene.recorder, f"real {scene.seed} {mishap.__name__}")


def _stated(line: dict[str, Any], pauses: Sequence[tuple[int, int]]) -> Stated | None:
    if line["outcome"] in {"unknown", "told"} or line["op"] in {"conn", "sweep", "wipe"}:
        return None
    key = (line["client"], line.get("job"), line.get("token") or "", line["op"])
    note = f"[seq {line['seq']} {line['outcome']} {line.get('code')} idle {line.get('idle_ms')}]"
    since = int(line["opened_ns"]) - STILL_S * 10**9
    still_ms = sum(end - begin for begin, end in pauses if since <= end and begin <= line["closed_ns"]) / 1e6
    return Stated(key, line.get("cause"), line.get("because") or "", None, line.get("idle_ms"), note, still_ms)
