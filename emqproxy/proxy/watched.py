"""A connection as the witness sees it: who it is, what is out on it, and when it spoke."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import msgspec

from emqproxy.locks.events import AnyIntent, Instant, Place
from emqproxy.locks.policy import Decision
from emqproxy.proxy.consulting import BURST_NS
from emqproxy.records import Peer
from emqproxy.scripts.operation import Operation
from emqproxy.session.gated import GatedSession

CALLS_KEPT: Final = 16


class Asked(NamedTuple):
    """A call that was recognised and is not answered yet."""

    operation: Operation
    place: Place
    intents: tuple[AnyIntent, ...]
    sent: Instant
    decision: Decision | None
    """What the judge said; None where there is none."""
    idle_ms: float | None
    turn: int
    """The teller's, when it was asked."""
    queued: Instant = 0
    """Inside MULTI: what `sent` was until EXEC came."""


class Watched(msgspec.Struct, eq=False):
    """A connection, and what is out on it."""

    conn: int
    client: str
    session: GatedSession
    asked: dict[int, Asked] = msgspec.field(default_factory=dict)
    """By request number."""
    texts: dict[int, bytes] = msgspec.field(default_factory=dict)
    """By request number: texts of SCRIPT LOAD, and of EVAL if it was new to us, whose answer is out."""

    known_as: Peer | None = None
    heard_at: Instant = 0
    silent_from: Instant = 0
    """When it was heard before what came last at once, or was made."""
    burst_from: Instant = 0
    """When what came last at once began to come."""
    made_at: Instant = 0
    met: bool = False
    """It made a call that was recognised, and has its line."""
    calls: deque[Instant] = msgspec.field(default_factory=lambda: deque(maxlen=CALLS_KEPT))
    """When the last calls of interest arrived."""

    def heard(self, now: Instant) -> None:
        """Bytes came."""
        if now - self.burst_from > BURST_NS:
            self.silent_from, self.burst_from = self.heard_at, now
        self.heard_at = now

    def calls_near(self, instant: Instant, within_ns: int) -> int:
        """How many of its last calls of interest arrived within a time of an instant."""
        return sum(abs(at - instant) <= within_ns for at in self.calls)

    @property
    def peer(self) -> Peer:
        """Who it is, for a record."""
        name = self.session.client_name
        if self.known_as is None or self.known_as.client_name != name:
            self.known_as = Peer(self.conn, self.client, name)
        return self.known_as
