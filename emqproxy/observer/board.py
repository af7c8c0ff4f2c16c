"""The read model: the attempts that are open, and what their grants told of the job.

The attempt's span is made at its end, and what belongs on it (the producer's trace context, the job's name) was told
by its grant: this is where it waits. Bounded; past the bound the oldest attempt's notes are forgotten, and its span
is made without.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec

from emqproxy.locks.events import Lock
from emqproxy.locks.verdicts import Attempt
from emqproxy.observer.groups import Holder
from emqproxy.observer.timeline import Timeline
from emqproxy.records import CallSite, JobFields, Peer, Record, Snapshot

_OPEN_MAX: Final = 65_536


class AttemptKey(NamedTuple):
    """One incarnation of a lease."""

    lock: Lock
    token: bytes
    number: int


class Notes(msgspec.Struct):
    """What is remembered of an open attempt."""

    attempt: Attempt
    """As it stood when last told of."""
    started_wall_ns: int
    """By the anchor of then, so that the attempt begins where its acquire ended even if a clock was stepped since."""
    job: JobFields | None = None
    call: CallSite | None = None
    """The script that granted it."""
    peer: Peer | None = None
    """Who took it."""
    violated: bool = False
    """One of its operations was a violation."""
    keep: bool = False
    """One of its operations is told whatever the sampler says: a violation, an error, a broken rule."""
    holder: Holder | None = None
    """How it is told, once somebody asked."""


def attempt_key(attempt: Attempt) -> AttemptKey:
    """The identity of an attempt, the same as long as it lives."""
    return AttemptKey(attempt.lock, attempt.token, attempt.number)


class Board:
    """Fed by whoever reads records in order: `seen` with each record, `over` with each attempt's end."""

    def __init__(self, timeline: Timeline, open_max: int = _OPEN_MAX) -> None:
        self._timeline = timeline
        self._open_max = open_max
        self._open: OrderedDict[AttemptKey, Notes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def restore(self, snapshot: Snapshot) -> None:
        """The attempts that were open when we were started: known, but for what their grants told of the job."""
        for attempt in snapshot.attempts:
            self._notes(attempt)

    def seen(self, record: Record, *, violated: bool, keep: bool) -> Notes | None:
        """A record was told: its attempt, if it still lives, stands as it says. What is remembered of it."""
        attempt = record.verdict.attempt
        if attempt is None:
            return None
        if attempt.end is not None and attempt_key(attempt) not in self._open:
            return None  # a straggler: its attempt was over before
        notes = self._notes(attempt)
        notes.violated = notes.violated or violated
        notes.keep = notes.keep or keep
        if record.line.op == "acquire" and record.line.job is not None:
            notes.job, notes.call, notes.peer = record.line.job, record.call, record.peer
        elif notes.peer is None:
            notes.peer = record.peer
        return notes

    def over(self, attempt: Attempt) -> Notes:
        """An attempt ended: what was remembered of it, which is forgotten here."""
        notes = self._open.pop(attempt_key(attempt), None) or self._fresh(attempt)
        notes.attempt = attempt
        return notes

    # ------------------------------------------------------------------ private

    def _notes(self, attempt: Attempt) -> Notes:
        key = attempt_key(attempt)
        notes = self._open.get(key)
        if notes is None:
            notes = self._open[key] = self._fresh(attempt)
            if len(self._open) > self._open_max:
                self._open.popitem(last=False)
        notes.attempt = attempt
        return notes

    def _fresh(self, attempt: Attempt) -> Notes:
        return Notes(attempt, self._timeline.wall_ns(attempt.started.closed))
