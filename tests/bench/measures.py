"""What one run of one contender gave: values only."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.bench import meter
from tests.bench.contenders import Contender, Stage
from tests.processes import eventually

QUIET_S = 1.6
"""The exporter waits a second for a batch to fill: silence for longer, and none is to come."""
DRAIN_S = 60.0
IDLE_S = 0.4
IDLE_SHARE = 0.1
"""Of a core: emqproxy's two processes, Redis and a collector beat a little all the time."""


@dataclass(frozen=True)
class Spans:
    """What became of the spans of one run, warm-up and all."""

    expected: int
    """One for each call, or three for each job."""
    records: int
    """Told by the data plane."""
    dropped: int
    """Of them, those that found the way to the observer full."""
    received: int
    """By the collector."""
    observer_us: float
    """The observer's CPU time for one of those received."""

    @property
    def lost(self) -> int:
        return self.expected - self.received


@dataclass(frozen=True)
class Measure:
    """One run."""

    workload: str
    contender: Contender
    calls: int
    """Or jobs."""
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_s: dict[str, float]
    """While the client ran, by part: `client`, `redis`, `proxy`, `observer`, `receiver`."""
    rss_mib: dict[str, float] = field(default_factory=dict)
    """At the client's end."""
    spans: Spans | None = None

    @property
    def per_s(self) -> float:
        return self.calls / self.seconds


class Meter:
    """The CPU time of a stage's processes from here on."""

    def __init__(self, stage: Stage) -> None:
        self._pids = stage.pids
        self._before = {part: meter.cpu_s(pid) for part, pid in self._pids.items()}

    def cpu_s(self, client_s: float) -> dict[str, float]:
        """So far, the client's own figure beside them."""
        used = {part: meter.cpu_s(pid) - self._before[part] for part, pid in self._pids.items()}
        return {"client": client_s} | used

    def rss_mib(self) -> dict[str, float]:
        return {part: meter.rss_mib(pid) for part, pid in self._pids.items()}


def spans_of(stage: Stage, expected: int, since: Meter) -> Spans | None:
    """Waits until no more come, ends the proxy, and counts; `since` was made before the first call."""
    receiver = stage.receiver
    if receiver is None:
        return None
    _settled(lambda: receiver.spans)
    observer_s = since.cpu_s(0)["observer"]
    stage.end()
    received = receiver.spans
    told, dropped = stage.ended["records"], stage.ended["dropped"]
    return Spans(expected, told, dropped, received, 1e6 * observer_s / max(1, received))


def settle(stage: Stage) -> None:
    """Until the processes have nothing to do: started, and done with all that they were told before."""

    def idle() -> bool:
        since = Meter(stage)
        time.sleep(IDLE_S)
        return sum(since.cpu_s(0).values()) <= IDLE_SHARE * IDLE_S

    eventually(idle, DRAIN_S, "processes with nothing to do")


def _settled(count: Callable[[], int]) -> None:
    """Until a count has not grown for QUIET_S."""
    last, at = count(), time.monotonic()

    def quiet() -> bool:
        nonlocal last, at
        if (value := count()) != last:
            last, at = value, time.monotonic()
        return time.monotonic() - at > QUIET_S

    eventually(quiet, DRAIN_S, "the last span")


def named(measures: Sequence[Measure], workload: str) -> dict[Contender, list[Measure]]:
    """The runs of one workload by contender, in the contenders' order of appearance."""
    found: dict[Contender, list[Measure]] = {}
    for measure in measures:
        if measure.workload == workload:
            found.setdefault(measure.contender, []).append(measure)
    return found
