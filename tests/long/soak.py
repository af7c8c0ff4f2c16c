"""A soak under faults, and everything ends where it began: `python -m tests.long.soak --minutes 20`.

    --minutes M      how long the faults go on (20)
    --warm-minutes W how long they have gone on before the first look: a quarter of that, at most 4. Under 2 memory has
                     not come to rest, and may grow by 30 %, not by 5
    --node P         npm processes (3) of --workers N (32) bullmq workers, and --python P PyPI workers (4); each worker
                     has two connections: 200 in all
    --jobs-per-s R   (30)
    --journal FILE   keeps the journal there

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
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from emqproxy.locks.verdicts import Finding
from tests.long.crowd import Crowd, Supply
from tests.long.devil import Devil
from tests.processes import EmqProxy, RedisServer, children, eventually
from tests.proxy.canary import Canary
from tests.proxy.faulty import Middleman
from tests.proxy.hand import GRAVE
from tests.proxy.wires import connections, rss_mib

COUNTED = Path(__file__).with_name("counted.py")
CANARIES = 8
ENVIRONMENT = {"OTEL_SDK_DISABLED": "true", "EMQPROXY_LIMITS__LOCKS": "1500"}
"""So few locks that the ledger is as large as it gets within a minute, and not after many."""
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
    """Growth that is allowed. A short play has not come to rest."""
    keep: str | None = None
    """Where to copy the journal."""


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


def play(load: Load) -> Report:
    """Plays it, ends every process, and reads what they said."""
    stop = threading.Event()
    with contextlib.ExitStack() as ends:
        redis = ends.enter_context(RedisServer(maxclients="5000"))
        between = ends.enter_context(Middleman(redis.port))
        proxy = ends.enter_context(Counted(between.url, env=ENVIRONMENT))
        crowd = Crowd(proxy.port, load.node, load.workers, load.python)
        ends.callback(crowd.end)
        canaries = [Canary(proxy.port, f"c{number}") for number in range(CANARIES)]
        singers = [threading.Thread(target=canary.sing, args=(stop, 0.02), daemon=True) for canary in canaries]
        for singer in singers:
            singer.start()
        ends.callback(stop.set)
        expected = (
            crowd.connections + CANARIES - load.python
        )  # at least one of each PyPI worker's, who come when needed

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
        if load.keep is not None:
            shutil.copy(proxy.journal_path, load.keep)
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
    """A look at both processes when so many clients have come back at least, and their number stays for a while."""
    since = time.monotonic()
    last: tuple[int, ...] = ()

    def look() -> bool:
        nonlocal since, last
        there, observers = connections(proxy.port), list(children(proxy.pid))
        now = (there, *observers, *map(descriptors, observers))
        if there < clients or now != last or not any(writes(pid, proxy.journal_path) for pid in observers):
            since, last = time.monotonic(), now
        return time.monotonic() - since > rest_s

    try:
        eventually(look, 240)  # workers come back more and more slowly
    except AssertionError as late:
        raise AssertionError(f"{clients} clients and more are there and stay; last seen: {last}") from late
    (observer,) = children(proxy.pid)
    return Sample(
        last[0], descriptors(proxy.pid), proxy.tasks(), rss_mib(proxy.pid), descriptors(observer), rss_mib(observer)
    )


def writes(pid: int, path: Path) -> bool:
    """Whether it has this file open: an observer that does is wholly there."""
    found = Path(f"/proc/{pid}/fd").iterdir()
    return any(os.readlink(fd) == str(path) for fd in found)


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def uneven(before: Sample, after: Sample, share_max: float) -> list[tuple[str, str]]:
    """What does not end where it began. A descriptor or task may just be in use by a probe."""
    found = []
    for name in ("descriptors", "tasks", "observer_descriptors"):
        was, now = getattr(before, name), getattr(after, name)
        if name == "descriptors":  # PyPI workers keep as many connections as they need
            now -= 2 * (after.clients - before.clients)
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
    # A worker that was thrown out may truly speak too late: then Redis refuses it, and that proves it.
    proved = {"finding": Finding.STRAGGLER.word, "outcome": "refused"}
    journal = proxy.journal()
    grave = [line for line in journal if line["finding"] in GRAVE and not proved.items() <= line.items()]
    return [f"it said {line}" for line in said] + [f"untrue: {line}" for line in grave[:20]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--warm-minutes", type=float)
    parser.add_argument("--node", type=int, default=3)
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--python", type=int, default=4)
    parser.add_argument("--jobs-per-s", type=float, default=30.0)
    parser.add_argument("--journal")
    given = parser.parse_args()
    seconds = given.minutes * 60
    warm_s = min(240.0, seconds / 4) if given.warm_minutes is None else given.warm_minutes * 60
    share = RSS_SHARE_MAX if warm_s >= 120 else 0.3
    load = Load(seconds, warm_s, given.node, given.workers, given.python, given.jobs_per_s)
    report = play(load._replace(rss_share_max=share, keep=given.journal))
    print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
