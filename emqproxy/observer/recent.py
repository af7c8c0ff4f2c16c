"""The last lines of the jobs heard of last, in memory: what `/api/jobs` tells, with or without a journal.

Bounded three ways: so many jobs, so many lines of each, so many lines in all. Of a job that is renewed for hours its
middle goes first: renewals in good time say the least. What befalls many jobs is kept beside them: wipes, hands on a
queue's whole list, and of the sweeps of each queue the last one, which each job remembers as it is heard of.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Final

import msgspec

from emqproxy.locks.events import Lock, LockFact, Queue, QueueFact, Wiped
from emqproxy.locks.verdicts import Finding, Grade
from emqproxy.observer.journal_entry import Entries
from emqproxy.observer.names import job_key
from emqproxy.records import Message, Record

JOBS_MAX: Final = 2_000
LINES_MAX: Final = 64
"""Of one job."""
TOTAL_MAX: Final = 16_000
"""Some 25 MB."""
WIDE_MAX: Final = 64
"""Wipes, and losses of Redis: they are of many jobs. As many hands on whole lists of queues."""
QUEUES_MAX: Final = 1_000
"""Whose last sweep is kept."""
INTERVAL_MS: Final = 30_000
"""From one sweep to the next, where it does not say."""
_PLAIN: Final = frozenset({Grade.ON_TIME, Grade.UNKNOWN})


class _Job(msgspec.Struct, eq=False):
    records: list[Record] = msgspec.field(default_factory=list)
    sweep: Record | None = None
    """Of its queue's the last one before its last line."""
    left_out: int = 0


class Recent:
    """Told of each record in the observer's thread, asked in the admin listener's."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._jobs: OrderedDict[Lock, _Job] = OrderedDict()
        self._wide: deque[Record] = deque(maxlen=WIDE_MAX)
        self._hands: deque[Record] = deque(maxlen=WIDE_MAX)
        self._sweeps: OrderedDict[Queue, Record] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()
        self._encoder = msgspec.json.Encoder()

    def on(self, message: Message) -> None:
        """A record of a job is kept, and what befalls many."""
        if not isinstance(message, Record):
            return
        fact = message.verdict.fact
        with self._lock:
            if not isinstance(fact, LockFact):
                self._beside(message)
                return
            job = self._jobs.pop(fact.lock, None) or _Job()
            self._jobs[fact.lock] = job
            job.sweep = self._sweeps.get(fact.queue, job.sweep)
            job.records.append(message)
            self._total += 1
            if len(job.records) > LINES_MAX:
                del job.records[_least(job.records)]
                job.left_out += 1
                self._total -= 1
            while len(self._jobs) > JOBS_MAX or (self._total > TOTAL_MAX and len(self._jobs) > 1):
                _, oldest = self._jobs.popitem(last=False)
                self._total -= len(oldest.records)

    def _beside(self, record: Record) -> None:
        """What names no job."""
        fact, line = record.verdict.fact, record.line
        if isinstance(fact, Wiped) or (line.op == "conn" and record.peer is None):
            self._wide.append(record)
        elif isinstance(fact, QueueFact) and line.op == "raw":
            self._hands.append(record)
        elif isinstance(fact, QueueFact) and line.op == "sweep" and line.outcome == "ok":
            self._sweeps.pop(fact.queue, None)
            self._sweeps[fact.queue] = record
            if len(self._sweeps) > QUEUES_MAX:
                self._sweeps.popitem(last=False)

    def page(self, key: str, db: int) -> bytes | None:
        """JSON: `v`, `key`, `db`, `left_out` (lines that are kept no more), and `lines` as the journal's,
        with those of wipes and hands that befell it and of the last sweep on its queue; None for a job that is not
        known."""
        asked = Lock(db, key.encode("utf-8", "surrogateescape") + b":lock")
        with self._lock:
            lock: Lock | None = asked
            job = self._jobs.get(asked)
            if job is None:  # a key that is no UTF-8 is asked for as it is told
                lock = next((lock for lock in self._jobs if lock.db == db and _told(lock) == key), None)
                job = None if lock is None else self._jobs[lock]
            if job is None or lock is None:
                return None
            records, left_out = list(job.records), job.left_out
            wide = [each for each in (*self._wide, *self._hands) if _befell(each, lock, since=records[0])]
            wide += [job.sweep] if job.sweep is not None and _in_force(job.sweep, records[0]) else []
        records = sorted([*records, *wide], key=lambda record: record.seq) if wide else records
        lines = [self._entries.of(record) for record in records]
        return self._encoder.encode({"v": 1, "key": key, "db": db, "left_out": left_out, "lines": lines})


def _befell(wide: Record, lock: Lock, *, since: Record) -> bool:
    """Whether a wipe or a hand reached a job's queue, or Redis was lost, in the time that is told of it."""
    fact = wide.verdict.fact
    if isinstance(fact, Wiped) and (fact.db not in (None, lock.db) or not lock.key.startswith(fact.prefix)):
        return False
    if isinstance(fact, QueueFact) and (fact.queue.db != lock.db or not lock.key.startswith(fact.queue.prefix)):
        return False
    return fact.window.closed >= since.verdict.fact.window.opened


def _in_force(sweep: Record, since: Record) -> bool:
    """Whether the second sweep from this one was not due yet when a job's lines begin."""
    due_ns = 2 * (sweep.line.interval_ms or INTERVAL_MS) * 1_000_000
    return sweep.verdict.fact.window.closed + due_ns >= since.verdict.fact.window.opened


def _told(lock: Lock) -> str:
    return job_key(lock).decode("utf-8", "backslashreplace")


def _least(records: list[Record]) -> int:
    """The oldest renewal in good time between two others, else the oldest line."""
    for at in range(1, len(records) - 1):
        verdict, line = records[at].verdict, records[at].line
        if line.op == "renew" and line.outcome == "ok" and verdict.grade in _PLAIN and verdict.finding is Finding.SOUND:
            return at
    return 0
