"""What one run of one contender gave: values only."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.bench import meter
from tests.bench.contenders import Contender, Stage
from tests.processes import eventually

QUIET_S = 1.6
"""The exporter waits a second for a batch to fill: silence for longer, and none is to come."""
DRAIN_S = 60.0
IDLE_S = 0.4
LOOKS = 10
IDLE_SHARE = 0.1
"""Of a core: emqproxy's two processes, Redis and a collector beat a little all the time."""


@dataclass(frozen=True)
class Spans:
    """What became of the spans of one run, warm-up and all."""

    expected: int
    """One for each call, or three for each job."""
    records: int
    """Told by the data plane, lines of connections among them, which make no spans."""
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
    """Waits until all have come, or no more do; ends the proxy, and counts. `since` is from before the first call."""
    receiver = stage.receiver
    if receiver is None:
        return None
    last, at = receiver.spans, time.monotonic()

    def over() -> bool:
        nonlocal last, at
        value = receiver.spans
        if value != last or not _idle(stage):
            last, at = value, time.monotonic()
        return value >= expected or time.monotonic() - at > QUIET_S

    eventually(over, DRAIN_S, "the last span")
    observer_s = since.cpu_s(0)["observer"]
    stage.end()
    received = receiver.spans
    told, dropped = stage.ended["records"], stage.ended["dropped"]
    return Spans(expected, told, dropped, received, 1e6 * observer_s / max(1, received))


def settle(stage: Stage) -> None:
    """Until the processes have nothing to do: started, and done with all that they were told before."""
    eventually(lambda: _idle(stage), DRAIN_S, "processes with nothing to do")


def _idle(stage: Stage) -> bool:
    """Whether they neither use a core for a while nor wait for one, as they do on a busy machine."""
    since, seen = Meter(stage), Counter[int]()
    for _ in range(LOOKS):
        time.sleep(IDLE_S / LOOKS)
        seen.update(pid for pid in stage.pids.values() if meter.wants_a_core(pid))
    # Where all cores are taken, a process that only beats may be seen waiting, too, but not most of the time.
    waiting = max(seen.values(), default=0) > LOOKS // 2
    return not waiting and sum(since.cpu_s(0).values()) <= IDLE_SHARE * IDLE_S


def named(measures: Sequence[Measure], workload: str) -> dict[Contender, list[Measure]]:
    """The runs of one workload by contender, in the contenders' order of appearance."""
    found: dict[Contender, list[Measure]] = {}
    for measure in measures:
        if measure.workload == workload:
            found.setdefault(measure.contender, []).append(measure)
    return found
