"""One lock's account, and the protocol as a table.

Rules of this file: what moves a lease from state to state stands in TRANSITIONS and nowhere else; nothing here knows
what is in flight, which other leases exist, or what time it is.

A lease's state follows from its bounds and an instant:

    w.opened        w.closed        w.opened+ttl       w.closed+ttl+slack
   ────┼───────────────┼──────────────────┼───────────────────┼─────▶ Instant      UNSEEN: nothing known
       │ granted here  │      HELD        │     IN_DOUBT      │  LAPSED            FREE: proved absent
                                                                                   ELSEWHERE: another's, unseen

`slack` is 1 ms + ttl/1000: a value can be read a millisecond after its time, and Redis's clock may be slewed.
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias

import msgspec

from emqproxy.locks.events import Instant, Lock, Queue, Window
from emqproxy.locks.verdicts import Attempt, End, Finding

MS: Final = 1_000_000
"""Nanoseconds in a millisecond."""
PAST_MAX: Final = 8
"""Holders of one lock that are remembered: enough to know a straggler through several takeovers."""


class LeaseState(enum.Enum):
    """What is known of a lock at an instant."""

    UNSEEN = "unseen"
    HELD = "held"
    IN_DOUBT = "in_doubt"
    LAPSED = "lapsed"
    FREE = "free"
    ELSEWHERE = "elsewhere"


class Speaker(enum.Enum):
    """Who the speaker is to the lease."""

    HOLDER = "holder"
    LOSER = "loser"
    """Held it before, and lost it: lapsed, swept, superseded, or refused."""
    LEAVER = "leaver"
    """Held it before, and gave it back itself."""
    STRANGER = "stranger"
    """Was never seen to hold it."""
    NOBODY = "nobody"
    """Speaks for no token: a sweep."""


class Move(enum.Enum):
    """What becomes of the lease; the holder is the speaker's token where it is HOLD."""

    KEEP = "keep"
    HOLD = "hold"
    FREE = "free"
    ELSEWHERE = "elsewhere"
    UNSEEN = "unseen"


Cell: TypeAlias = tuple[Finding, Move]
Key: TypeAlias = tuple[str, LeaseState, Speaker]


def _rows(
    event: str, states: tuple[LeaseState, ...], speakers: tuple[Speaker, ...], finding: Finding, move: Move
) -> dict[Key, Cell]:
    return {(event, state, speaker): (finding, move) for state in states for speaker in speakers}


S, W, M, F = LeaseState, Speaker, Move, Finding
_STATES: Final = tuple(S)
_ANY: Final = tuple(W)
_PAST: Final = (W.LOSER, W.LEAVER)
_NOT_HOLDER: Final = (W.LOSER, W.LEAVER, W.STRANGER, W.NOBODY)

