"""What only time tells: a queue whose lost jobs no sweep looks for, and a job that is renewed and does nothing else.

`observe` each line; ask `due` from time to time. Each is told once: a queue again after a sweep was seen on it, a job
again after its next pickup. What others do past us is not seen, and the sentences say so.

How often a queue is swept its sweeps say themselves: the last argument of moveStalledJobsToWait is the interval, for
which the key `stalled-check` then keeps other sweepers off. Several workers share it, so that the gaps between sweeps
that were seen say nothing of the next.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec

from emqproxy.locks.causes import Diagnosis
from emqproxy.locks.events import AnyFact, Granted, Instant, Lapsed, Lock, LockFact, Queue, QueueFact
from emqproxy.locks.notes import Note, between_ms, seconds

WATCHED_MAX: Final = 10_000
DURATIONS_KEPT: Final = 32
DURATIONS_MIN: Final = 5
"""Of fewer finished jobs nothing is typical."""
INTERVALS_MAX: Final = 8
"""Of sweepers of one queue, each with its own."""
INTERVAL_MS_MIN: Final = 100
"""Who names a shorter one sweeps by hand and wants no guard: it is none that anybody keeps."""
_ENDS: Final = frozenset({"released", "absent", "deleted", "bypassed"})


class Patience(NamedTuple):
    """How long is waited before anything is said, in milliseconds."""

    usual_ms: float = 30_000.0
    """The interval of sweeps, where no call says it; or the longest gap that was seen, where that is longer."""
    intervals: float = 2.0
    """So many intervals without a sweep are waited for, since the lapse and since the last sweep."""
    quiet_ms_min: float = 2_000.0
    """At least, however short the interval: timers are late."""
    named_intervals: float = 4.0
    """A job that sweeps have not named for so long since its lapse is not in their list: two of them, each up to two
    intervals apart, would have found it."""
    hung_ms: float = 60_000.0
    """At least, since the last word of a job but renewals."""
    hung_durations: float = 20.0
    """So many times what jobs of its queue typically take."""
    hung_locks: float = 30.0
    """Where nothing is typical yet: so many times the lock's time to live."""


class Watch(NamedTuple):
    """Something to be told: of which job, and why."""

    lock: Lock
    queue: Queue
    token: bytes
    found: Diagnosis


class _Running(msgspec.Struct, eq=False, gc=False):
    """A job that is held."""

    queue: Queue
    token: bytes
    ttl_ms: int
    began: Instant
    spoke: Instant
    """When anything but a renewal was last heard of it."""
    who: str
    renewals: int = 0
    renewed: Instant = 0
    told: bool = False


class _Sweeps(msgspec.Struct, eq=False):
    """A queue's sweeps, those that came too early to do anything among them: whoever asks lives."""

    last: Instant | None = None
    gap_ms: float = 0.0
    """The longest time between two."""
    said: dict[int, Instant] = msgspec.field(default_factory=dict)
    """The intervals that the calls themselves named (ms), and when each was named last."""
    told: bool = False

    def swept(self, now: Instant, interval_ms: int | None) -> None:
        """A sweep came."""
        if self.last is not None and now > self.last:
            self.gap_ms = max(between_ms(self.last, now), self.gap_ms / 2)
        self.last, self.told = now, False
        if interval_ms is not None and interval_ms >= INTERVAL_MS_MIN:
            self.said.pop(interval_ms, None)
            self.said[interval_ms] = now
        for known, at in list(self.said.items()):
            # Who named it has gone, or names another now.
            if between_ms(at, now) > 2 * known or len(self.said) > INTERVALS_MAX:
                del self.said[known]


