"""What the data plane counts of itself, told to the observer once a second (`records.Gauges`).

Plain integers and short lists: what is counted for each read or each call costs some tenths of a microsecond, and no
name is looked up for it.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

from emqproxy import records
from emqproxy.locks.events import Instant
from emqproxy.proxy import clock
from emqproxy.proxy.health import Ready
from emqproxy.records import CALL_BOUNDS_NS, LAG_BOUNDS_NS, OVERHEAD_BOUNDS_NS, CallSite, Gauges
from emqproxy.scripts.answers import ERROR_NAMES

CALLS_MAX: Final = 256
"""Scripts and their errors that are told apart."""
OTHER: Final = "_other"


class Times:
    """How often something took how long."""

    __slots__ = ("_bounds_ns", "_counts", "_sum_ns")

    def __init__(self, bounds_ns: tuple[int, ...]) -> None:
        self._bounds_ns = bounds_ns
        self._counts = [0] * (len(bounds_ns) + 1)
        self._sum_ns = 0

    def add(self, took_ns: int) -> None:
        """Counts one."""
        self._counts[bisect_left(self._bounds_ns, took_ns)] += 1
        self._sum_ns += took_ns

    @property
    def told(self) -> records.Spread:
        """As it crosses the pipe."""
        return records.Spread(tuple(self._counts), self._sum_ns)


class CallKey(NamedTuple):
    """Calls that are counted together."""

    command: str
    script: str
    error: str


class CallTimes:
    """How long the recognised calls took, by script. Ask for a script's `Times` once and keep it."""

    def __init__(self) -> None:
        self._spreads: dict[CallKey, Times] = {}

    def of(self, call: CallSite, error: str = "") -> Times:
        """Where to count calls of a script; `error` is the prefix of Redis's, if it is one of Redis's own."""
        if error and error not in ERROR_NAMES:
            error = "ERR"
        key = CallKey(call.command, (call.script or call.sha) if call.sha else "", error)
        if key not in self._spreads and len(self._spreads) >= CALLS_MAX:
            key = CallKey(OTHER, OTHER, OTHER if error else "")
        if key not in self._spreads:
            self._spreads[key] = Times(CALL_BOUNDS_NS)
        return self._spreads[key]

    @property
    def told(self) -> tuple[records.Calls, ...]:
        """As they cross the pipe."""
        return tuple(records.Calls(*key, spread.told) for key, spread in self._spreads.items())


class Tallies:
    """Of one data plane."""

    def __init__(self) -> None:
        self.to_server_bytes = self.to_client_bytes = 0
        self.reloads_ok = self.reloads_failed = 0
        """Configurations that were read again, and that could not be."""
        self.overhead = Times(OVERHEAD_BOUNDS_NS)
        self.loop_lag = Times(LAG_BOUNDS_NS)
        self._since: Instant = 0
        """When the first bytes of this turn of the loop were read; 0: none were yet."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def to_server(self, size: int, read_at: Instant) -> None:
        """Bytes were written on to Redis."""
        self.to_server_bytes += size
        if not self._since:
            self._time(read_at)

    def to_client(self, size: int, read_at: Instant) -> None:
        """Bytes were written on to a client."""
        self.to_client_bytes += size
        if not self._since:
            self._time(read_at)

    def _time(self, read_at: Instant) -> None:
        # What is written in a turn goes out at its end: the next one begins when it has.
        self._since = read_at
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._written)

    def _written(self) -> None:
        self.overhead.add(clock.now() - self._since)
        self._since = 0

    def told(
        self,
        connections: Iterable[tuple[bool, int]],
        ready: Ready,
        calls: CallTimes,
        *,
        noscripts: int,
        unrecognised: int,
        guessed: int,
        faults: int,
    ) -> Gauges:
        """All of it, and what others have counted. Of each client: whether it has a connection to Redis, and how many
        calls of it are unanswered."""
        clients = servers = inflight = 0
        for connected, unanswered in connections:
            clients += 1
            servers += connected
            inflight += unanswered
        good, body = ready
        return Gauges(
            ready=good,
            ready_body=json.dumps(body),
            clients=clients,
            servers=servers,
            inflight=inflight,
            to_server_bytes=self.to_server_bytes,
            to_client_bytes=self.to_client_bytes,
            noscripts=noscripts,
            unrecognised=unrecognised,
            guessed=guessed,
            faults=faults,
            reloads_ok=self.reloads_ok,
            reloads_failed=self.reloads_failed,
            overhead=self.overhead.told,
            loop_lag=self.loop_lag.told,
            calls=calls.told,
        )
