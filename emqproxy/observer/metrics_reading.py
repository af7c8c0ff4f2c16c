"""What the counted figures say, metric by metric: made anew each time somebody asks.

Nothing that is not named in `metrics_table` is told: labels are made here, of closed sets, names of queues and scripts.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from emqproxy.locks.verdicts import Finding, Grade
from emqproxy.observer import metrics_table as table
from emqproxy.observer.attributes import BLOCKED, FAILED, LATE, LOCK_LOST, MOVES, OTHER_ERROR
from emqproxy.observer.metrics import MANY, Buckets, Metrics, QueueFigures, Told, Words
from emqproxy.observer.metrics_table import OTHER, Metric
from emqproxy.observer.names import messaging_system
from emqproxy.records import Calls, Gauges, Hello, Spread

Labels: TypeAlias = tuple[str, ...]
"""Values, in the order of the metric's labels; empty for a label that does not apply."""

_OPERATIONS: Final = frozenset((*MOVES, "add", "renew", "finish", "release", "remove"))
"""What a client does to one job by a call of its own."""
_FINISHES: Final = {"completed": "complete", "failed": "fail"}


class Points(NamedTuple):
    """A histogram for one set of labels."""

    counts: tuple[int, ...]
    total: float
    """The sum of what was counted, in the metric's unit."""


class Reading:
    """One look at everything."""

    def __init__(self) -> None:
        self.numbers: dict[Metric, dict[Labels, float]] = {}
        """Counters and gauges."""
        self.spreads: dict[Metric, dict[Labels, Points]] = {}

    def add(self, metric: Metric, labels: Labels, number: float) -> None:
        """Adds to what is there."""
        of = self.numbers.setdefault(metric, {})
        of[labels] = of.get(labels, 0) + number

    def spread(self, metric: Metric, labels: Labels, counts: Iterable[int], total: float) -> None:
        """Likewise, of a histogram; one that has counted nothing is left out."""
        counts = tuple(counts)
        if not any(counts):
            return
        of = self.spreads.setdefault(metric, {})
        if labels in of:
            before = of[labels]
            counts = tuple(a + b for a, b in zip(before.counts, counts, strict=True))
            total += before.total
        of[labels] = Points(counts, total)


class Reader:
    """Makes readings. `spans` and `lines_lost` give what other consumers have counted."""

    def __init__(
        self, hello: Hello, metrics: Metrics, spans: Callable[[], Mapping[str, int]], lines_lost: Callable[[], int]
    ) -> None:
        self._hello, self._metrics, self._spans, self._lines_lost = hello, metrics, spans, lines_lost
        self._server = (hello.server_address, "" if hello.server_port is None else str(hello.server_port))

    def read(self) -> Reading:
        """All of it, as it stands now."""
        reading, metrics = Reading(), self._metrics
        for figures in (metrics.nowhere, *list(metrics.queues.values())):
            for words, told in list(figures.told.items()):
                _line(reading, figures, words, told)
            _queue(reading, figures)
            for cause, count in list(figures.causes.items()):
                reading.add(table.CAUSES, (figures.name, cause), count)
            if figures.name:
                reading.add(table.HELD, (figures.name,), 0)
        held, oldest_s = metrics.held()
        for figures, count in held.items():
            reading.add(table.HELD, (figures.name,), count)
        reading.add(table.OLDEST, (), oldest_s)
        for decided, count in _decided(metrics.mode, metrics.actions).items():
            reading.add(table.ENFORCEMENT, decided, count)
        reading.add(table.BLINDED, (), 0)
        reading.add(table.RECORDS, (), metrics.records)
        reading.add(table.DROPPED, (), metrics.dropped)
        reading.add(table.RESTARTS, (), self._hello.restarts)
        reading.add(table.LINES_LOST, (), self._lines_lost())
        reading.add(table.BUILD, (self._hello.version, platform.python_version()), 1)
        for result, count in self._spans().items():
            reading.add(table.SPANS, (result,), count)
        if metrics.gauges is not None:
            _plane(reading, metrics.gauges, self._server)
        return reading


def _decided(mode: str, actions: Mapping[tuple[str, str, str], int]) -> dict[Labels, int]:
    """What was counted, and at 0 what this mode may come to: an increase from nothing would not be seen."""
    possible = {"shadow": ("would_block",), "enforce": ("would_block", "blocked")}.get(mode, ())
    untold: dict[Labels, int] = {(mode, action, rule): 0 for action in possible for rule in table.RULES}
    return untold | dict(actions)


