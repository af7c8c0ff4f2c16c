"""A setting played by real workers on real time: Redis, the scripts of `lua/`, threads that really stand still.

Each worker waits on the queue's marker as workers do, takes the job and renews it from a loop of its own that its
blocks hold up. A sweeper sweeps, and somebody looks, again and again, whether the lock is still there.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from typing import Any, Final

import msgspec
import redis

from emqproxy.scripts import texts
from emqproxy.simulation.outcome import Outcome
from tests.processes import LOOPBACK
from tests.simulation.draw import end_ms

_PICKUP: Final = ("wait", "active", "prioritized", "events", "stalled", "limiter", "delayed", "paused", "meta", "pc")
_LOOK_S: Final = 0.002
_NEAR_MS: Final = 30
_AFTER_S: Final = 0.12
"""So long after the simulated end it goes on: what should not happen then must not have happened."""
_NAMES = itertools.count()


class Line:
    """A connection of one queue's. `longest_ms` of its calls: so far an instant that it tells may be out."""

    def __init__(self, port: int, prefix: str) -> None:
        self.prefix = prefix
        self.redis = redis.Redis(LOOPBACK, port, decode_responses=True)
        self.longest_ms = 0.0

    def run(self, script: str, keys: tuple[str, ...], *arguments: Any) -> tuple[Any, float]:
        """A script's reply, and the instant it ran at, as nearly as can be known: the middle of the call."""
        text = texts.load(script)
        full = [self.prefix + key for key in keys]
        asked = time.monotonic()
        try:
            reply = self.redis.evalsha(text.sha, len(full), *full, *arguments)
        except redis.exceptions.NoScriptError:
            asked = time.monotonic()
            reply = self.redis.eval(text.text, len(full), *full, *arguments)
        answered = time.monotonic()
        self.longest_ms = max(self.longest_ms, (answered - asked) * 1000)
        return reply, (asked + answered) / 2


