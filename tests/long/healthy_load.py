"""Healthy load on real workers, and not one untrue word about them: `python -m tests.long.healthy_load`.

    --minutes M      how long (10)
    --nap-ms MAX     the longest job; jobs last 1 ms to this, log-uniform (20000)
    --journal FILE   keeps the journal there
    --mode MODE      the sidecar's (observe); in enforce mode all rules are enforced, and none may refuse

Two npm bullmq workers and two PyPI ones on two queues speak through one sidecar; locks last 2 s and both cores are
kept busy. Nobody does anything wrong, so the journal must hold no finding graver than `doubtful`, no lapse, no renewal
graded past on time and no cause, unless that worker truly was that late: each worker reports how late its own event
loop was, and every such line is printed with what the worker said of that time, and what the sidecar said of its own
loop. Judged again, the journal must say the same. What nothing explains ends in exit code 1.
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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bullmq import Queue

from emqproxy.replay_report import Difference, Rejudging
from tests.e2e.peers import Peer
from tests.long.healthy_evidence import GRADES, GRAVE, LOCK_MS, RENEW_MS, Charge, Evidence, Line
from tests.processes import EmqProxy, RedisServer
from tests.proxy.breaches import ALL_RULES

KINDS = ("ioredis", "python")
QUEUES = ("orders", "mails")
OPTIONS = {"lockDuration": LOCK_MS, "lockRenewTime": RENEW_MS, "stalledInterval": 2000, "runRetryDelay": 500}
LAG_US_MIN = 10_000
BLOCK_MS = 900
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


class Load(NamedTuple):
    """What is played."""

    seconds: float
    nap_ms_max: float = 20_000
    concurrency: int = 12
    seed: int = 3
    blocks: float = 0.0
    """The share of jobs that hold their worker's loop for BLOCK_MS: none in a healthy load."""
    mode: str = "observe"


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
        self.causes: Counter[str] = Counter()
        self.refused: list[str] = []
        """Lines of calls that a rule refused, or would have."""
        self.otherwise: list[str] = []
        """What is said otherwise when the journal is judged again."""
        self.charges: list[Charge] = []
        self.lacking: list[str] = []
        """What should have been seen and was not: the load was none."""

    @property
    def good(self) -> bool:
        """Nothing untrue was said, the journal is whole, and there was a load to speak of."""
        fair = not self.lacking and not self.gaps and all(charge.explained for charge in self.charges)
        return fair and not self.refused and not self.otherwise

    def __str__(self) -> str:
        lags = {name: round(lag) for name, lag in self.worst_lag_ms.items()}
        return "\n".join(
            [
                *map(str, self.charges),
                *(f"LACKING: {what}" for what in self.lacking),
                *(f"REFUSED: {what}" for what in self.refused),
                *(f"JUDGED AGAIN: {what}" for what in self.otherwise),
                f"jobs done: {sum(self.jobs.values())} {dict(self.jobs)}",
                f"journal: {self.lines} lines, {self.gaps} missing; {dict(self.ops.most_common())}",
                f"findings: {dict(self.findings.most_common())}",
                f"grades: {dict(self.grades.most_common())}; the oldest renewal: {self.oldest_ms:.0f} of {LOCK_MS} ms",
                f"causes: {dict(self.causes.most_common())}; judged again, {len(self.otherwise)} are said otherwise",
                f"worst loop lag, ms: {lags}; of the sidecar {self.proxy_lag_ms:.0f}",
                f"called late or worse: {len(self.charges)}, unexplained: {sum(not c.explained for c in self.charges)}",
            ]
        )


def play(load: Load, keep: str | None = None) -> Report:
    """Plays it, ends every process, and reads the journal. `keep`: where to copy the journal."""
    with contextlib.ExitStack() as ends:
        redis = ends.enter_context(RedisServer())
        told = {"OTEL_TRACES_EXPORTER": "none", "EMQPROXY_TRACE__TOKEN": "raw"}  # raw: to know whose line it is
        proxy = ends.enter_context(EmqProxy(redis.url, "--mode", load.mode, env=told | ALL_RULES))
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
            if line["op"] == "lapse" or line["grade"] in GRADES or line["finding"] in GRAVE or line["cause"]:
                charged.append(line)
            if line["rule"]:
                report.refused.append(text)
    report.otherwise = judged_again(journal)
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


def judged_again(journal: Path) -> list[str]:
    """What is said otherwise, and what cannot be judged again."""
    again, told = Rejudging(), []
    with journal.open("rb") as lines:
        told += [_difference(difference) for raw in lines for difference in again.take(raw)]
    told += [_difference(difference) for difference in again.end()]
    return told + again.notes


def _difference(found: Difference) -> str:
    return f"line {found.line.seq} {found.line.op} {found.what}: {found.then!r} then, {found.now!r} now"


def _count(report: Report, line: Line) -> None:
    report.lines += 1
    report.ops[f"{line['op']} {line['outcome']}"] += 1
    report.proxy_lag_ms = max(report.proxy_lag_ms, line["lag_us"] / 1000)
    if line["finding"]:
        report.findings[line["finding"]] += 1
    if line["cause"]:
        report.causes[line["cause"]] += 1
    if line["grade"]:
        report.grades[line["grade"]] += 1
        report.oldest_ms = max(report.oldest_ms, line["age_ms"] or 0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--nap-ms", type=float, default=Load(0).nap_ms_max)
    parser.add_argument("--journal")
    parser.add_argument("--mode", choices=["observe", "shadow", "enforce"], default="observe")
    arguments = parser.parse_args()
    report = play(Load(arguments.minutes * 60, arguments.nap_ms, mode=arguments.mode), arguments.journal)
    print(report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
