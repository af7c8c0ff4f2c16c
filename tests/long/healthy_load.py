"""Healthy load on real workers, and not one untrue word about them: `python -m tests.long.healthy_load`.

    --minutes M      how long (10)
    --nap-ms MAX     the longest job; jobs last 1 ms to this, log-uniform (20000)
    --journal FILE   keeps the journal there

Two npm bullmq workers and two PyPI ones on two queues speak through one sidecar; locks last 2 s and both cores are
kept busy. Nobody does anything wrong, so the journal must hold no finding graver than `doubtful`, no lapse and no
renewal graded past on time, unless that worker truly was that late: each worker reports how late its own event loop
was, and every such line is printed with what the worker said of that time, and what the sidecar said of its own loop.
What nothing explains ends in exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bullmq import Queue

from emqproxy.locks.verdicts import Finding
from tests.e2e.peers import Peer
from tests.processes import EmqProxy, RedisServer

KINDS = ("ioredis", "python")
QUEUES = ("orders", "mails")
LOCK_MS, RENEW_MS = 2000, 1000
OPTIONS = {"lockDuration": LOCK_MS, "lockRenewTime": RENEW_MS, "stalledInterval": 2000, "runRetryDelay": 500}
LAG_US_MIN = 10_000
BLOCK_MS = 900
TOLERANCE_MS = 60.0
"""Of a worker's report on itself: three turns of its loop lie in a renewal's age, each beat sees a stall to 20 ms."""
STALL_MS_MIN = 5.0
GRADES = frozenset({"late", "critical", "too_late"})
GRAVE = frozenset(finding.word for finding in Finding if finding < Finding.DOUBTFUL)
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"

Line = dict[str, Any]
Span = tuple[float, float]
"""From and to, in milliseconds of the machine's monotonic clock."""


class Load(NamedTuple):
    """What is played."""

    seconds: float
    nap_ms_max: float = 20_000
    concurrency: int = 12
    seed: int = 3
    blocks: float = 0.0
    """The share of jobs that hold their worker's loop for BLOCK_MS: none in a healthy load."""


class Charge(NamedTuple):
    """A line that calls somebody late or worse, and what that worker says of the time."""

    line: Line
    worker: str
    stalled_ms: float
    """How long the worker's own loop stood still in the time that the line speaks of, by its own log."""
    awaited_ms: float
    """How long it waited for answers to renewals in that time; its next one goes out after them."""
    ours_ms: float
    """How long the sidecar stood still in that time: as much of the waiting as this is the sidecar's doing."""
    explained: bool

    def __str__(self) -> str:
        line = self.line
        said = {name: line[name] for name in ("seq", "time", "op", "outcome", "effect", "grade", "finding", "job")}
        figures = {name: line[name] for name in ("age_ms", "remaining_ms", "took_us", "lag_us")}
        evidence = f"its loop stood still {self.stalled_ms:.0f} ms, it awaited answers {self.awaited_ms:.0f} ms"
        evidence += f" (the sidecar stood still {self.ours_ms:.0f} ms)"
        return f"{'explained' if self.explained else 'UNTRUE'}: {self.worker} {said} {figures}: {evidence}"


class Report:
    """What the journal and the workers said."""

    def __init__(self) -> None:
        self.jobs: Counter[str] = Counter()
        self.worst_lag_ms: dict[str, float] = {}
        self.lines = 0
        self.gaps = 0
        self.ops: Counter[str] = Counter()
        self.findings: Counter[str] = Counter()
        self.grades: Counter[str] = Counter()
        self.proxy_lag_ms = 0.0
        self.oldest_ms = 0.0
        """The greatest age of a renewal."""
        self.charges: list[Charge] = []
        self.lacking: list[str] = []
        """What should have been seen and was not: the load was none."""

    @property
    def good(self) -> bool:
        """Nothing untrue was said, the journal is whole, and there was a load to speak of."""
        return not self.lacking and not self.gaps and all(charge.explained for charge in self.charges)

    def __str__(self) -> str:
        lags = {name: round(lag) for name, lag in self.worst_lag_ms.items()}
        return "\n".join(
            [
                *map(str, self.charges),
                *(f"LACKING: {what}" for what in self.lacking),
                f"jobs done: {sum(self.jobs.values())} {dict(self.jobs)}",
                f"journal: {self.lines} lines, {self.gaps} missing; {dict(self.ops.most_common())}",
                f"findings: {dict(self.findings.most_common())}",
                f"grades: {dict(self.grades.most_common())}; the oldest renewal: {self.oldest_ms:.0f} of {LOCK_MS} ms",
                f"worst loop lag, ms: {lags}; of the sidecar {self.proxy_lag_ms:.0f}",
                f"called late or worse: {len(self.charges)}, unexplained: {sum(not c.explained for c in self.charges)}",
            ]
        )