class Watches:
    """Of one run; bounded."""

    def __init__(self, patience: Patience | None = None) -> None:
        self._patience = Patience() if patience is None else patience
        self._running: OrderedDict[Lock, _Running] = OrderedDict()
        self._lapsed: OrderedDict[Lock, tuple[Queue, bytes, Instant]] = OrderedDict()
        """Jobs whose lock has run out, and that nobody has taken, swept or removed since."""
        self._sweeps: OrderedDict[Queue, _Sweeps] = OrderedDict()
        self._durations: OrderedDict[Queue, deque[float]] = OrderedDict()

    @property
    def idle(self) -> bool:
        """There is nothing to wait for."""
        return not self._running and not self._lapsed

    def observe(self, fact: AnyFact, note: Note) -> None:
        """A line and its fact."""
        if note.op in {"sweep", "reap"} and note.outcome == "ok" and isinstance(fact, (LockFact, QueueFact)):
            self._sweeps.setdefault(fact.queue, _Sweeps()).swept(note.closed, note.interval_ms)
            _bound(self._sweeps)
        if not isinstance(fact, LockFact):
            return
        lock = fact.lock
        if type(fact) is Lapsed:
            self._running.pop(lock, None)
            self._lapsed[lock] = (fact.queue, fact.token, note.closed)
            _bound(self._lapsed)
        elif type(fact) is Granted:
            running, closed = self._running, note.closed
            self._lapsed.pop(lock, None)
            running.pop(lock, None)
            running[lock] = _Running(fact.queue, fact.token, fact.ttl_ms, closed, closed, note.who)
            _bound(running)
        else:
            self._spoken(lock, note)

    def _spoken(self, lock: Lock, note: Note) -> None:
        running, effect = self._running.get(lock), note.effect
        if effect == "perhaps" or note.code_name == "JobNotExist":
            self._lapsed.pop(lock, None)  # it may be done
        if effect in _ENDS:
            if note.outcome != "refused":
                self._lapsed.pop(lock, None)  # whom -2 is told has lost it, and leaves it where it is
            if running is not None:
                del self._running[lock]
                if note.op == "finish" and note.outcome == "ok":
                    self._took(running.queue, between_ms(running.began, note.closed))
        elif running is None:
            pass
        elif effect == "renewed":
            running.renewals, running.renewed = running.renewals + 1, note.closed
        else:
            running.spoke = note.closed

    def _took(self, queue: Queue, ms: float) -> None:
        durations = self._durations.get(queue)
        if durations is None:
            durations = self._durations[queue] = deque(maxlen=DURATIONS_KEPT)
            _bound(self._durations)
        durations.append(ms)

    # ---------------------------------------------------------------- time

    def due(self, now: Instant) -> list[Watch]:
        """What is to be told by now."""
        return [*self._unswept(now), *self._hung(now)]

    def _unswept(self, now: Instant) -> list[Watch]:
        found, patience = [], self._patience
        for lock, (queue, token, lapsed) in self._lapsed.items():
            sweeps = self._sweeps.get(queue)
            if sweeps is None:
                sweeps = self._sweeps[queue] = _Sweeps()
            if sweeps.told:
                continue
            last, interval_ms = sweeps.last, float(max(sweeps.said, default=0))
            due_ms = interval_ms or max(patience.usual_ms, sweeps.gap_ms)
            if between_ms(max(last or lapsed, lapsed), now) < max(patience.intervals * due_ms, patience.quiet_ms_min):
                continue
            if last is not None and between_ms(lapsed, last) > patience.named_intervals * due_ms:
                continue
            sweeps.told = True
            found.append(Watch(lock, queue, token, _no_sweeper(lapsed, last, interval_ms, due_ms, now)))
        return found

    def _hung(self, now: Instant) -> list[Watch]:
        found, patience = [], self._patience
        for lock, running in self._running.items():
            if between_ms(running.began, now) < patience.hung_ms:
                break  # and those behind it began later
            quiet_ms = between_ms(running.spoke, now)
            if running.told or quiet_ms < patience.hung_ms or running.renewals < 2:
                continue
            if between_ms(running.renewed, now) > running.ttl_ms:
                continue  # it is not even renewed
            known = self._durations.get(running.queue, ())
            typical = median(known) if len(known) >= DURATIONS_MIN else None
            limit_ms = patience.hung_locks * running.ttl_ms if typical is None else patience.hung_durations * typical
            if quiet_ms < limit_ms:
                continue
            running.told = True
            who, usual = running.who or "The worker", ""
            if typical is not None:
                usual = f"; jobs of this queue take {seconds(typical)}"
            words = f"{who} has renewed the job for {seconds(quiet_ms)} and done nothing else with it"
            found.append(Watch(lock, running.queue, running.token, Diagnosis("hung_processor", f"{words}{usual}.")))
        return found


def _no_sweeper(lapsed: Instant, last: Instant | None, interval_ms: float, due_ms: float, now: Instant) -> Diagnosis:
    seen = "no stalled sweep was ever seen on its queue"
    if last is not None:
        due = f"one is due every {seconds(due_ms)} there, as the sweeps say themselves"
        if not interval_ms:
            due = f"no sweep says how often one is due: {seconds(due_ms)} is taken for it"
        seen = f"the last stalled sweep on its queue was seen {seconds(between_ms(last, now))} before ({due})"
    words = f"A job lost its lock {seconds(between_ms(lapsed, now))} before, and {seen}"
    return Diagnosis("no_sweeper", f"{words}: start a worker that sweeps, or the job stays active for ever.")


def _bound(kept: OrderedDict[Any, Any]) -> None:
    if len(kept) > WATCHED_MAX:
        kept.popitem(last=False)
