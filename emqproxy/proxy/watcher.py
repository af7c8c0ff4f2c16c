"""What is made of one connection's bytes once they have been written on: pairing, asking, answering, in turns.

Requests are looked at when they are read: what is in flight must be known before anything is judged. Answers may
wait: their instants are stamped, and until they are looked at their requests count as in flight. So they are taken in
slices, and between two slices the loop serves the other connections: a pipeline of 100,000 answers in one read costs
this connection's account time, and nobody else's. Where too much waits, Redis is not read until some of it was looked
at: what waits is bounded, however much is streamed through.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from emqproxy.locks.events import Instant
from emqproxy.logs import RateLimited
from emqproxy.proxy import clock
from emqproxy.proxy.watched import Watched
from emqproxy.proxy.witness import Witness
from emqproxy.session.exchange import Exchange

SLICE_BYTES_MIN: Final = 1024
"""About 200 answers to renewals: some 10 ms of work."""
SLICE_BYTES_MAX: Final = 64 * 1024
"""Where a slice held nothing of interest (a large value, plain answers), the next one is twice as long."""
SLICE_EXCHANGES: Final = 8
"""A slice is to hold about so many answers of interest, as the last one had them: jobs are longer than codes."""
TURN_NS: Final = 500_000
"""So long slices are looked at in one turn, to the end of the last: no stream may come faster than it goes."""
BEHIND_BYTES_MAX: Final = 1024 * 1024
"""Of answers that wait for their turn: past it Redis is not read until half of them have been looked at."""


class House(Protocol):
    """What a watcher needs of the house around it."""

    witness: Witness
    limited: RateLimited
    faults: int


class Watcher:
    """One connection's. No method raises: a fault of ours makes this connection blind, and no more."""

    def __init__(self, house: House, watched: Watched, pause: Callable[[bool], None] | None = None) -> None:
        """`pause` is told True when Redis should not be read for a while, and False when it should again."""
        self.watched = watched
        self._house = house
        self._pause = pause or _nobody
        self._paused = False
        self._told_blind = False
        self._settled = False
        """Nothing that comes from Redis is paired any more."""
        self._behind: deque[tuple[bytes, Instant]] = deque()
        """Answers that wait for their turn."""
        self._behind_bytes = 0
        self._left: deque[Exchange] = deque()
        """Exchanges without an answer, of a connection that is over or blind; they wait likewise."""
        self._slice_bytes = SLICE_BYTES_MIN
        self._turn: asyncio.Handle | None = None
        self._over: tuple[Instant, Callable[[], None]] | None = None

    @property
    def answered(self) -> bool:
        """Nothing is outstanding that could still be paired."""
        return not self._behind and self.watched.session.answered

    def from_client(self, data: bytes, now: Instant) -> None:
        """Bytes of the client's, which have been written on."""
        self.watched.heard(now)
        if self._told_blind:
            return
        session = self.watched.session
        try:
            commands = session.from_client(data, now)
            if commands:
                self._house.witness.asked(self.watched, commands)
            if session.blinded is not None:
                self._blind(now)
        except Exception as fault:  # noqa: BLE001  law 9: a fault of ours is one connection's
            self.fault(fault, now)

    def from_server(self, data: bytes, now: Instant) -> None:
        """Bytes of Redis's, which have been written on: the first slice is looked at now, the rest in turns."""
        if self._settled:
            return
        if not self._behind and len(data) <= self._slice_bytes:
            self._look(data, now)
            return
        self._behind.append((data, now))
        self._behind_bytes += len(data)
        if self._behind_bytes > BEHIND_BYTES_MAX and not self._paused:
            self._paused = True
            self._pause(True)
        if self._turn is None:
            self._take_turn()

    def catch_up(self) -> None:
        """All answers that wait for their turn, now."""
        while self._behind:
            data, now = self._behind.popleft()
            self._look(data, now)
        self._forget_behind()

    def end(self, now: Instant, told: Callable[[], None]) -> None:
        """The connection is over; `told` is called when all that can be told of it has been."""
        self._over = (now, told)
        if self._turn is None:
            self._take_turn()

    # ---------------------------------------------------------------- turns

    def _take_turn(self) -> None:
        self._turn = None
        if self._behind and not self._settled:
            self._take_slices()
        elif self._left:
            self._tell([self._left.popleft() for _ in range(min(SLICE_EXCHANGES, len(self._left)))])
        elif self._over is not None:
            self._finish(*self._over)
            return
        if self._behind or self._left or self._over is not None:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_slices(self) -> None:
        """As many as fit into a turn."""
        began = clock.now()
        while self._behind:
            data, now = self._behind.popleft()
            if len(data) > self._slice_bytes:
                self._behind.appendleft((data[self._slice_bytes :], now))
                data = data[: self._slice_bytes]
            self._behind_bytes -= len(data)
            self._look(data, now)
            if clock.now() - began > TURN_NS:
                break
        if self._paused and self._behind_bytes <= BEHIND_BYTES_MAX // 2:
            self._paused = False
            self._pause(False)

    def _forget_behind(self) -> None:
        self._behind.clear()
        self._behind_bytes = 0
        if self._paused:
            self._paused = False
            self._pause(False)

    def _look(self, data: bytes, now: Instant) -> None:
        session = self.watched.session
        try:
            exchanges = session.from_server(data, now)
            if exchanges:
                wide = SLICE_EXCHANGES * len(data) // len(exchanges)
                self._slice_bytes = max(SLICE_BYTES_MIN, min(wide, SLICE_BYTES_MAX))
                self._house.witness.answered(self.watched, exchanges)
            else:
                self._slice_bytes = min(2 * self._slice_bytes, SLICE_BYTES_MAX)
            if session.over:
                self._blind(now)
        except Exception as fault:  # noqa: BLE001  law 9
            self.fault(fault, now)

    def _tell(self, exchanges: list[Exchange]) -> None:
        try:
            self._house.witness.answered(self.watched, exchanges)
        except Exception as fault:  # noqa: BLE001  law 9
            self.fault(fault, exchanges[0].closed)

    def _finish(self, now: Instant, told: Callable[[], None]) -> None:
        """All answers have been looked at: what was never answered is next, and then the connection is closed."""
        if not self._settled:
            self._settled = True
            self._left.extend(self.watched.session.end(now))
            if self._left:
                self._turn = asyncio.get_running_loop().call_soon(self._take_turn)
                return
        self._over = None
        try:
            self._house.witness.closed(self.watched, now)
        except Exception as fault:  # noqa: BLE001  law 9
            self.fault(fault, now)
        self._pause = _nobody  # a connection that is over is freed now, not when the collector comes by
        told()

    # ---------------------------------------------------------------- blindness and faults

    def _blind(self, now: Instant) -> None:
        """Nothing more can be paired: said once. What had been asked is settled as far as it can be."""
        session = self.watched.session
        if not self._told_blind:
            self._told_blind = True
            reason = session.blinded or "unknown"
            self._house.limited.warning(
                "a connection cannot be followed any more: its bytes go on, its locks are not seen",
                now=now,
                key=("blind", reason),
                reason=reason,
                client=self.watched.client,
                conn=self.watched.conn,
            )
            self._house.witness.blinded(self.watched, reason, now)
        if session.over and not self._settled:
            self._settled = True
            self._forget_behind()
            self._left.extend(session.end(now))
            if self._left and self._turn is None:
                self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def fault(self, fault: Exception, now: Instant) -> None:
        """A fault of ours: this connection goes blind, the others go on. It is counted, and logged once a minute."""
        self._house.faults += 1
        where = traceback.extract_tb(fault.__traceback__)[-1:]
        self._house.limited.error(
            "a fault of emqproxy's own: one connection is not followed any more",
            now=now,
            key=("fault", type(fault).__name__),
            fault=type(fault).__name__,
            at=f"{where[0].name}:{where[0].lineno}" if where else "?",
            client=self.watched.client,
            faults=self._house.faults,
        )
        self.watched.session.blind("a fault of emqproxy's own")
        self._settled = True
        self._forget_behind()
        self._left.clear()
        _quietly(lambda: self._house.witness.forsake(self.watched, now))
        if not self._told_blind and self._over is None:
            self._told_blind = True
            _quietly(lambda: self._house.witness.blinded(self.watched, "a fault of emqproxy's own", now))


def _nobody(_: bool) -> None:
    """Is paused."""


def _quietly(call: Callable[[], None]) -> None:
    """The second fault of one connection must not reach the loop."""
    try:
        call()
    except Exception:  # noqa: BLE001
        return