TRANSITIONS: Final[dict[Key, Cell]] = (
    # A grant proves nothing of what was before: a plain SET. Only over a lock that certainly lived is it a second one.
    _rows("Granted", _STATES, _ANY, F.SOUND, M.HOLD)
    | _rows("Granted", (S.HELD,), _ANY, F.DOUBLE, M.HOLD)
    | _rows("Granted", (S.ELSEWHERE,), _ANY, F.DOUBTFUL, M.HOLD)
    # A success by the holder is as the account has it; by another, its grant was not seen.
    | _rows("Renewed", _STATES, _NOT_HOLDER, F.UNWITNESSED, M.HOLD)
    | _rows("Renewed", (S.HELD,), _NOT_HOLDER, F.FOREIGN, M.HOLD)
    | _rows("Renewed", (S.FREE,), _PAST, F.DISPUTED, M.HOLD)
    | _rows("Renewed", _STATES, (W.HOLDER,), F.SOUND, M.HOLD)
    | _rows("Renewed", (S.LAPSED,), (W.HOLDER,), F.RESURRECTED, M.HOLD)
    | _rows("Released", _STATES, _NOT_HOLDER, F.UNWITNESSED, M.FREE)
    | _rows("Released", (S.HELD,), _NOT_HOLDER, F.FOREIGN, M.FREE)
    | _rows("Released", (S.FREE,), _PAST, F.DISPUTED, M.FREE)
    | _rows("Released", _STATES, (W.HOLDER,), F.SOUND, M.FREE)
    | _rows("Released", (S.LAPSED,), (W.HOLDER,), F.RESURRECTED, M.FREE)
    # There was no lock, whoever asked.
    | _rows("Absent", _STATES, (W.STRANGER,), F.UNWITNESSED, M.FREE)
    | _rows("Absent", _STATES, _PAST, F.STRAGGLER, M.FREE)
    | _rows("Absent", _STATES, (W.HOLDER,), F.DOUBTFUL, M.FREE)
    | _rows("Absent", (S.LAPSED,), (W.HOLDER,), F.STRAGGLER, M.FREE)
    | _rows("Absent", (S.HELD,), (W.HOLDER, W.STRANGER, *_PAST), F.DISPUTED, M.FREE)
    | _rows("Absent", _STATES, (W.NOBODY,), F.SOUND, M.FREE)
    | _rows("Absent", (S.UNSEEN, S.ELSEWHERE), (W.NOBODY,), F.UNWITNESSED, M.FREE)
    | _rows("Absent", (S.HELD,), (W.NOBODY,), F.REAPED_ALIVE, M.FREE)
    # A lock lives, and it is not the speaker's.
    | _rows("HeldByOther", _STATES, _ANY, F.UNWITNESSED, M.ELSEWHERE)
    | _rows("HeldByOther", _STATES, _PAST, F.STRAGGLER, M.ELSEWHERE)
    | _rows("HeldByOther", _STATES, (W.HOLDER,), F.DOUBTFUL, M.ELSEWHERE)
    | _rows("HeldByOther", (S.LAPSED,), (W.HOLDER,), F.STRAGGLER, M.ELSEWHERE)
    | _rows("HeldByOther", (S.HELD,), (W.HOLDER,), F.DISPUTED, M.ELSEWHERE)
    | _rows("HeldByOther", (S.HELD, S.IN_DOUBT), (W.STRANGER, W.NOBODY), F.UNWITNESSED, M.KEEP)
    | _rows("HeldByOther", (S.HELD, S.IN_DOUBT), _PAST, F.STRAGGLER, M.KEEP)
    # Absent or another's: only the speaker's own holding is refuted. A renewal behind one's own finish is harmless.
    | _rows("NotMine", _STATES, (W.STRANGER, W.NOBODY), F.UNWITNESSED, M.KEEP)
    | _rows("NotMine", _STATES, (W.LOSER,), F.STRAGGLER, M.KEEP)
    | _rows("NotMine", _STATES, (W.LEAVER,), F.SOUND, M.KEEP)
    | _rows("NotMine", _STATES, (W.HOLDER,), F.DOUBTFUL, M.UNSEEN)
    | _rows("NotMine", (S.LAPSED,), (W.HOLDER,), F.STRAGGLER, M.UNSEEN)
    # Answered before the token was read; or what happened is not known.
    | _rows("NoProof", _STATES, _ANY, F.UNWITNESSED, M.KEEP)
    | _rows("NoProof", _STATES, (W.HOLDER, W.LEAVER), F.SOUND, M.KEEP)
    | _rows("Perhaps", _STATES, _ANY, F.DOUBTFUL, M.KEEP)
    # The job moved, the lock stays.
    | _rows("Bypassed", _STATES, _ANY, F.UNWITNESSED, M.KEEP)
    | _rows("Bypassed", (S.HELD,), _ANY, F.ORPHAN, M.KEEP)
    # Made here, by time; told to us, it changes nothing.
    | _rows("Lapsed", _STATES, _ANY, F.SOUND, M.KEEP)
)
"""(event, state, speaker) → (finding, what becomes of the lease); every cell is filled."""


