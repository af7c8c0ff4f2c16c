"""What can be true of one lock, and the protocol as a table.

A `World` is one thing that can be true; what is known of a lock is a set of worlds. Rules of this file: what a fact
means in a world stands in TRANSITIONS and nowhere else; nothing here knows what is in flight, in which order facts
happened, or what time it is.

A world's state follows from its bounds and an instant:

    w.opened        w.closed        w.opened+ttl       w.closed+ttl+slack
   ────┼───────────────┼──────────────────┼───────────────────┼─────▶ Instant      UNSEEN: nothing known
       │ granted here  │      HELD        │     IN_DOUBT      │  LAPSED            FREE: proved absent
                                                                                   ELSEWHERE: another's, unseen

`slack` is 1 ms + ttl/1000: a value can be read a millisecond after its time, and Redis's clock may be slewed.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, TypeAlias

from emqproxy.locks.events import (
    Deleted,
    Granted,
    HeldByOther,
    Instant,
    LockFact,
    Overwritten,
    Perhaps,
    Released,
    Renewed,
    Window,
)
from emqproxy.locks.verdicts import Finding

MS: Final = 1_000_000
"""Nanoseconds in a millisecond."""
PAST_MAX: Final = 8
"""Holders of one lock that are remembered: enough to know a straggler through several takeovers."""


class LeaseState(enum.Enum):
    """What is known of a lock at an instant, in one world."""

    UNSEEN = "unseen"
    HELD = "held"
    IN_DOUBT = "in_doubt"
    LAPSED = "lapsed"
    FREE = "free"
    ELSEWHERE = "elsewhere"

    __hash__ = object.__hash__  # the table is looked up for every fact


class Speaker(enum.Enum):
    """Who the speaker is to the lock, in one world."""

    HOLDER = "holder"
    LATE = "late"
    """The holder, who spoke after its lock had certainly ended by time."""
    LOSER = "loser"
    """Held it before, lost it, and spoke after it had certainly been lost."""
    SURPRISED = "surprised"
    """Held it before, and spoke before it was certain that it held it no more."""
    LEAVER = "leaver"
    """Held it before, and spoke after it had given it back itself."""
    STRANGER = "stranger"
    """Was never seen to hold it."""
    NOBODY = "nobody"
    """Speaks for no token: a sweep."""

    __hash__ = object.__hash__


class Move(enum.Enum):
    """What becomes of the lock; its holder is the speaker's token where it is HOLD."""

    KEEP = "keep"
    HOLD = "hold"
    FREE = "free"
    ELSEWHERE = "elsewhere"
    UNSEEN = "unseen"


class Past(NamedTuple):
    """An earlier holder, as far as it can still speak."""

    token: bytes
    left: bool
    """It gave the lock back itself."""
    lost_by: Instant
    """From then on it was certainly no longer its, and it could know."""
    proved: Window
    ttl_ms: int

    @property
    def alive_until(self) -> Instant:
        """It was certainly alive before, if nobody ended it."""
        return self.proved.opened + self.ttl_ms * MS


