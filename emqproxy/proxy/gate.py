"""The gate of one connection in enforce mode: nothing goes on to Redis before it was judged, and what Redis answers is
read before it is given on, so that our own answers find their place.

What cannot be read in one way only, or not be followed, ends the connection: what was asked before is answered, then
the client is told why, and it is closed. So does a fault of ours: nothing passes unjudged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from emqproxy.locks.events import Instant
from emqproxy.logs import RateLimited
from emqproxy.proxy.watched import Watched
from emqproxy.proxy.watcher import Watcher
from emqproxy.proxy.witness import Witness
from emqproxy.session.exchange import Command, Exchange

SLICE_BYTES: Final = 16 * 1024
"""Of requests, judged in one turn of the loop: some milliseconds, then other connections have theirs."""


class Lodge(Protocol):
    """What a gate needs of the house around it."""

    witness: Witness
    limited: RateLimited


class Road(Protocol):
    """The connection whose gate it is."""

    def send(self, data: bytes, now: Instant) -> None:
        """On to Redis."""

    def gate_busy(self, busy: bool) -> None:
        """Whether the client should not be read for a while."""

    def close(self) -> None:
        """End it when what was asked is answered."""


class Gate:
    """One connection's, from the moment in which the mode is enforce."""

    def __init__(self, house: Lodge, watched: Watched, watcher: Watcher, road: Road) -> None:
        self._house, self._watched, self._watcher, self._road = house, watched, watcher, road
        self._waiting: deque[tuple[bytes, Instant]] = deque()
        self._turn: asyncio.Handle | None = None
        self._shut = self._busy = False
        self.last_words = b""
        """What the client is told when the connection is closed."""

    @property
    def idle(self) -> bool:
        """Nothing is held here, and no answer of ours is still to be given: the connection may go on without a gate."""
        session = self._watched.session
        return not self._waiting and session.at_boundary and not session.swaps

    def shut_in(self, data: bytes, now: Instant) -> bytes:
        """Bytes of a connection that was not gated until now: what is left when the open command, which has gone on in
        part, has ended; it goes on."""
        session = self._watched.session
        self._watcher.catch_up()
        while data and not session.at_boundary and session.blinded is None:
            head, data = data[: session.open_bytes], data[session.open_bytes :]
            self._road.send(head, now)
            self._watcher.from_client(head, now)
        session.gate()
        if session.blinded is not None:
            self._end("it was not followed when the mode became enforce", now)
        return data

    # ---------------------------------------------------------------- requests

    def asked(self, data: bytes, now: Instant) -> None:
        """Bytes of the client's."""
        if self._shut:
            return
        self._waiting.append((data, now))
        if self._turn is None:
            self._next()

    def finish(self) -> None:
        """The client sends no more: what waits is judged now."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        while self._waiting:
            self._slice()
        self._house.witness.looks.hold(self, None)

    def over(self) -> None:
        """The connection has ended: what waits goes nowhere."""
        self._shut = True
        self._clear()
        if self._turn is not None:
            self._turn.cancel()

    def _clear(self) -> None:
        self._waiting.clear()
        self._house.witness.looks.hold(self, None)

    def _next(self) -> None:
        was_waiting, self._turn = self._turn is not None, None
        session = self._watched.session
        if self._waiting and not session.waits:
            self._slice()
        waits = session.waits and not self._shut
        if self._waiting and not waits:
            self._turn = asyncio.get_running_loop().call_soon(self._next)
        if self._waiting or was_waiting:  # time must not overtake what a client sent in time
            # ... but what waits for an answer, behind half a command, may wait for ever
            self._house.witness.looks.hold(self, self._waiting[0][1] if self._waiting and not waits else None)
        if self._busy != (waits or self._turn is not None):
            self._busy = not self._busy
            self._road.gate_busy(self._busy)

    def _slice(self) -> None:
        data, now = self._waiting.popleft()
        if len(data) > SLICE_BYTES:
            self._waiting.appendleft((data[SLICE_BYTES:], now))
            data = data[:SLICE_BYTES]
        self._watched.heard(now)
        session = self._watched.session
        session.judge_bytes = self._house.witness.judge.judge_bytes
        try:
            self._house.witness.looks.run()  # what others are known to have done is known first
            passed = session.from_client_judged(data, now, self._judge) + session.question(now)
        except Exception as fault:  # noqa: BLE001  law 9: a fault of ours closes this connection
            self._watcher.fault(fault, now)
            self._end("a fault of emqproxy's own", now)
            return
        if passed:
            self._road.send(passed, now)
        if session.blinded is not None:
            self._end(session.blinded, now)

    def _judge(self, command: Command) -> bytes | None:
        return self._house.witness.judged(self._watched, command)

    # ---------------------------------------------------------------- answers

    def answers(self, data: bytes, now: Instant) -> tuple[bytes, list[Exchange]]:
        """What the client is given of bytes of Redis's, and what to `tell` when it has been given them."""
        session = self._watched.session
        if session.over:
            return b"", []
        try:
            given, exchanges = session.from_server_judged(data, now)
        except Exception as fault:  # noqa: BLE001  law 9
            self._watcher.fault(fault, now)
            return b"", []
        return given, exchanges

    def tell(self, exchanges: list[Exchange], now: Instant) -> None:
        """The client has been served."""
        try:
            if exchanges:
                self._house.witness.answered(self._watched, exchanges)
            if not self._shut and (asked := self._watched.session.question(now)):
                self._road.send(asked, now)
        except Exception as fault:  # noqa: BLE001  law 9
            self._watcher.fault(fault, now)
        if (reason := self._watched.session.blinded) is not None:
            self._end(reason, now)
        elif self._busy and self._turn is None and not self._shut:
            self._next()

    def _end(self, reason: str, now: Instant) -> None:
        if self._shut:
            return
        self._shut = True
        self._clear()
        self.last_words = f"-EMQPROXY closed {reason}\r\n".encode()
        self._house.limited.warning(
            "a connection is closed: it sent what cannot be judged, or could not be followed",
            now=now,
            key=("closed", reason),
            reason=reason,
            client=self._watched.client,
            conn=self._watched.conn,
        )
        self._road.close()