def bounds(window: Window, ttl_ms: int) -> tuple[Instant, Instant]:
    """Certainly alive before the first, certainly gone from the second on, if it was set in this Window."""
    return window.opened + ttl_ms * MS, window.closed + ttl_ms * (MS + MS // 1000) + MS


class Lease(msgspec.Struct, eq=False):
    """The account of one lock. Every grant begins a new attempt, also one to the same token; `number` is which."""

    lock: Lock
    queue: Queue
    holder: bytes | None = None
    """None: free, elsewhere or unseen."""
    rest: LeaseState = LeaseState.UNSEEN
    """The state while there is no holder."""
    alive_until: Instant = 0
    """Certainly alive before."""
    gone_after: Instant = 0
    """Certainly gone from then on, unless renewed meanwhile."""
    proved: Window = Window(0, 0)
    started: Window = Window(0, 0)
    partial: bool = False
    number: int = 0
    conn: int = 0
    ttl_ms: int = 0
    renewals: int = 0
    late: int = 0
    refused: int = 0
    lapsed: bool = False
    open: bool = False
    """The attempt has not been told to be over."""
    deserted: bool = False
    """The connection that spoke for it last is closed."""
    perhaps_released: bool = False
    """Since the last proof of holding a release of the holder's own may have ended it."""
    touched: Instant = 0
    """When it was spoken of last."""
    taken: dict[bytes, int] = msgspec.field(default_factory=dict)
    """How often each token took this job; at most PAST_MAX tokens, the oldest forgotten first."""
    past: dict[bytes, Attempt] = msgspec.field(default_factory=dict)
    """The last attempt of each earlier holder; likewise."""

    def state(self, at: Instant) -> LeaseState:
        """What is known of the lock at an instant."""
        if self.holder is None:
            return self.rest
        if at < self.alive_until:
            return LeaseState.HELD
        return LeaseState.IN_DOUBT if at < self.gone_after else LeaseState.LAPSED

    def speaker(self, token: bytes) -> Speaker:
        """Who the speaker of a token is to this lease."""
        if not token:
            return Speaker.NOBODY
        if token == self.holder:
            return Speaker.HOLDER
        earlier = self.past.get(token)
        if earlier is None:
            return Speaker.STRANGER
        return Speaker.LEAVER if earlier.end is End.RELEASED else Speaker.LOSER

    def attempt_of(self, token: bytes) -> Attempt | None:
        """The last attempt of a token, as it stands. None: it was never seen to hold the lock."""
        return self.attempt() if self.holder is not None and token == self.holder else self.past.get(token)

    def forget_at(self, retention_ns_min: int) -> Instant:
        """When the account has served its time: twice the longer of a lock's and the least retention."""
        since = self.touched if self.holder is None else max(self.touched, self.gone_after)
        return since + 2 * max(self.ttl_ms * MS, retention_ns_min)

    def begin(self, token: bytes, window: Window, ttl_ms: int, conn: int, *, partial: bool) -> None:
        """A new incarnation: a grant, or the first proof of a holding whose grant was not seen."""
        self.holder, self.started, self.partial, self.conn = token, window, partial, conn
        self.number = self.taken.get(token, 0)
        self.taken.pop(token, None)
        self.taken[token] = self.number + 1
        _bound(self.taken)
        self.renewals = self.late = self.refused = 0
        self.open = True
        self.prove(window, ttl_ms, conn)

    def prove(self, window: Window, ttl_ms: int, conn: int) -> None:
        """The holder held it in this Window, and its time to live began anew."""
        overlaps = window.opened < self.proved.closed and conn != self.conn
        alive_until, gone_after = bounds(window, ttl_ms)
        # Which of the two ran last, and so set the time to live in force, is not known.
        self.alive_until = min(alive_until, self.alive_until) if overlaps else alive_until
        self.gone_after = max(gone_after, self.gone_after) if overlaps else gone_after
        self.proved, self.ttl_ms = window, ttl_ms
        self.lapsed = self.perhaps_released = False
        self.conn, self.deserted = conn, False

    def perhaps(self, window: Window, ttl_ms: int | None) -> None:
        """An answer to the holder that never came: it may have been extended by a time to live, or (None) released."""
        if ttl_ms is None:
            self.alive_until = min(self.alive_until, window.opened)
            self.perhaps_released = True
        elif window.opened < self.gone_after:  # what is gone is not extended
            self.gone_after = max(self.gone_after, bounds(window, ttl_ms)[1])

    def finish(self, end: End, window: Window) -> Attempt | None:
        """The holder holds no more; its attempt, if that was not told to be over before."""
        if self.holder is None:
            return None
        attempt = self.attempt(end, window)
        self.past.pop(self.holder, None)
        self.past[self.holder] = attempt
        _bound(self.past)
        self.holder, was_open, self.open = None, self.open, False
        return attempt if was_open else None

    def attempt(self, end: End | None = None, ended: Window | None = None) -> Attempt:
        """The holder's attempt as it stands. Only while there is a holder."""
        assert self.holder is not None
        return Attempt(
            self.lock,
            self.queue,
            self.holder,
            self.number,
            self.started,
            self.partial,
            self.conn,
            self.proved,
            self.ttl_ms,
            self.renewals,
            self.late,
            self.refused,
            self.lapsed,
            end,
            ended,
        )


def _bound(of: dict[bytes, int] | dict[bytes, Attempt]) -> None:
    while len(of) > PAST_MAX:
        del of[next(iter(of))]