class World(NamedTuple):
    """One thing that can be true of a lock."""

    holder: bytes | None = None
    rest: LeaseState = LeaseState.UNSEEN
    """The state while there is no holder."""
    proved: Window = Window(0, 0)
    """When the holder last proved that it held it."""
    ttl_ms: int = 0
    alive_until: Instant = 0
    """Certainly alive before."""
    gone_after: Instant = 0
    """Certainly gone from then on, unless renewed meanwhile."""
    past: tuple[Past, ...] = ()
    """The oldest first; at most PAST_MAX, one a token."""

    def state(self, at: Instant) -> LeaseState:
        """What is known of the lock at an instant."""
        if self.holder is None:
            return self.rest
        if at < self.alive_until:
            return LeaseState.HELD
        return LeaseState.IN_DOUBT if at < self.gone_after else LeaseState.LAPSED

    def speaker(self, token: bytes, sent: Instant) -> Speaker:
        """Who the speaker of a token is, having spoken at an instant."""
        if not token:
            return Speaker.NOBODY
        if token == self.holder:
            return Speaker.LATE if sent >= self.gone_after else Speaker.HOLDER
        for past in self.past:
            if past.token == token:
                if sent < past.lost_by:
                    return Speaker.SURPRISED
                return Speaker.LEAVER if past.left else Speaker.LOSER
        return Speaker.STRANGER

    def last_of(self, token: bytes) -> Past | None:
        """The figures of a token's holding, now or before."""
        if token == self.holder:
            return Past(token, False, self.gone_after, self.proved, self.ttl_ms)
        return next((past for past in self.past if past.token == token), None)

    # ---------------------------------------------------------------- what may follow

    def held(self, token: bytes, window: Window, ttl_ms: int) -> World:
        """The token holds it: its time to live began somewhere in the window."""
        past = self.past if token == self.holder else self.left_by(window, left=False).past
        return holding(token, window, ttl_ms, tuple(p for p in past if p.token != token))

    def left_by(self, window: Window, *, left: bool, rest: LeaseState = LeaseState.UNSEEN, told: bool = True) -> World:
        """The holder holds it no more, at the latest since the end of the window; `told`: it knows."""
        if self.holder is None:
            return self._replace(rest=rest)
        lost_by = min(self.gone_after, window.closed) if told else self.gone_after
        gone = Past(self.holder, left, lost_by, self.proved, self.ttl_ms)
        past = (*[p for p in self.past if p.token != self.holder], gone)[-PAST_MAX:] if self.past else (gone,)
        return World(None, rest, past=past)

    def given_back(self, token: bytes, window: Window) -> World:
        """A token that was not the holder here gave the lock back, and so had it: it has lost nothing."""
        if not token:
            return self
        left = Past(token, True, window.closed, window, 0)
        return self._replace(past=(*(p for p in self.past if p.token != token), left)[-PAST_MAX:])


