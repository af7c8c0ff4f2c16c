"""The workloads, and how one is played on one contender."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.bench import jobs, load
from tests.bench.contenders import CONTENDERS, Contender, Stage, open_stage
from tests.bench.measures import Measure, Meter, settle, spans_of
from tests.bench.meter import pin

VALUE_BYTES: Final = 100 * 1024
VALUES: Final = 100


@dataclass(frozen=True)
class Scale:
    """How long and how much."""

    seconds: float
    locks: int
    jobs: int
    warm_up: int


FULL: Final = Scale(seconds=3.0, locks=10_000, jobs=20_000, warm_up=5_000)
QUICK: Final = Scale(seconds=0.5, locks=2_000, jobs=500, warm_up=500)


@dataclass(frozen=True)
class Workload:
    """One table of the report."""

    name: str
    title: str
    unit: str
    play: Callable[[Workload, Contender, Scale], Measure]
    fits: Callable[[Contender], bool]
    options: tuple[str, ...] = ()
    """redis-benchmark's."""
    pinned: bool = False
    longer: float = 1.0
    """Times the seconds of the others."""
    times: str = ""
    """What p50 and p99 are, where not those of a call (of a whole pipeline)."""

    def contenders(self) -> list[Contender]:
        """Those that it can be played on, here."""
        return [contender for contender in CONTENDERS if self.fits(contender) and not contender.lacks]

    @property
    def lacks(self) -> str | None:
        """What it needs and this machine has not."""
        needs = ("node", "npm") if self.play in {bulk, paced} else ("redis-benchmark",)
        return next((program for program in needs if shutil.which(program) is None), None)


# ---------------------------------------------------------------- how


def renewals(workload: Workload, contender: Contender, scale: Scale) -> Measure:
    """Renewals of many locks that are all held: each is answered with 1."""
    with open_stage(contender) as stage:
        since = Meter(stage)
        load.load_scripts(stage)
        (load.grant_locks if contender.watches else load.set_locks)(stage, scale.locks)
        measure = _fire(stage, workload, contender, load.renewal(contender.script, scale.locks), scale)
        calls = load.calls_of(stage, "evalsha")
        # The pickups set a lock each, too.
        assert load.calls_of(stage, "set") == calls + (0 if contender.watches else scale.locks), "renewals were refused"
        return replace(measure, spans=spans_of(stage, calls, since))


def values(workload: Workload, contender: Contender, scale: Scale) -> Measure:
    """GET or SET of values that are there."""
    with open_stage(contender) as stage:
        size = VALUE_BYTES if "100k" in workload.name else 64
        load.set_values(stage, VALUES, size)
        return _fire(stage, workload, contender, ["-d", str(size), "-r", str(VALUES)], scale)


def bulk(workload: Workload, contender: Contender, scale: Scale) -> Measure:
    """Jobs that do nothing, all of them waiting when the worker begins."""
    with open_stage(contender) as stage:
        since = Meter(stage)
        jobs.fill(stage, scale.jobs)
        settle(stage)
        with jobs.Worker(stage, scale.jobs) as worker:
            clock = Meter(stage)
            done = worker.run()
            cpu_s, rss_mib = clock.cpu_s(done.cpu_s), clock.rss_mib()
        spans = spans_of(stage, jobs.SPANS * scale.jobs, since)
        times = (done.seconds, done.p50_ms, done.p99_ms)
        return Measure(workload.name, contender, done.jobs, *times, cpu_s, rss_mib, spans)


def paced(workload: Workload, contender: Contender, scale: Scale) -> Measure:
    """1,000 jobs a second, added past the proxy while the worker works."""
    with open_stage(contender) as stage:
        since = Meter(stage)
        with jobs.Worker(stage, scale.jobs) as worker, jobs.Producer(stage, scale.jobs) as producer:
            settle(stage)
            clock = Meter(stage)
            producer.run()
            done = worker.run()
            cpu_s, rss_mib = clock.cpu_s(done.cpu_s), clock.rss_mib()
        spans = spans_of(stage, jobs.SPANS * scale.jobs, since)
        times = (done.seconds, done.waited_p50_ms, done.waited_p99_ms)
        return Measure(workload.name, contender, done.jobs, *times, cpu_s, rss_mib, spans)


def _fire(stage: Stage, workload: Workload, contender: Contender, words: list[str], scale: Scale) -> Measure:
    options, core = list(workload.options), None
    if workload.pinned:
        core = 0
        pin([pid for part, pid in stage.pids.items() if part in {"redis", "proxy"}], 1)
        pin([pid for part, pid in stage.pids.items() if part not in {"redis", "proxy"}], 0)
    settle(stage)
    warm = load.fire(stage.port, scale.warm_up, options, words, core)
    calls = max(scale.warm_up, int(warm.per_s * scale.seconds * workload.longer))
    clock = Meter(stage)
    result = load.fire(stage.port, calls, options, words, core)
    cpu_s = clock.cpu_s(result.client_cpu_s)
    times = (result.seconds, result.p50_ms, result.p99_ms)
    return Measure(workload.name, contender, result.calls, *times, cpu_s, clock.rss_mib())


def _renewal(contender: Contender) -> bool:
    return True


def _value(contender: Contender) -> bool:
    """Nothing of a GET is judged or told: emqproxy is measured once."""
    return contender.script == "own"


def _bullmq(contender: Contender) -> bool:
    """Its scripts are the protocol's. twemproxy knows no INFO, no BZPOPMIN and no MULTI."""
    return contender.script == "extendLock"


def _traced(contender: Contender) -> bool:
    return contender.exports


def _redis(name: str, title: str, *options: str, **more: Any) -> Workload:
    kind = (renewals, _renewal) if name.startswith("renewal") else (values, _value)
    return Workload(name, title, "calls", *kind, options, **more)


WORKLOADS: Final = (
    _redis("renewal", "a renewal, 50 connections", "-c", "50"),
    _redis("renewal-pipeline", "a renewal, 50 connections, 16 in a pipeline", "-c", "50", "-P", "16"),
    _redis("renewal-1000", "a renewal, 1,000 connections", "-c", "1000", longer=2.0),
    _redis("renewal-1", "a renewal, 1 connection, pinned", "-c", "1", pinned=True),
    _redis("set", "SET of 64 bytes, 50 connections", "-c", "50", "-t", "set"),
    _redis("get", "GET of 64 bytes, 50 connections", "-c", "50", "-t", "get"),
    _redis("set-100k", "SET of 100 KiB, 50 connections", "-c", "50", "-t", "set"),
    _redis("get-100k", "GET of 100 KiB, 50 connections", "-c", "50", "-t", "get"),
    Workload(
        "bullmq",
        "a BullMQ worker, 50 at a time, all jobs waiting",
        "jobs",
        bulk,
        _bullmq,
        times="the call that finishes a job",
    ),
    Workload(
        "bullmq-paced",
        "a BullMQ worker, 1,000 jobs added a second",
        "jobs",
        paced,
        _traced,
        times="from added to completed",
    ),
)
