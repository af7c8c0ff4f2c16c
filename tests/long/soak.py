"""A soak under faults, and everything ends where it began: `python -m tests.long.soak --minutes 20`.

    --minutes M      how long the faults go on (20)
    --warm-minutes W how long they have gone on before the first look: a quarter of that, at most 4. Under 3 memory has
                     not come to rest (what a lock leaves is kept for two minutes), and may grow by 30 %, not by 5
    --node P         npm processes (3) of --workers N (32) bullmq workers, and --python P PyPI workers (4); each worker
                     has two connections: 200 in all
    --jobs-per-s R   (30)

Connections are reset between us and Redis, cut within answers, killed by Redis, thrown away by their workers; Redis
stands still for moments; the observer is killed. Canaries prove that each answer went to its question and that what was
acknowledged was done. Before and after, when all are back and at rest: descriptors, asyncio tasks and resident memory
of the data plane, descriptors and resident memory of the observer. In the end every job is done. Exit code 1 where it
is otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.long.crowd import Crowd, Supply
from tests.processes import EmqProxy, RedisServer, children, eventually
from tests.proxy.canary import Canary
from tests.proxy.faulty import Middleman
from tests.proxy.hand import GRAVE
from tests.proxy.wires import connections, rss_mib

COUNTED = Path(__file__).with_name("counted.py")
CANARIES = 8
RSS_SHARE_MAX = 0.05


class Load(NamedTuple):
    """What is played."""

    seconds: float
    warm_s: float
    node: int = 3
    workers: int = 32
    python: int = 4
    jobs_per_s: float = 30.0
    seed: int = 11
    rest_s: float = 3.0
    """How long all must have stayed before a look."""
    rss_share_max: float = RSS_SHARE_MAX
    """Growth that is allowed. A short play has not come to rest: what a lock leaves is kept for two minutes."""


class Counted(EmqProxy):
    """A sidecar that tells how many asyncio tasks it has."""

    def _spawn(self, command: list[str], **options: Any) -> Any:
        self.counted = self.folder / "tasks"
        command = [command[0], str(COUNTED), *command[3:]]
        options["env"]["COUNTED_FILE"] = str(self.counted)
        options["env"]["PYTHONPATH"] = os.pathsep.join(filter(None, [str(COUNTED.parents[2]), *sys.path[:1]]))
        return super()._spawn(command, **options)

    def tasks(self) -> int:
        self.counted.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR2)
        return int(eventually(self.counted.read_text, 10, "a count of tasks"))


@dataclass
class Sample:
    """One look at both processes, with all clients there and none at work."""

    clients: int
    descriptors: int
    tasks: int
    rss_mib: float
    observer_descriptors: int
    observer_rss_mib: float


@dataclass
class Report:
    """What came of it."""

    before: Sample
    after: Sample
    jobs: dict[str, tuple[int, int, int]]
    done_to: Counter[str]
    workers: dict[str, Any]
    answers: int
    lost: int
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        rows = [("", "before", "after")]
        rows += [(name, *(f"{getattr(s, name):.6g}" for s in (self.before, self.after))) for name in vars(self.before)]
        table = [f"{name.replace('_', ' '):<22}{before:>10}{after:>10}" for name, before, after in rows]
        return "\n".join(
            [
                *table,
                f"jobs (added, done, failed): {self.jobs}",
                f"npm workers: {self.workers}",
                f"faults done: {dict(self.done_to)}",
                f"canaries: {self.answers} answers, {self.lost} connections lost",
                *(self.faults or ["all is where it began, every job is done, each answer went to its question"]),
            ]
        )


class Devil:
    """Does what goes wrong, at random, in a thread of its own."""

    def __init__(self, redis: RedisServer, between: Middleman, proxy: EmqProxy, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self._redis, self._between, self._proxy = redis, between, proxy
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._between.heal()

    def _run(self) -> None:
        faults = [self.reset] * 4 + [self.kill] * 4 + [self.cut] * 2 + [self.stand_still, self.kill_observer]
        while not self._stop.wait(self._rng.uniform(0.3, 1.2)):
            fault = self._rng.choice(faults)
            try:
                fault()
            except (OSError, AssertionError) as error:
                self.failed.append(f"{fault.__name__}: {error!r}")
            self.done[fault.__name__] += 1

    def reset(self) -> None:
        self.done["connections reset"] += self._between.reset(self._rng.randrange(1, 12), self._rng)

    def kill(self) -> None:
        """CLIENT KILL of some that came through the middleman."""
        ports = self._between.ports()
        for port in self._rng.sample(ports, min(len(ports), self._rng.randrange(1, 6))):
            self._redis.call("CLIENT", "KILL", f"127.0.0.1:{port}")

    def cut(self) -> None:
        """For a moment all answers end too soon, after so many bytes on each connection."""
        self._between.cut(self._rng.randrange(1, 3000), self._rng.choice(["reset", "close"]))
        self._stop.wait(self._rng.uniform(0.02, 0.1))
        self._between.heal()

    def stand_still(self) -> None:
        self._redis.freeze()
        self._stop.wait(self._rng.uniform(0.1, 0.5))
        self._redis.thaw()

    def kill_observer(self) -> None:
        for pid in children(self._proxy.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def play(load: Load) -> Report:
    """Plays it, ends every process, and reads what they said."""
    stop = threading.Event()
    with contextlib.ExitStack() as ends:
        redis = ends.enter_context(RedisServer(maxclients="5000"))
        between = ends.enter_context(Middleman(redis.port))
        proxy = ends.enter_context(Counted(between.url, env={"OTEL_SDK_DISABLED": "true"}))
        crowd = Crowd(proxy.port, load.node, load.workers, load.python)
        ends.callback(crowd.end)
        canaries = [Canary(proxy.port, f"c{number}") for number in range(CANARIES)]
        singers = [threading.Thread(target=canary.sing, args=(stop, 0.02), daemon=True) for canary in canaries]
        for singer in singers:
            singer.start()
        ends.callback(stop.set)
        expected = crowd.connections + CANARIES

        supply = Supply(redis, crowd.queues, load.jobs_per_s, nap_ms_max=400)
        crowd.stir()
        done_to = faulty_for(load.warm_s, redis, between, proxy, load.seed)
        crowd.calm()
        before = at_rest(proxy, expected, load.rest_s)
        crowd.stir()
        done_to += faulty_for(load.seconds, redis, between, proxy, load.seed + 1)
        crowd.calm()
        after = at_rest(proxy, expected, load.rest_s)
        supply.stop()
        supply.wait_done(120)
        stop.set()
        for singer in singers:
            singer.join(20)
        report = Report(before, after, supply.state(), done_to, crowd.counts(), 0, 0)
        for canary in canaries:
            canary.check(int(redis.call("GET", canary.key).split(b"\r\n")[1]))
            report.faults += canary.faults
            report.answers += canary.answers
            report.lost += canary.disconnects
        crowd.close()
        code = proxy.end()
        if code:
            report.faults.append(f"the sidecar ended with {code}: {proxy.raw[-3:]}")
        report.faults += [f"{name} {why}" for name, why in uneven(before, after, load.rss_share_max)]
        report.faults += own_faults(proxy)
        return report


def faulty_for(seconds: float, redis: RedisServer, between: Middleman, proxy: EmqProxy, seed: int) -> Counter[str]:
    """Lets the devil loose for so long."""
    devil = Devil(redis, between, proxy, seed)
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        assert proxy.running, proxy.raw[-5:]
        devil._stop.wait(min(left, 10))
    devil.stop()
    assert not devil.failed, devil.failed
    return devil.done


def at_rest(proxy: Counted, clients: int, rest_s: float) -> Sample:
    """A look at both processes when all clients have come back and have stayed for a while."""
    since = [0.0, time.monotonic()]

    def look() -> bool:
        now = time.monotonic()
        if connections(proxy.port) != clients:
            since[0] = now
        return now - since[0] > rest_s and len(list(children(proxy.pid))) == 1

    since[0] = time.monotonic()
    eventually(look, 120, f"{clients} clients are there and stay; at first there were {connections(proxy.port)}")
    (observer,) = children(proxy.pid)
    return Sample(
        clients, descriptors(proxy.pid), proxy.tasks(), rss_mib(proxy.pid), descriptors(observer), rss_mib(observer)
    )


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def uneven(before: Sample, after: Sample, share_max: float) -> list[tuple[str, str]]:
    """What does not end where it began. A descriptor or task may just be in use by a probe."""
    found = []
    for name in ("descriptors", "tasks", "observer_descriptors"):
        was, now = getattr(before, name), getattr(after, name)
        if abs(now - was) > max(2, 0.05 * was):
            found.append((name, f"went from {was} to {now}"))
    for name in ("rss_mib", "observer_rss_mib"):
        was, now = getattr(before, name), getattr(after, name)
        if now - was > share_max * was:
            found.append((name, f"went from {was:.1f} to {now:.1f}"))
    return found


def own_faults(proxy: EmqProxy) -> list[str]:
    """What the sidecar says of itself and of honest workers that must not be."""
    said = [line for line in proxy.log if "a fault of emqproxy" in line["event"] or "Traceback" in str(line)]
    grave = [line for line in proxy.journal() if line["finding"] in GRAVE]
    return [f"it said {line}" for line in said] + [f"untrue: {line}" for line in grave[:20]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--warm-minutes", type=float)
    parser.add_argument("--node", type=int, default=3)
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--python", type=int, default=4)
    parser.add_argument("--jobs-per-s", type=float, default=30.0)
    given = parser.parse_args()
    seconds = given.minutes * 60
    warm_s = min(240.0, seconds / 4) if given.warm_minutes is None else given.warm_minutes * 60
    share = RSS_SHARE_MAX if warm_s >= 180 else 0.3
    load = Load(seconds, warm_s, given.node, given.workers, given.python, given.jobs_per_s, rss_share_max=share)
    report = play(load)
    print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