def _line(reading: Reading, figures: QueueFigures, words: Words, told: Told) -> None:
    """Lines that say the same."""
    op, outcome, _, _, code_name, grade, _, script = words
    queue, count = figures.name, told.count
    if op == "blind":
        reading.add(table.BLINDED, (), count)
    if op == "renew":
        reading.add(table.RENEWALS, (queue, (grade or Grade.UNKNOWN).value), count)
    for kind in violations_of(words):
        reading.add(table.VIOLATIONS, (queue, kind), count)
    states = states_of(words)
    if states is not None:
        reading.add(table.TRANSITIONS, (queue, *states, outcome), count)
    if op == "reap":
        reading.add(table.STALLED, (queue, words[2] or OTHER), count)
    code = code_of(words)
    if code is not None and script and outcome != "blocked":  # then the script never ran
        reading.add(table.RETURNS, (script, code), count)
    if op in _OPERATIONS:
        error = BLOCKED if outcome == "blocked" else (code_name or OTHER_ERROR) if outcome in FAILED else ""
        name = _FINISHES.get(words[2] or "", op) if op == "finish" else op
        about = (messaging_system(figures.prefix), name, queue, error)
        reading.spread(table.OPERATIONS, about, told.took.counts[:], told.took.total / 1e9)
        if op in ("add", "acquire"):
            reading.add(table.SENT if op == "add" else table.CONSUMED, about, count)


def violations_of(words: Words) -> list[str]:
    """The kinds of `emq.lock.violations` that such a line counts under; each at most once."""
    op, outcome, _, _, code_name, grade, finding, _ = words
    kinds = [grade.value] if grade is not None and grade in LATE else []
    if outcome == "blocked":
        kinds.append(outcome)
    elif outcome == "refused":
        kinds.append(code_name or outcome)
    if finding is not None and finding < Finding.DOUBTFUL:
        kinds.append(finding.word)
    return [*kinds, "lapse"] if op == "lapse" else kinds


def states_of(words: Words) -> tuple[str, str] | None:
    """From which state to which such a line moves its job, or was to move it; None for a line that moves none."""
    op, target = words[0], words[2]
    if op in ("finish", "reap"):
        return "active", target or OTHER
    return MOVES.get(op)


def code_of(words: Words) -> str | None:
    """What its script returned, in words where it has some; None where that is no code."""
    code, code_name = words[3], words[4]
    if code_name is not None:
        return code_name
    return None if code is None else OTHER if code == MANY else str(code)


def _queue(reading: Reading, figures: QueueFigures) -> None:
    queue = figures.name
    _spread(reading, table.AGE_RATIO, (queue,), figures.age_ratio, 1)
    _spread(reading, table.REMAINING, (queue,), figures.remaining, 1e3)
    about = (messaging_system(figures.prefix), "process", queue)
    _spread(reading, table.PROCESSED, (*about, ""), figures.kept, 1e9)
    _spread(reading, table.PROCESSED, (*about, LOCK_LOST), figures.broken, 1e9)


def _spread(reading: Reading, metric: Metric, labels: Labels, buckets: Buckets, divisor: float) -> None:
    reading.spread(metric, labels, buckets.counts[:], buckets.total / divisor)


def _plane(reading: Reading, gauges: Gauges, server: Labels) -> None:
    """What the data plane tells of itself."""
    numbers: Sequence[tuple[Metric, Labels, int]] = (
        (table.CONNECTIONS, ("client",), gauges.clients),
        (table.CONNECTIONS, ("server",), gauges.servers),
        (table.INFLIGHT, (), gauges.inflight),
        (table.BYTES, ("to_server",), gauges.to_server_bytes),
        (table.BYTES, ("to_client",), gauges.to_client_bytes),
        (table.NOSCRIPT, (), gauges.noscripts),
        (table.UNRECOGNISED, (), gauges.unrecognised),
        (table.GUESSED, (), gauges.guessed),
        (table.FAULTS, (), gauges.faults),
        (table.RELOADS, ("ok",), gauges.reloads_ok),
        (table.RELOADS, ("failed",), gauges.reloads_failed),
    )
    for metric, labels, number in numbers:
        reading.add(metric, labels, number)
    _told_spread(reading, table.OVERHEAD, (), gauges.overhead)
    _told_spread(reading, table.LOOP_LAG, (), gauges.loop_lag)
    for calls in gauges.calls:
        _told_spread(reading, table.CALLS, _call_labels(calls, server), calls.took)


def _call_labels(calls: Calls, server: Labels) -> Labels:
    return ("redis", calls.command, calls.script, calls.error, *server)


def _told_spread(reading: Reading, metric: Metric, labels: Labels, told: Spread) -> None:
    reading.spread(metric, labels, told.counts, told.sum_ns / 1e9)