def holding(token: bytes, window: Window, ttl_ms: int, past: tuple[Past, ...]) -> World:
    """A token holds it since somewhere in the window: alive from its beginning on, gone from its end on, and a slack:
    a value can be read a millisecond after its time, and Redis's clock may be slewed."""
    (opened, closed), ttl_ns = window, ttl_ms * MS
    return World(token, LeaseState.UNSEEN, window, ttl_ms, opened + ttl_ns, closed + ttl_ns + ttl_ns // 1000 + MS, past)


S, W, M, F = LeaseState, Speaker, Move, Finding
Cell: TypeAlias = tuple[Finding, Move]
Key: TypeAlias = tuple[str, LeaseState, Speaker]


def _rows(
    event: str, states: tuple[LeaseState, ...], speakers: tuple[Speaker, ...], finding: Finding, move: Move
) -> dict[Key, Cell]:
    return {(event, state, speaker): (finding, move) for state in states for speaker in speakers}


_ALL: Final = tuple(S)
_ANY: Final = tuple(W)
_MINE: Final = (W.HOLDER, W.LATE)
_PAST: Final = (W.LOSER, W.SURPRISED, W.LEAVER)
_OTHERS: Final = (*_PAST, W.STRANGER, W.NOBODY)

TRANSITIONS: Final[dict[Key, Cell]] = (
    # A grant proves nothing of what was before: a plain SET. Only over a lock that certainly lived is it a second one.
    _rows("Granted", _ALL, _ANY, F.SOUND, M.HOLD)
    | _rows("Granted", (S.HELD,), _ANY, F.DOUBLE, M.HOLD)
    # A success by the holder is as the account has it; by another, its grant was not seen.
    | _rows("Renewed", _ALL, _OTHERS, F.UNWITNESSED, M.HOLD)
    | _rows("Renewed", (S.HELD,), _OTHERS, F.FOREIGN, M.HOLD)
    | _rows("Renewed", (S.FREE,), _PAST, F.DISPUTED, M.HOLD)
    | _rows("Renewed", _ALL, _MINE, F.SOUND, M.HOLD)
    | _rows("Renewed", (S.LAPSED,), _MINE, F.RESURRECTED, M.HOLD)
    | _rows("Released", _ALL, _OTHERS, F.UNWITNESSED, M.FREE)
    | _rows("Released", (S.HELD,), _OTHERS, F.FOREIGN, M.FREE)
    | _rows("Released", (S.FREE,), _PAST, F.DISPUTED, M.FREE)
    | _rows("Released", _ALL, _MINE, F.SOUND, M.FREE)
    | _rows("Released", (S.LAPSED,), _MINE, F.RESURRECTED, M.FREE)
    # There was no lock, whoever asked. Whoever gave it back itself lost nothing; it may not have heard that it did.
    | _rows("Absent", _ALL, (W.STRANGER,), F.UNWITNESSED, M.FREE)
    | _rows("Absent", _ALL, (W.LOSER, W.LATE), F.STRAGGLER, M.FREE)
    | _rows("Absent", _ALL, (W.SURPRISED, W.LEAVER, W.HOLDER), F.DOUBTFUL, M.FREE)
    | _rows("Absent", _ALL, (W.NOBODY,), F.SOUND, M.FREE)
    | _rows("Absent", (S.UNSEEN, S.ELSEWHERE), (W.NOBODY,), F.UNWITNESSED, M.FREE)
    | _rows("Absent", (S.HELD,), _ANY, F.DISPUTED, M.FREE)
    | _rows("Absent", (S.HELD,), (W.NOBODY,), F.REAPED_ALIVE, M.FREE)
    # A lock lives, and it is not the speaker's.
    | _rows("HeldByOther", _ALL, (W.STRANGER, W.NOBODY), F.UNWITNESSED, M.ELSEWHERE)
    | _rows("HeldByOther", _ALL, (W.LOSER, W.LATE), F.STRAGGLER, M.ELSEWHERE)
    | _rows("HeldByOther", _ALL, (W.SURPRISED, W.LEAVER, W.HOLDER), F.DOUBTFUL, M.ELSEWHERE)
    | _rows("HeldByOther", (S.HELD,), _MINE, F.DISPUTED, M.ELSEWHERE)
    | _rows("HeldByOther", (S.HELD, S.IN_DOUBT), (W.STRANGER, W.NOBODY), F.UNWITNESSED, M.KEEP)
    | _rows("HeldByOther", (S.HELD, S.IN_DOUBT), (W.LOSER,), F.STRAGGLER, M.KEEP)
    | _rows("HeldByOther", (S.HELD, S.IN_DOUBT), (W.SURPRISED, W.LEAVER), F.DOUBTFUL, M.KEEP)
    # Absent or another's: only the speaker's own holding is refuted. A renewal behind one's own finish is harmless.
    | _rows("NotMine", _ALL, (W.STRANGER, W.NOBODY), F.UNWITNESSED, M.KEEP)
    | _rows("NotMine", _ALL, (W.LOSER,), F.STRAGGLER, M.KEEP)
    | _rows("NotMine", _ALL, (W.SURPRISED,), F.DOUBTFUL, M.KEEP)
    | _rows("NotMine", _ALL, (W.LEAVER,), F.SOUND, M.KEEP)
    | _rows("NotMine", _ALL, (W.HOLDER,), F.DOUBTFUL, M.UNSEEN)
    | _rows("NotMine", _ALL, (W.LATE,), F.STRAGGLER, M.UNSEEN)
    | _rows("NotMine", (S.HELD,), _MINE, F.DISPUTED, M.UNSEEN)
    # Answered before the token was read; or what happened is not known.
    | _rows("NoProof", _ALL, _ANY, F.SOUND, M.KEEP)
    | _rows("NoProof", _ALL, (W.STRANGER, W.NOBODY), F.UNWITNESSED, M.KEEP)
    | _rows("Perhaps", _ALL, _ANY, F.DOUBTFUL, M.KEEP)
    # A hand on the key: nobody speaks, and nobody is accused. Where it says that the lock is gone, it is.
    | _rows("Deleted", _ALL, _ANY, F.UNWITNESSED, M.FREE)
    | _rows("Overwritten", _ALL, _ANY, F.UNWITNESSED, M.UNSEEN)
    | _rows("Lapsed", _ALL, _ANY, F.SOUND, M.KEEP)  # the ledger's own word for what time brought
    # The job moved, the lock stays: if it lives, nobody will give it back.
    | _rows("Bypassed", _ALL, _ANY, F.UNWITNESSED, M.KEEP)
    | _rows("Bypassed", (S.HELD,), _ANY, F.ORPHAN, M.KEEP)
)
"""(event, state, speaker) → (finding, what becomes of the lock); every cell is filled."""

_REST: Final = {Move.FREE: S.FREE, Move.ELSEWHERE: S.ELSEWHERE, Move.UNSEEN: S.UNSEEN}


class Step(NamedTuple):
    """A fact in a world: what it means there, and what follows."""

    finding: Finding
    world: World


def steps(world: World, fact: LockFact, sent: Instant) -> tuple[Step, ...]:
    """All that a fact can mean in a world: one step, or two where what happened is not known.

    A success of the holder is judged at `opened`, all else at `closed`: the end of the Window kinder to the accused.
    """
    window = fact.window
    mine = bool(fact.token) and fact.token == world.holder
    at = window.opened if mine and isinstance(fact, (Renewed, Released)) else window.closed
    finding, move = TRANSITIONS[type(fact).__name__, world.state(at), world.speaker(fact.token, sent)]
    if isinstance(fact, (Granted, Renewed)):
        return (Step(finding, world.held(fact.token, window, fact.ttl_ms)),)
    if isinstance(fact, Perhaps):
        return _perhaps(world, fact, finding, mine=mine)
    if move is Move.KEEP:
        return (Step(finding, world),)
    if isinstance(fact, (Deleted, Overwritten)):  # its holder was told nothing; of an EXPIRE it need not have lost it
        own = isinstance(fact, Overwritten) and fact.unread
        after = Step(finding, world.left_by(window, left=own, rest=_REST[move], told=False))
        return (after,) if isinstance(fact, Deleted) else (Step(finding, world), after)
    if isinstance(fact, Released) and not mine:
        return (Step(finding, world.left_by(window, left=False, rest=_REST[move]).given_back(fact.token, window)),)
    left = isinstance(fact, Released)
    other_lived = world.holder is not None and world.state(window.opened) is not LeaseState.LAPSED
    if isinstance(fact, HeldByOther) and not mine and other_lived:  # the one that lived may have been the holder still
        return (Step(finding, world), Step(finding, world.left_by(window, left=left, rest=_REST[move])))
    return (Step(finding, world.left_by(window, left=left, rest=_REST[move])),)


def _perhaps(world: World, fact: Perhaps, finding: Finding, *, mine: bool) -> tuple[Step, ...]:
    """It happened or it did not. Only a holder, or one whose holding was not seen, can have brought anything about."""
    unknown = world.holder is None and world.rest is not LeaseState.FREE
    if not (mine or unknown):
        return (Step(finding, world),)
    if fact.ttl_ms is None:
        # Its answer was not read: whoever asks again, unsure of its own finish, is no straggler.
        done = world.left_by(fact.window, left=mine, rest=LeaseState.FREE, told=False)
    elif world.state(fact.window.opened) is LeaseState.LAPSED:
        return (Step(finding, world),)  # what has ended cannot be renewed
    else:
        done = world.held(fact.token, fact.window, fact.ttl_ms)
    return (Step(finding, world), Step(finding, done))