class RealCourse:
    """One setting, played once. Instants are milliseconds from the first pickup on."""

    def __init__(self, port: int, outcome: Outcome) -> None:
        self._port, self._outcome, self._setting = port, outcome, outcome.setting
        self._prefix = f"emq:real-{next(_NAMES)}:"
        self._stop = threading.Event()
        self._begun = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lines: list[Line] = []
        self._zero = 0.0
        self.faults: list[BaseException] = []
        self.taken: list[float] = []
        self.renewed: dict[int, list[float]] = defaultdict(list)
        """By place of the attempt."""
        self.learned: dict[int, float] = {}
        self.lapsed: dict[int, float] = {}
        self.recovered: list[float] = []
        self.failed: float | None = None
        self.late: dict[str, float] = defaultdict(float)
        """How late our own threads were, by what they did, as it adds up."""

    @property
    def slack_ms(self) -> float:
        """By how much our own lateness can have moved an instant: a late sweep, the way from it to the pickup, late
        renewals one after the other, and what no call can tell of when it ran."""
        workers = [late for what, late in self.late.items() if what not in {"sweep", "watch"}]
        pickups = [taken - put_back for put_back, taken in zip(self.recovered, self.taken[1:], strict=False)]
        calls = 2 * max(line.longest_ms for line in self._lines)
        return max(workers, default=0) + max(pickups, default=0) + self.late["sweep"] + self.late["watch"] + calls

    def play(self) -> None:
        """From the job's being added to a little after the simulated end. Raises what a thread raised."""
        line = self._line()
        self._start(self._work, 0)
        now_ms = time.time_ns() // 1_000_000
        job = msgspec.msgpack.encode([self._prefix, "1", "n", now_ms, None, None, None, None, None])
        keys = ("wait", "paused", "meta", "id", "completed", "delayed", "active", "events", "marker")
        line.run("addStandardJob-9", keys, job, "{}", msgspec.msgpack.encode({}))
        assert self._begun.wait(20), "nobody took the job"
        self._start(self._sweep)
        self._wait(self._zero + end_ms(self._outcome) / 1000 + _AFTER_S)
        self._stop.set()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive(), thread
        for one in self._lines:
            one.redis.close()
        if self.faults:
            raise self.faults[0]

    # ---------------------------------------------------------------- threads

    def _start(self, work: Any, *arguments: Any) -> None:
        def guarded() -> None:
            try:
                work(*arguments)
            except BaseException as fault:
                self.faults.append(fault)
                self._stop.set()
                self._begun.set()

        thread = threading.Thread(target=guarded, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, place: int) -> None:
        line, token, setting = self._line(), f"worker-{place}", self._setting
        pickup = msgspec.msgpack.encode({"token": token, "lockDuration": setting.lock_duration_ms, "name": token})
        job: Any = None
        while not job:
            if self._stop.is_set():
                return
            if line.redis.bzpopmin(self._prefix + "marker", 0.2):
                reply, at = line.run("moveToActive-11", (*_PICKUP, "marker"), self._prefix, _wall_ms(), pickup)
                job = reply[0]
        if place == 0:
            self._zero = at
            self._begun.set()
        self.taken.append((at - self._zero) * 1000)
        self._start(self._work, place + 1)
        fields = dict(zip(job[::2], job[1::2], strict=True))
        if "defa" in fields:
            self._fail(line, token, fields["defa"])
        else:
            self._start(self._watch, place, token)
            self._renew(line, place, token, at)

    def _renew(self, line: Line, place: int, token: str, taken: float) -> None:
        """A loop with one timer, as an event loop's: what falls due while it is blocked comes afterwards."""
        setting = self._setting
        blocks = list(setting.blocks) if place == 0 or setting.block_every_attempt else []
        due = taken + setting.renew_ms / 1000
        while not self._stop.is_set():
            if blocks and taken + blocks[0].at_ms / 1000 <= due:
                block = blocks.pop(0)
                start = taken + block.at_ms / 1000
                self._wait(start)
                self._wait(start + block.for_ms / 1000)  # nothing of this worker runs meanwhile
                due = max(due, start + block.for_ms / 1000)
                continue
            fired = self._wait(due)
            self.late[token] += max(0.0, fired - due) * 1000
            if self._stop.is_set():
                return
            due = fired + setting.renew_ms / 1000
            held, at = line.run("extendLock-2", ("1:lock", "stalled"), token, setting.lock_duration_ms, "1")
            if not held:
                self.learned[place] = (at - self._zero) * 1000
                return
            self.renewed[place].append((at - self._zero) * 1000)

    def _fail(self, line: Line, token: str, reason: str) -> None:
        keys = (*_PICKUP, "failed", "1", "metrics:failed", "marker")
        options = msgspec.msgpack.encode(
            {"token": token, "keepJobs": {"count": -1}, "attempts": 1, "maxMetricsSize": ""}
        )
        code, at = line.run(
            "moveToFinished-14", keys, "1", _wall_ms(), "failedReason", reason, "failed", "0", self._prefix, options, ""
        )
        assert code == 0, code
        self.failed = (at - self._zero) * 1000

    def _sweep(self) -> None:
        line, setting = self._line(), self._setting
        keys = ("stalled", "wait", "active", "stalled-check", "meta", "paused", "marker", "events")
        for count in itertools.count():
            due = self._zero + (setting.first_sweep_ms + count * setting.stalled_interval_ms) / 1000
            swept = self._wait(due)
            self.late["sweep"] = max(self.late["sweep"], (swept - due) * 1000)
            if self._stop.is_set():
                return
            # Half of the interval: a sweep that comes a moment sooner than the last one's guard ends would be none.
            guard_ms = setting.stalled_interval_ms // 2
            ids, at = line.run("moveStalledJobsToWait-8", keys, setting.max_stalled, self._prefix, _wall_ms(), guard_ms)
            if ids:
                self.recovered.append((at - self._zero) * 1000)

    def _watch(self, place: int, token: str) -> None:
        """Looks at the lock until it is not this token's any more: it is gone when it is first seen to be."""
        line = self._line()
        seen = time.monotonic()
        while not self._stop.is_set():
            asked = time.monotonic()
            with line.redis.pipeline(transaction=True) as both:
                holder, left_ms = both.get(self._prefix + "1:lock").pttl(self._prefix + "1:lock").execute()
            if holder != token:
                gone = time.monotonic()
                self.lapsed[place] = (gone - self._zero) * 1000
                self.late["watch"] = max(self.late["watch"], (gone - seen) * 1000)
                return
            seen = asked
            self._stop.wait(max((left_ms - _NEAR_MS) / 1000, _LOOK_S))

    # ---------------------------------------------------------------- time and wires

    def _line(self) -> Line:
        line = Line(self._port, self._prefix)
        line.redis.ping()
        self._lines.append(line)
        return line

    def _wait(self, until: float) -> float:
        """Until an instant, or the end of all; now."""
        while (left := until - (now := time.monotonic())) > 0:
            if self._stop.wait(left):
                return time.monotonic()
        return now


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
