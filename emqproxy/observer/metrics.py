"""Counts every record, in plain integers: what is told of it is put together by `metrics_reading` when somebody asks.

A record costs one look for its queue, one for its words, and a few additions (`tests/bench/observer_cost.py`). Written
by the observer's main thread, read by others: each figure is read in one piece.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, TypeAlias

from emqproxy.locks.events import Granted, Instant, Lapsed, Lock, LockFact, Queue, Renewed
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade
from emqproxy.observer.metrics_table import (
    AGE_RATIO,
    OPERATIONS,
    OTHER,
    PROCESSED,
    QUEUES_MAX,
    REMAINING,
    SCRIPTS_MAX,
)
from emqproxy.observer.names import queue_name, queue_of
from emqproxy.records import Anchor, AttemptOver, Gauges, Hello, Message, Record, Snapshot

_TOOK_NS: Final = tuple(int(bound * 1e9) for bound in OPERATIONS.bounds)
_PROCESSED_NS: Final = tuple(int(bound * 1e9) for bound in PROCESSED.bounds)
_REMAINING_MS: Final = tuple(bound * 1e3 for bound in REMAINING.bounds)
_RATIOS: Final = AGE_RATIO.bounds
_WORDS_MAX: Final = 16_384
"""Of all queues together, about 300 bytes each: past it, scripts are not told apart any more."""
_HELD_MAX: Final = 65_536
_QUEUES_KNOWN_MAX: Final = 16_384
"""Keys of queues that are kept at hand, also of those that are told as `_other`."""
_CODE_MIN: Final = -32
MANY: Final = 2
"""Instead of any number that is no return code: scripts also answer with counts."""
_FORGET_NS: Final = 120_000_000_000
"""A lock that is gone for so long is forgotten, though the end of its attempt was never told."""
_TIDY_NS: Final = 30_000_000_000
_LIVES: Final = (Granted, Renewed)

Words: TypeAlias = tuple[str, str, str | None, int | None, str | None, Grade | None, Finding | None, str]
"""Of a line: op, outcome, target, code, its name; of the verdict: grade and finding; the script."""


class Buckets:
    """One histogram's figures."""

    __slots__ = ("counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0
        """The sum of what was counted."""


class Told:
    """Records that say the same."""

    __slots__ = ("count", "took")

    def __init__(self) -> None:
        self.count = 0
        self.took = Buckets(_TOOK_NS)
        """Nanoseconds; of made-by-time lines nothing."""


class QueueFigures:
    """One queue's."""

    __slots__ = ("age_ratio", "broken", "causes", "kept", "name", "prefix", "remaining", "told")

    def __init__(self, prefix: str, name: str) -> None:
        self.prefix, self.name = prefix, name
        self.told: dict[Words, Told] = {}
        self.causes: dict[str, int] = {}
        """How many lines told each cause; the list of causes is closed."""
        self.age_ratio = Buckets(_RATIOS)
        self.remaining = Buckets(_REMAINING_MS)
        """Milliseconds, as `_REMAINING_MS`; seconds where they are told."""
        self.kept = Buckets(_PROCESSED_NS)
        """Attempts that ended with a release, in nanoseconds."""
        self.broken = Buckets(_PROCESSED_NS)
        """And those that ended otherwise."""


class _Held:
    """A lock that is held."""

    __slots__ = ("figures", "number", "since", "token", "until")

    def __init__(self, figures: QueueFigures, attempt: Attempt, since: Instant) -> None:
        self.figures, self.since = figures, since
        self.token, self.number = attempt.token, attempt.number
        self.until = attempt.proved.closed + attempt.ttl_ms * 1_000_000


class Metrics:
    """One consumer of messages."""

    def __init__(self, mode: str = "observe") -> None:
        self.records = 0
        self.gauges: Gauges | None = None
        """As they were told last."""
        self.dropped = 0
        self.queues: dict[tuple[str, str], QueueFigures] = {}
        """By prefix and name."""
        self.nowhere = QueueFigures("", "")
        """What belongs to no queue."""
        self.mode = mode
        """Under which records come now."""
        self.actions: dict[tuple[str, str, str], int] = {}
        """Lines of judged calls, by mode, action and rule (empty where none was broken)."""
        self._by_key: dict[Queue, QueueFigures] = {}
        self._held: dict[Lock, _Held] = {}
        self._scripts: set[str] = set()
        self._words = 0
        self._told_at: Instant = 0
        self._offset_ns = 0
        self._tidied: Instant = 0

    def on(self, message: Message) -> None:
        """Counts it."""
        if type(message) is Record:  # nearly always
            self._record(message)
            return
        match message:
            case AttemptOver():
                self._over(message.attempt)
            case Snapshot():
                for attempt in message.attempts:
                    self._holds(attempt.lock, attempt, self._figures(attempt.queue))
            case Hello():
                self.mode = message.settings.mode
            case _:
                self.on_gauges(message)

    def on_gauges(self, message: Message) -> None:
        """Takes what the data plane tells of itself; all that is wanted where metrics are switched off."""
        match message:
            case Gauges():
                self.gauges = message
                self._told_at = time.monotonic_ns()
            case Anchor():
                self.dropped = message.dropped
                self._offset_ns = message.monotonic_ns - time.monotonic_ns()
                if message.monotonic_ns - self._tidied > _TIDY_NS:
                    self._tidied = message.monotonic_ns
                    self._tidy(message.monotonic_ns - _FORGET_NS)
            case _:
                pass

    # ------------------------------------------------------------------ what is asked for, by other threads

    @property
    def silent_s(self) -> float | None:
        """Since when the data plane has told nothing of itself; None: it never has."""
        return (time.monotonic_ns() - self._told_at) / 1e9 if self._told_at else None

    def held(self) -> tuple[dict[QueueFigures, int], float]:
        """Locks that are held now, by queue, and the age of the oldest in seconds (0 where there is none)."""
        now, oldest = time.monotonic_ns() + self._offset_ns, None
        counts: dict[QueueFigures, int] = {}
        for one in list(self._held.values()):
            if one.until > now:
                counts[one.figures] = counts.get(one.figures, 0) + 1
                oldest = one.since if oldest is None else min(oldest, one.since)
        return counts, 0.0 if oldest is None else max(0.0, (now - oldest) / 1e9)

    # ------------------------------------------------------------------ records

    def _record(self, record: Record) -> None:
        self.records += 1
        line, verdict = record.line, record.verdict
        fact, call, code = verdict.fact, record.call, line.code
        queue = fact.queue if isinstance(fact, LockFact) else queue_of(fact)
        figures = self.nowhere if queue is None else (self._by_key.get(queue) or self._figures(queue))
        if code is not None and not _CODE_MIN <= code < MANY:
            code = MANY
        script = call.script if call is not None else ""
        words = (line.op, line.outcome, line.target, code, line.code_name, verdict.grade, verdict.finding, script)
        told = figures.told.get(words)
        if told is None:
            told = self._first(figures, words)
        told.count += 1
        if record.cause is not None:
            figures.causes[record.cause] = figures.causes.get(record.cause, 0) + 1
        if record.action:
            decided = self.mode, record.action, record.rule or ""
            self.actions[decided] = self.actions.get(decided, 0) + 1
        if call is not None:
            opened, closed = fact.window
            took_ns, took = closed - opened, told.took
            took.counts[bisect_left(_TOOK_NS, took_ns)] += 1
            took.total += took_ns
        age_ms, remaining_ms = verdict.age_ms, verdict.remaining_ms
        if age_ms is not None and remaining_ms is not None:
            left = figures.remaining
            left.counts[bisect_left(_REMAINING_MS, remaining_ms)] += 1
            left.total += remaining_ms
            ttl_ms = age_ms + remaining_ms
            if line.op == "renew" and ttl_ms > 0:
                age, ratio = figures.age_ratio, age_ms / ttl_ms
                age.counts[bisect_left(_RATIOS, ratio)] += 1
                age.total += ratio
        for over in verdict.over:
            self._over(over, figures if over.queue == queue else None)
        if isinstance(fact, _LIVES):
            attempt = verdict.attempt
            if attempt is not None and attempt.end is None:
                self._holds(fact.lock, attempt, figures)
        elif isinstance(fact, Lapsed) and (held := self._held.get(fact.lock)) is not None:
            held.until = min(held.until, verdict.at)

    def _first(self, figures: QueueFigures, words: Words) -> Told:
        """Of a line that nothing like was told before."""
        script = words[-1]
        if script not in self._scripts:
            if len(self._scripts) >= SCRIPTS_MAX:
                script = OTHER
            else:
                self._scripts.add(script)
        if self._words >= _WORDS_MAX:
            script = OTHER
        words = (*words[:-1], script)
        told = figures.told.get(words)
        if told is None:
            told = figures.told[words] = Told()
            self._words += 1
        return told

    # ------------------------------------------------------------------ queues

    def _figures(self, queue: Queue) -> QueueFigures:
        figures = self._by_key.get(queue)
        if figures is None:
            prefix, name = queue_name(queue)
            known = self.queues.get((prefix, name))
            if known is None and len(self.queues) >= QUEUES_MAX:
                prefix, name = OTHER, OTHER
                known = self.queues.get((prefix, name))
            figures = known or self.queues.setdefault((prefix, name), QueueFigures(prefix, name))
            if len(self._by_key) < _QUEUES_KNOWN_MAX:
                self._by_key[queue] = figures
        return figures

    # ------------------------------------------------------------------ attempts

    def _holds(self, lock: Lock, attempt: Attempt, figures: QueueFigures) -> None:
        held = self._held.get(lock)
        if held is not None and held.number == attempt.number and held.token == attempt.token:
            held.until = attempt.proved.closed + attempt.ttl_ms * 1_000_000
        elif len(self._held) < _HELD_MAX or held is not None:
            self._held[lock] = _Held(figures, attempt, attempt.started.closed)

    def _over(self, attempt: Attempt, figures: QueueFigures | None = None) -> None:
        held = self._held.get(attempt.lock)
        if held is not None and held.number == attempt.number and held.token == attempt.token:
            del self._held[attempt.lock]
        figures = figures or self._figures(attempt.queue)
        buckets = figures.kept if attempt.end is End.RELEASED else figures.broken
        ended = attempt.ended.closed if attempt.ended else attempt.proved.closed + attempt.ttl_ms * 1_000_000
        took_ns = max(0, ended - attempt.started.closed)
        buckets.counts[bisect_left(_PROCESSED_NS, took_ns)] += 1
        buckets.total += took_ns

    def _tidy(self, before: Instant) -> None:
        for lock, held in list(self._held.items()):
            if held.until < before:
                del self._held[lock]
