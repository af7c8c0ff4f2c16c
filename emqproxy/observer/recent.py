"""The last lines of the jobs heard of last, in memory: what `/api/jobs` tells, with or without a journal.

Bounded three ways: so many jobs, so many lines of each, so many lines in all. Of a job that is renewed for hours its
middle goes first: renewals in good time say the least.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Final

import msgspec

from emqproxy.locks.events import Lock, LockFact, Wiped
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
"""Wipes, and losses of Redis: they are of many jobs."""
_PLAIN: Final = frozenset({Grade.ON_TIME, Grade.UNKNOWN})


class _Job(msgspec.Struct, eq=False):
    records: list[Record] = msgspec.field(default_factory=list)
    left_out: int = 0


class Recent:
    """Told of each record in the observer's thread, asked in the admin listener's."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._jobs: OrderedDict[Lock, _Job] = OrderedDict()
        self._wide: deque[Record] = deque(maxlen=WIDE_MAX)
        self._total = 0
        self._lock = threading.Lock()
        self._encoder = msgspec.json.Encoder()

    def on(self, message: Message) -> None:
        """A record of a job is kept, and what befalls many."""
        if not isinstance(message, Record):
            return
        if not isinstance(message.verdict.fact, LockFact):
            if isinstance(message.verdict.fact, Wiped) or (message.line.op == "conn" and message.peer is None):
                with self._lock:
                    self._wide.append(message)
            return
        with self._lock:
            lock = message.verdict.fact.lock
            job = self._jobs.pop(lock, None) or _Job()
            self._jobs[lock] = job
            job.records.append(message)
            self._total += 1
            if len(job.records) > LINES_MAX:
                del job.records[_least(job.records)]
                job.left_out += 1
                self._total -= 1
            while len(self._jobs) > JOBS_MAX or (self._total > TOTAL_MAX and len(self._jobs) > 1):
                _, oldest = self._jobs.popitem(last=False)
                self._total -= len(oldest.records)

    def page(self, key: str, db: int) -> bytes | None:
        """JSON: `v`, `key`, `db`, `left_out` (lines that are kept no more), and `lines` as the journal's; None for a
        job that is not known."""
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
            wide = [record for record in self._wide if _befell(record, lock, since=records[0])]
        records = sorted([*records, *wide], key=lambda record: record.seq) if wide else records
        lines = [self._entries.of(record) for record in records]
        return self._encoder.encode({"v": 1, "key": key, "db": db, "left_out": left_out, "lines": lines})


def _befell(wide: Record, lock: Lock, *, since: Record) -> bool:
    """Whether a wipe reached a job, or Redis was lost, in the time that is told of it."""
    fact = wide.verdict.fact
    if isinstance(fact, Wiped) and (fact.db not in (None, lock.db) or not lock.key.startswith(fact.prefix)):
        return False
    return fact.window.closed >= since.verdict.fact.window.opened


def _told(lock: Lock) -> str:
    return job_key(lock).decode("utf-8", "backslashreplace")


def _least(records: list[Record]) -> int:
    """The oldest renewal in good time between two others, else the oldest line."""
    for at in range(1, len(records) - 1):
        verdict, line = records[at].verdict, records[at].line
        if line.op == "renew" and line.outcome == "ok" and verdict.grade in _PLAIN and verdict.finding is Finding.SOUND:
            return at
    return 0