def play(load: Load, keep: str | None = None) -> Report:
    """Plays it, ends every process, and reads the journal. `keep`: where to copy the journal."""
    with contextlib.ExitStack() as ends:
        redis = ends.enter_context(RedisServer())
        told = {"OTEL_TRACES_EXPORTER": "none", "EMQPROXY_TRACE__TOKEN": "raw"}  # raw: to know whose line it is
        proxy = ends.enter_context(EmqProxy(redis.url, env=told))
        ends.enter_context(busy_cores())
        workers: dict[str, Peer] = {}
        for queue in QUEUES:
            for kind in KINDS:
                config = {"port": proxy.port, "prefix": "emq", "queue": queue, "lag_us_min": LAG_US_MIN}
                options = OPTIONS | {"concurrency": load.concurrency}
                peer = workers[f"{kind} {queue}"] = Peer(kind, "worker", config | {"options": options})
                ends.callback(peer.end)
        for peer in workers.values():
            peer.wait(event="ready")
        asyncio.run(_supply(load, proxy.port))
        for peer in workers.values():
            peer.close()
        code = proxy.end()
        assert code == 0, (code, proxy.raw[-3:])
        if keep is not None:
            shutil.copy(proxy.journal_path, keep)
        return read(proxy.journal_path, workers)


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """A process for each of two cores that takes what the others leave; they end with us, whatever becomes of us."""
    busy = [subprocess.Popen(["nice", "-n", "10", sys.executable, "-c", BUSY]) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


async def _supply(load: Load, port: int) -> None:
    """Keeps the queues supplied until the time is up, then waits until the workers have done it all."""
    rng = random.Random(load.seed)
    connection = {"host": "127.0.0.1", "port": port}
    queues = [Queue(queue, {"connection": connection, "prefix": "emq"}) for queue in QUEUES]
    enough = load.concurrency
    end = time.monotonic() + load.seconds
    while time.monotonic() < end:
        for queue in queues:
            lacking = enough - await queue.getWaitingCount()
            if lacking > 0:
                await queue.addBulk([_job(load, rng) for _ in range(lacking + enough)])
        await asyncio.sleep(0.1)  # the pace of the producer; nothing is awaited here
    while any([sum((await queue.getJobCounts("wait", "active")).values()) for queue in queues]):  # noqa: ASYNC110
        await asyncio.sleep(0.1)  # the workers are other processes
    for queue in queues:
        await queue.close()


def _job(load: Load, rng: random.Random) -> dict[str, Any]:
    opts = {"removeOnComplete": True}
    if rng.random() < load.blocks:
        return {"name": "block", "data": {"ms": BLOCK_MS}, "opts": opts}
    ms = round(math.exp(rng.uniform(0, math.log(load.nap_ms_max))))
    return {"name": "nap", "data": {"ms": ms}, "opts": opts}


# -------------------------------------------------------------------- the verdict on the verdicts


def read(journal: Path, workers: dict[str, Peer]) -> Report:
    """Holds every line against what the workers said of themselves."""
    report = Report()
    whose = {line["token"]: name for name, peer in workers.items() for line in peer.find(event="active")}
    evidence = Evidence(workers)
    charged: list[Line] = []
    last = 0
    with journal.open() as lines:
        for text in lines:
            line = json.loads(text)
            report.gaps += line["seq"] - last - 1
            last = line["seq"]
            _count(report, line)
            evidence.note(line, whose.get(line["token"], "nobody"))
            if line["op"] == "lapse" or line["grade"] in GRADES or line["finding"] in GRAVE:
                charged.append(line)
    report.charges = [evidence.weigh(line, whose.get(line["token"], "nobody")) for line in charged]
    for name, peer in workers.items():
        report.jobs[name] = len(peer.find(event="completed"))
        report.worst_lag_ms[name] = max((line["lag_us"] / 1000 for line in peer.find(event="lag")), default=0.0)
        taken = len(peer.find(event="active"))
        if not 0 < report.jobs[name] == taken:
            report.lacking.append(f"{name} took {taken} jobs and finished {report.jobs[name]}")
        if not peer.find(event="renewed"):
            report.lacking.append(f"{name} had no renewal")
    return report


def _count(report: Report, line: Line) -> None:
    report.lines += 1
    report.ops[f"{line['op']} {line['outcome']}"] += 1
    report.proxy_lag_ms = max(report.proxy_lag_ms, line["lag_us"] / 1000)
    if line["finding"]:
        report.findings[line["finding"]] += 1
    if line["grade"]:
        report.grades[line["grade"]] += 1
        report.oldest_ms = max(report.oldest_ms, line["age_ms"] or 0.0)


class Evidence:
    """When who stood still or waited, to be held against what the journal says of a worker."""

    def __init__(self, workers: dict[str, Peer]) -> None:
        self.asleep: dict[str, list[Span]] = {
            name: [((lag["at_us"] - lag["lag_us"]) / 1e3, lag["at_us"] / 1e3) for lag in peer.find(event="lag")]
            for name, peer in workers.items()
        }
        self.awaited: defaultdict[str, set[Span]] = defaultdict(set)
        self.ours: set[Span] = set()

    def note(self, line: Line, worker: str) -> None:
        """What a line of the journal says of waiting: an answer to a renewal, and the sidecar's own lag."""
        opened, closed, lag = line["opened_ns"] / 1e6, line["closed_ns"] / 1e6, line["lag_us"] / 1e3
        if lag >= STALL_MS_MIN and line["op"] != "lapse":
            self.ours.add((closed - lag, closed))
        if line["op"] == "renew" and closed - opened + lag >= STALL_MS_MIN:
            self.awaited[worker].add((opened - lag, closed))  # it may have lain unread while the sidecar stood still

    def weigh(self, line: Line, worker: str) -> Charge:
        """A worker wakes every RENEW_MS / 2 and renews what is older: a punctual one lets it get RENEW_MS old.

        What the line has beyond that, the worker must have lost in its own loop or in waiting for an answer; what
        suspects another than the worker is untrue.
        """
        end, age = (line["closed_ns"] if line["op"] == "lapse" else line["opened_ns"]) / 1e6, line["age_ms"] or 0.0
        asleep, waiting = self.asleep.get(worker, []), self.awaited[worker]
        stalled_ms, awaited_ms, ours_ms, lost_ms = (
            _length(each, end - age, end) for each in (asleep, waiting, self.ours, [*asleep, *waiting])
        )
        own = line["finding"] not in GRAVE - {Finding.STRAGGLER.word}
        explained = own and line["age_ms"] is not None and age - RENEW_MS <= lost_ms + TOLERANCE_MS
        return Charge(line, worker, stalled_ms, awaited_ms, ours_ms, explained)


def _length(spans: Collection[Span], begin: float, end: float) -> float:
    """How much of the time between two instants the spans cover; where they overlap it counts once."""
    covered, reached = 0.0, begin
    for span in sorted(spans):
        opened, closed = max(span[0], reached), min(span[1], end)
        if closed > opened:
            covered += closed - opened
            reached = closed
    return covered


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--nap-ms", type=float, default=Load(0).nap_ms_max)
    parser.add_argument("--journal")
    arguments = parser.parse_args()
    report = play(Load(arguments.minutes * 60, arguments.nap_ms), arguments.journal)
    print(report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
