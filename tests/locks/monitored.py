"""The truth about lock keys, from MONITOR: Redis's own order of execution, with its own clock.

A script writes a lock key only by SET with PX and by DEL, and MONITOR shows each at the instant at which it ran. So who
held a lock, since when, and how that ended follows from these lines alone: no answer, no ledger, no order of reading
has a part in it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from typing import NamedTuple

from tests.processes import inline

MS = 1_000_000
_WRITE = re.compile(
    rb'\+(\d+)\.(\d{6}) \[\d+ lua\] "(SET|DEL)" "([^" ]+:)([^" :]+:lock)"(?: "([^"]*)" "PX" "(\d+)")?\r\n'
)
_FENCE = re.compile(rb'"ECHO" "([^"]+)"\r\n')


class Write(NamedTuple):
    """A script set a lock, or deleted it (`token` None). Instants are monotonic ns, as the ledger's are."""

    key: bytes
    at: int
    token: bytes | None
    ttl_ms: int


class Holding(NamedTuple):
    """A token held a lock, from a SET that found no living lock of its own to a DEL, another's SET, or expiry."""

    token: bytes
    sets: tuple[int, ...]
    """When its time to live began anew."""
    ended: int
    """Certainly over from then on."""
    how: str
    """`deleted`, `taken`, `expired`."""


class Monitor(asyncio.Protocol):
    """MONITOR of one server: the writes of every queue (by its prefix), up to a fence."""

    def __init__(self) -> None:
        self.writes: dict[bytes, list[Write]] = defaultdict(list)
        self._fences: dict[bytes, asyncio.Event] = {}
        self._rest = b""
        self._wall_ahead = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._wall_ahead = min(time.time_ns() - time.monotonic_ns() for _ in range(50))
        transport.write(inline("MONITOR"))

    def data_received(self, data: bytes) -> None:
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        whole += newline
        for seconds, micros, what, prefix, lock, token, ttl in _WRITE.findall(whole):
            at = int(seconds) * 1_000_000_000 + int(micros) * 1000 - self._wall_ahead
            written = token if what == b"SET" else None
            self.writes[prefix].append(Write(prefix + lock, at, written, int(ttl or 0)))
        for name in _FENCE.findall(whole):
            self.fence(name).set()

    def fence(self, name: bytes) -> asyncio.Event:
        """Set when an ECHO of this name has run: everything before it has been seen."""
        return self._fences.setdefault(name, asyncio.Event())

    def take(self, prefix: bytes) -> list[Write]:
        """A queue's writes; they are kept no longer, nor is its fence."""
        self._fences.pop(prefix, None)
        return self.writes.pop(prefix, [])


def holdings(writes: list[Write]) -> dict[bytes, list[Holding]]:
    """By lock key, in the order in which Redis ran them."""
    found: dict[bytes, list[Holding]] = defaultdict(list)
    for write in writes:
        of = found[write.key]
        last = of[-1] if of and of[-1].how == "expired" else None  # by time it would have ended, or has
        if write.token is None:  # a script deletes only what it found: its clock stands still while it runs
            if last is not None:
                of[-1] = last._replace(ended=write.at, how="deleted")
            continue
        if last is not None and last.token == write.token and last.ended > write.at:
            of[-1] = Holding(write.token, (*last.sets, write.at), _expiry(write), "expired")
            continue
        if last is not None and last.ended - MS > write.at:  # in its last millisecond it may be found expired
            of[-1] = last._replace(ended=write.at, how="taken")
        of.append(Holding(write.token, (write.at,), _expiry(write), "expired"))
    return found


def _expiry(write: Write) -> int:
    """Redis counts in whole milliseconds of its clock, and a value can be read a millisecond after its time."""
    return write.at + (write.ttl_ms + 1) * MS
