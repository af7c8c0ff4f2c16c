"""Unmodified npm and PyPI workers and ours share a queue: `python -m tests.long.shared_queue --jobs 5000` (--kills 12).

All speak through one proxy, with prefix `emq` and then with `bull`. Each library adds a third of the jobs; some fail
and are tried again after a back-off, some fail for good, some are delayed. Meanwhile workers of each kind are killed at
work, and new ones come. In the end each job must have ended once: `shared_account` says what that means. With --enforce
the proxy enforces every rule, and nothing may be refused.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from emqproxy.demo.producer import add
from emqproxy.locks.policy import Rule
from tests.e2e.peers import Peer, produce
from tests.long.shared_account import Outcome, Planned, complaints, speaker, summary
from tests.processes import EmqProxy, RedisServer, eventually

QUEUE = "shared"
KINDS = ("ioredis", "python", "reference")
CHUNK_MAX = 300
"""Jobs that one producer adds: they are words of a command line."""
CHUNKS_MIN = 3
LONG = "long-"
"""With this the id of a job begins that a worker may be killed at."""
PLACES = ("wait", "paused", "active", "prioritized", "delayed", "waiting-children", "stalled")


@dataclass
class Run:
    """How much of what."""

    prefix: str
    jobs: int = 5000
    kills: int = 12
    workers: int = 2
    """Of each kind."""
    lock_ms: int = 8000
    timeout_s: float = 600.0
    seed: int = 7
    kinds: tuple[str, ...] = KINDS
    enforce: bool = False
    """In enforce mode, with every rule at enforce."""
    options: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.options = {
            "lockDuration": self.lock_ms, "lockRenewTime": self.lock_ms // 4, "stalledInterval": 1000,
            "maxStalledCount": 1_000_000,  # who was killed is no fault of the job's
            "concurrency": 8, "runRetryDelay": 500, "drainDelay": 1,
        }  # fmt: skip


class Crew:
    """The workers at work, and what those said that are no more."""

    def __init__(self, run: Run, port: int, ends: contextlib.ExitStack) -> None:
        self.run, self.port, self._ends = run, port, ends
        self.living: list[Peer] = []
        self.dead: list[Peer] = []
        self.names: dict[int, str] = {}
        self._numbers = itertools.count(1)
        self.hire(*(kind for kind in run.kinds for _ in range(run.workers)))

    def hire(self, *kinds: str) -> None:
        """Starts workers and waits until they are ready."""
        new = []
        for kind in kinds:
            name = f"{kind}-{next(self._numbers)}"
            config = {"port": self.port, "prefix": self.run.prefix, "queue": QUEUE}
            peer = Peer(kind, "worker", config | {"options": self.run.options | {"name": name}})
            self._ends.callback(peer.end)
            self.names[id(peer)] = name
            new.append(peer)
        for peer in new:
            peer.wait(event="ready")
        self.living += new

    def kill(self, kind: str, held: set[str]) -> bool:
        """SIGKILL to a worker of this kind that is at work on a long job; another is hired. False where none is."""
        for peer in self.living:
            at_work = {line["job"] for line in peer.find(event="active")} & held
            if self.names[id(peer)].startswith(kind) and at_work:
                peer.end()
                self.living.remove(peer)
                self.dead.append(peer)
                self.hire(kind)
                return True
        return False

    def close(self) -> None:
        """All end as they should."""
        for peer in self.living:
            peer.close()

    def begun(self) -> Counter[str]:
        return Counter(line["job"] for peer in self.living + self.dead for line in peer.find(event="active"))

    def killed(self) -> set[str]:
        """As `speaker` names them."""
        lines = [({"client_name": self.names[id(peer)]}, peer.find(event="active")) for peer in self.dead]
        return {speaker(name | active[-1]) for name, active in lines if active}

    def errors(self) -> dict[str, list[str]]:
        return {self.names[id(peer)]: [line["message"] for line in peer.find(event="error")] for peer in self.living}


def planned(run: Run) -> list[tuple[Planned, dict[str, Any]]]:
    """The jobs, and how each is added: as `produce` takes it."""
    rng = random.Random(run.seed)
    jobs = []
    for number in range(run.jobs):
        opts: dict[str, Any] = {}
        is_long = rng.random() < 0.03
        fails = rng.choices([0, 1, 2, 9], [80, 20, 0, 0] if is_long else [70, 18, 6, 6])[0]
        attempts = 1 if fails == 9 and rng.random() < 0.5 else 3
        opts["attempts"] = attempts
        if fails and rng.random() < 0.7:
            opts["backoff"] = {"type": rng.choice(["fixed", "exponential"]), "delay": rng.randrange(20, 300)}
        if rng.random() < 0.15:
            opts["delay"] = rng.randrange(50, 3000)
        ms = rng.randrange(1300, 2500) if is_long else rng.randrange(60)
        job_id = f"{LONG if is_long else 'j-'}{number}"
        job = {"name": "stumble", "data": {"ms": ms, "fails": fails}, "opts": opts | {"jobId": job_id}}
        jobs.append((Planned(job_id, fails, attempts), job))
    return jobs


async def add_ours(url: str, prefix: str, jobs: list[dict[str, Any]]) -> None:
    """Adds them with our producer."""
    async with AsyncRedis.from_url(url) as client:
        for job in jobs:
            opts = job["opts"]
            backoff_ms = opts.get("backoff", {}).get("delay", 0)
            more = {"attempts": opts["attempts"], "delay_ms": opts.get("delay", 0), "backoff_ms": backoff_ms}
            await add(client, QUEUE, job["name"], job["data"], prefix=prefix, job_id=opts["jobId"], **more)


def play(run: Run) -> tuple[list[str], str]:
    """Plays it: what was not as it should be, and the figures."""
    jobs = planned(run)
    with contextlib.ExitStack() as ends:
        redis = ends.enter_context(RedisServer())
        settings = {"EMQPROXY_TRACE__TOKEN": "raw", "OTEL_SDK_DISABLED": "true"}
        if run.enforce:
            settings |= {"EMQPROXY_MODE": "enforce"} | {f"EMQPROXY_RULES__{rule.name}": "enforce" for rule in Rule}
        proxy = ends.enter_context(EmqProxy(redis.url, env=settings))
        client = ends.enter_context(Redis(port=redis.port, decode_responses=True))
        began = time.monotonic()
        crew = Crew(run, proxy.port, ends)
        chunk_jobs = min(CHUNK_MAX, -(-len(jobs) // CHUNKS_MIN))
        chunks = [jobs[first : first + chunk_jobs] for first in range(0, len(jobs), chunk_jobs)]
        for number, chunk in enumerate(chunks, 1):
            supply(run, proxy, number, [job for _, job in chunk])
            while len(crew.dead) < number * run.kills // len(chunks) and kill_one(crew, client, run):
                pass
        wait_ended(client, run)
        took_s = time.monotonic() - began
        crew.close()
        outcome = account(run, crew, client, proxy, [plan for plan, _ in jobs])
        assert proxy.end() == 0, proxy.raw[-3:]
    plan = [plan for plan, _ in jobs]
    too_few = [f"only {len(crew.dead)} workers were at work when it came to kill them"] * (len(crew.dead) < run.kills)
    return too_few + complaints(plan, outcome), f"prefix {run.prefix}, {took_s:.0f} s\n{summary(plan, outcome)}"


def supply(run: Run, proxy: EmqProxy, number: int, jobs: list[dict[str, Any]]) -> None:
    """Adds the jobs with the library whose turn it is."""
    kind = run.kinds[number % len(run.kinds)]
    if kind == "reference":
        asyncio.run(add_ours(proxy.url, run.prefix, jobs))
    else:
        produce(kind, {"port": proxy.port, "prefix": run.prefix, "queue": QUEUE, "jobs": jobs})


def kill_one(crew: Crew, client: Redis, run: Run) -> bool:
    """Kills a worker at a long job, of the kind whose turn it is; of another where none of those is. Whether it did."""
    turn = len(crew.dead) % len(run.kinds)
    kinds = run.kinds[turn:] + run.kinds[:turn]
    began = time.monotonic()

    def look() -> bool:
        held = {job for job in client.lrange(f"{run.prefix}:{QUEUE}:active", 0, -1) if job.startswith(LONG)}
        return any(crew.kill(kind, held) for kind in (kinds if time.monotonic() - began > 4 else kinds[:1]))

    with contextlib.suppress(AssertionError):
        return eventually(look, 8, "a worker at a long job")
    return False


def wait_ended(client: Redis, run: Run) -> None:
    """Until all jobs have ended, one way or the other."""
    key = f"{run.prefix}:{QUEUE}:"

    def look() -> bool:
        ended: int = client.zcard(f"{key}completed") + client.zcard(f"{key}failed")
        assert ended >= run.jobs, f"{ended} of {run.jobs} ended"
        return True

    eventually(look, run.timeout_s, "all jobs have ended")


def account(run: Run, crew: Crew, client: Redis, proxy: EmqProxy, plan: list[Planned]) -> Outcome:
    """What Redis, the journal and the workers say in the end."""
    key = f"{run.prefix}:{QUEUE}:"
    last = f"the journal's line of each of {len(plan)} ends"

    def told() -> list[dict[str, Any]]:
        lines = proxy.journal()
        ended = {line["job"] for line in lines if line["op"] == "finish" and line["outcome"] != "refused"}
        assert len(ended) >= len(plan), len(ended)
        return lines

    journal = eventually(told, 60, last)
    return Outcome(
        completed=set(client.zrange(f"{key}completed", 0, -1)),
        failed=set(client.zrange(f"{key}failed", 0, -1)),
        left=dict(left(client, key)),
        hashes={job.id: numbers(client.hmget(key + job.id, ["atm", "ats", "stc"])) for job in plan},
        journal=journal,
        begun=crew.begun(),
        killed=crew.killed(),
        errors=crew.errors(),
    )


def numbers(values: list[str | None]) -> dict[str, int]:
    return {name: int(value or 0) for name, value in zip(("atm", "ats", "stc"), values, strict=True)}


def left(client: Redis, key: str) -> Iterator[tuple[str, int]]:
    sizes = {"list": client.llen, "zset": client.zcard, "set": client.scard}
    for place in PLACES:
        kind = client.type(key + place)
        yield place, sizes[kind](key + place) if kind in sizes else 0
    yield "locks", len(list(client.scan_iter(f"{key}*:lock", count=1000)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--prefix", choices=("emq", "bull"), action="append")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--enforce", action="store_true")
    asked = parser.parse_args()
    good = True
    for prefix in asked.prefix or ("emq", "bull"):
        faults, figures = play(Run(prefix, asked.jobs, asked.kills, seed=asked.seed, enforce=asked.enforce))
        print(figures, *faults[:50], f"{len(faults)} faults", sep="\n", flush=True)
        good = good and not faults
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
