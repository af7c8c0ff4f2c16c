"""Hands: which `raw` lines tell of a command on a queue's lists or on a job's own hash, and what it did there.

No lock is touched by it: a `raw` line without a target is a write on the lock's key.
"""

from __future__ import annotations

import enum
from typing import Final, Protocol

JOB: Final = "job"
"""The target of a hand on the job's own hash."""
_PUSHES: Final = frozenset(("LPUSH", "RPUSH", "LPUSHX", "RPUSHX", "LINSERT", "LSET", "ZADD", "ZINCRBY"))
_MOVES: Final = frozenset(("LMOVE", "BLMOVE", "RPOPLPUSH", "BRPOPLPUSH"))
_ACTIVE: Final = "active"
"""What moves an id out of it to another list of the queue has a line of each."""
_WAITING: Final = frozenset({"wait", "paused", "prioritized", "delayed"})
"""Where an id is given out from, sooner or later."""


class Deed(enum.Enum):
    """What a hand did."""

    PUT = "put"
    """An id into a list."""
    MOVED = "moved"
    """An id from another list into one."""
    TAKEN = "taken"
    """An id out of a list."""
    LIST = "list"
    """The whole list was deleted, renamed, trimmed or otherwise changed."""
    HASH = "hash"
    """The job's own hash was deleted or renamed."""


class HandLine(Protocol):
    """What is looked at of a line."""

    @property
    def op(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def target(self) -> str | None: ...
    @property
    def script(self) -> str | None: ...
    @property
    def code(self) -> int | None: ...
    @property
    def job(self) -> str | None: ...


def meant(line: HandLine) -> Deed | None:
    """What its command is to do, whatever it was answered; None for all other lines."""
    if line.op != "raw" or line.target is None:
        return None
    if line.target == JOB:
        return Deed.HASH
    if line.job is None:
        return Deed.LIST
    if line.script in _MOVES and line.target != _ACTIVE:
        return Deed.MOVED
    return Deed.PUT if line.script in _PUSHES else Deed.TAKEN


def done(line: HandLine) -> Deed | None:
    """What it did; None also where it did nothing, as its answer says."""
    deed = meant(line)
    if line.outcome != "ok" or (line.code is not None and line.code < 0):  # LINSERT: the pivot was not found
        return None
    # A ZADD that adds nothing sets the place of what is there; all else that answers 0 found nothing to do it to.
    return None if line.code == 0 and line.script != "ZADD" else deed


def perhaps_done(line: HandLine) -> Deed | None:
    """What it did, or may have done where its answer was not seen."""
    return meant(line) if line.outcome == "unknown" else done(line)


def pushed(line: HandLine) -> bool:
    """Whether a hand put the job where jobs wait. A ZADD that adds nothing found it there."""
    if line.op != "raw" or line.target not in _WAITING or line.code == 0:
        return False
    return perhaps_done(line) in {Deed.PUT, Deed.MOVED}


def took_back(line: HandLine) -> bool:
    """Whether it is there no more."""
    return line.op == "raw" and line.target in _WAITING and done(line) in {Deed.TAKEN, Deed.LIST}


def took_off_active(line: HandLine) -> bool:
    """Whether a hand took the job out of the active list, or changed that list as a whole."""
    return line.op == "raw" and line.target == _ACTIVE and perhaps_done(line) in {Deed.TAKEN, Deed.LIST}


def put_back_active(line: HandLine) -> bool:
    """Whether it is there again."""
    return line.op == "raw" and line.target == _ACTIVE and done(line) in {Deed.PUT, Deed.MOVED}
