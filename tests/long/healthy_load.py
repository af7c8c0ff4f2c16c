"""Healthy load on real workers, and not one untrue word about them: `python -m tests.long.healthy_load`.

    --minutes M      how long (10)
    --nap-ms MAX     the longest job; jobs last 1 ms to this, log-uniform (20000)
    --journal FILE   keeps the journal there

Two npm bullmq workers and two PyPI ones on two queues speak through one sidecar; locks last 2 s and both cores are
kept busy. Nobody does anything wrong, so the journal must hold no finding graver than `doubtful`, no lapse and no
renewal graded past on time, unless that worker truly was that late: each worker reports how late its own event loop
was, and every such line is printed with what the worker said of that time. What nothing explains ends in exit code 1.
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
from collections.abc import Iterable, Iterator
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
TOLERANCE_MS = 60.0
"""Of a worker's report on itself: three turns of its loop lie in a renewal's age, each beat sees a stall to 20 ms."""
AWAITED_US_MIN = 5_000
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


class Charge(NamedTuple):
    """A line that calls somebody late or worse, and what that worker says of the time."""

    line: Line
    worker: str
    stalled_ms: float
    """How long the worker's own loop stood still in the time that the line speaks of, by its own log."""
    awaited_ms: float
    """How long it waited for answers to renewals in that time; its next one goes out after them."""
    explained: bool

    def __str__(self) -> str:
        line = self.line
        said = {name: line[name] for name in ("seq", "time", "op", "outcome", "effect", "grade", "finding", "job")}
        figures = {name: line[name] for name in ("age_ms", "remaining_ms", "took_us", "lag_us")}
        evidence = f"its loop stood still {self.stalled_ms:.0f} ms, it awaited answers {self.awaited_ms:.0f} ms"
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
                f"grades: {dict(self.grades.most_common())}; the oldest renewal had {self.oldest_ms:.0f} ms of {LOCK_MS}",
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
    """A process for each of two cores that takes whatever the others leave; they end with us, whatever becomes of us."""
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
                naps = [math.exp(rng.uniform(0, math.log(load.nap_ms_max))) for _ in range(lacking + enough)]
                opts = {"removeOnComplete": True}
                await queue.addBulk([{"name": "nap", "data": {"ms": round(ms)}, "opts": opts} for ms in naps])
        await asyncio.sleep(0.1)  # the pace of the producer; nothing is awaited here
    while any([sum((await queue.getJobCounts("wait", "active")).values()) for queue in queues]):
        await asyncio.sleep(0.1)
    for queue in queues:
        await queue.close()


# -------------------------------------------------------------------- the verdict on the verdicts


def read(journal: Path, workers: dict[str, Peer]) -> Report:
    """Holds every line against what the workers said of themselves."""
    report = Report()
    whose = {line["token"]: name for name, peer in workers.items() for line in peer.find(event="active")}
    awaited: defaultdict[str, list[Span]] = defaultdict(list)
    charged: list[Line] = []
    last = 0
    with journal.open() as lines:
        for text in lines:
            line = json.loads(text)
            report.gaps += line["seq"] - last - 1
            last = line["seq"]
            if line["op"] == "renew" and line["took_us"] >= AWAITED_US_MIN and line["token"] in whose:
                awaited[whose[line["token"]]].append((line["opened_ns"] / 1e6, line["closed_ns"] / 1e6))
            _count(report, line)
            if line["op"] == "lapse" or line["grade"] in GRADES or line["finding"] in GRAVE:
                charged.append(line)
    stalls = {name: _stalls(peer) for name, peer in workers.items()}
    report.charges = [_charge(line, whose.get(line["token"], "nobody's"), stalls, awaited) for line in charged]
    for name, peer in workers.items():
        report.jobs[name] = len(peer.find(event="completed"))
        report.worst_lag_ms[name] = max((line["lag_us"] / 1000 for line in peer.find(event="lag")), default=0.0)
        taken = len(peer.find(event="active"))
        if not 0 < report.jobs[name] == taken:
            report.lacking.append(f"{name} took {taken} jobs and finished {report.jobs[name]}")
        if not (renewed := peer.find(event="renewed")):
            report.lacking.append(f"{name} had {len(renewed)} renewals")
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


def _charge(line: Line, worker: str, stalls: dict[str, list[Span]], awaited: dict[str, list[Span]]) -> Charge:
    """A worker wakes every RENEW_MS / 2 and renews what is older: RENEW_MS is the oldest a punctual one lets it get.

    What the line has beyond that, the worker itself must have lost; whatever suspects another than it is untrue.
    """
    last = line["closed_ns"] if line["op"] == "lapse" else line["opened_ns"]
    end, age = last / 1e6, line["age_ms"] or 0.0
    asleep, waiting = stalls.get(worker, []), awaited.get(worker, [])
    stalled_ms, lost_ms = (_length(each, end - age, end) for each in (asleep, [*asleep, *waiting]))
    own = line["finding"] not in GRAVE - {Finding.STRAGGLER.word}
    explained = own and line["age_ms"] is not None and age - RENEW_MS <= lost_ms + TOLERANCE_MS
    return Charge(line, worker, stalled_ms, _length(waiting, end - age, end), explained)


def _stalls(peer: Peer) -> list[Span]:
    return [((line["at_us"] - line["lag_us"]) / 1e3, line["at_us"] / 1e3) for line in peer.find(event="lag")]


def _length(spans: Iterable[Span], begin: float, end: float) -> float:
    """How much of the time between two instants the spans cover; where they overlap it counts once."""
    covered, reached = 0.0, begin
    for opened, closed in sorted(spans):
        opened, closed = max(opened, reached), min(closed, end)
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
