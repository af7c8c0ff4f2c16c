"""What the answers of the lock scripts prove, and what requests are about to attempt.

A fact says what an answer proves and no more; each carries its `Window` (when it can have happened) and its `Place`
(which request, on which connection). An intent says what a request may bring about before its answer is known.

The tie between the two: every intent is answered by exactly one fact of the same `Place`, or is abandoned.

Instants are integers, monotonic nanoseconds. Source: ARCHITECTURE, "The central types".
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import msgspec

Instant: TypeAlias = int
"""Monotonic nanoseconds, of the data plane's clock."""


class Window(NamedTuple):
    """It happened somewhere in here: a script ran after its request was sent and before its answer was read."""

    opened: Instant
    closed: Instant


class Place(NamedTuple):
    """Which request on which connection; the order of two facts of one connection is the order of their places."""

    conn: int
    request: int
    """Counts the recognised requests of the connection, in the order in which Redis runs them."""
    part: int = 0
    """One request may carry several facts: the ids of a batch, a finish and its fetch-next."""


class Lock(NamedTuple):
    """Identity of a lock: the database's number and the key that holds the token (`emq:orders:42:lock`)."""

    db: int
    key: bytes


class Queue(NamedTuple):
    """Identity of a queue: the database's number and the prefix of its keys, with the colon (`emq:orders:`)."""

    db: int
    prefix: bytes


# ---------------------------------------------------------------- intents: what a request is about to attempt


class Intent(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Something a request may bring about while its answer is still out."""

    place: Place
    queue: Queue


class Take(Intent, frozen=True, tag=True):
    """A pickup or a fetch-next: may grant any job of its queue to this token."""

    token: bytes
    ttl_ms: int | None
    anything: bool = False
    """It could not be read, and may do anything to any lock of its queue."""


class Sweep(Intent, frozen=True, tag=True):
    """A stalled sweep: may find any job of its queue without a lock. Answered by `Nothing` on its own place, last."""


class LockIntent(Intent, frozen=True, tag=True):
    """An attempt on one named lock."""

    lock: Lock
    token: bytes


class Renew(LockIntent, frozen=True, tag=True):
    """An extension of the lock's time to live."""

    ttl_ms: int | None


class Release(LockIntent, frozen=True, tag=True):
    """A finish, a move or a release: ends the lock if it is the speaker's."""


class Write(LockIntent, frozen=True, tag=True):
    """A write to the job that no token fences. The lock is not touched: it explains nothing that is seen of it."""


class Remove(LockIntent, frozen=True, tag=True):
    """A removal of the job, which happens only where there is no lock."""


class Overwrite(LockIntent, frozen=True, tag=True):
    """A hand on the lock's key, or a script that nobody knows: it may end the lock, replace it, set another time."""

    unread: bool = False
    """A call of the protocol that could not be read: it may be the holder's own."""


class Wipe(Intent, frozen=True, tag=True):
    """May end every lock of a queue (a forced obliterate); with an empty prefix, of all databases (FLUSHALL, FLUSHDB,
    SWAPDB). Bears on all of them until it is answered."""


# ---------------------------------------------------------------- facts: what an answer proves


class Fact(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Something an answer proves."""

    place: Place
    window: Window


class QueueFact(Fact, frozen=True, tag=True):
    """A fact about no lock in particular."""

    queue: Queue


class Nothing(QueueFact, frozen=True, tag=True):
    """The answer of a pickup that granted nothing, or the end of a sweep's answer. Proves nothing of any lock."""


class PerhapsGranted(QueueFact, frozen=True, tag=True):
    """A pickup whose answer never came or was an error: any job of the queue may have been granted to this token."""

    token: bytes
    ttl_ms: int | None
    anything: bool = False
    """A call that could not be read: any lock of the queue may have been taken, renewed or ended, whoever held it."""


class LockFact(Fact, frozen=True, tag=True):
    """A fact about one lock. `token` is the speaker's; it is empty where the speaker needs none (a sweep)."""

    lock: Lock
    queue: Queue
    token: bytes


class Granted(LockFact, frozen=True, tag=True):
    """A pickup or fetch-next gave the job out. Proves nothing of what was before (a plain SET); this holder after."""

    ttl_ms: int


class Renewed(LockFact, frozen=True, tag=True):
    """This token held the lock then; its time to live begins anew."""

    ttl_ms: int


class Released(LockFact, frozen=True, tag=True):
    """This token held the lock; it is gone now. Also -3: the lock is deleted before the list is looked at."""


class Absent(LockFact, frozen=True, tag=True):
    """There was no lock, whoever asked: -2, a removal, a DEL that found none; or a sweep named the job (`swept`)."""

    swept: bool = False


class HeldByOther(LockFact, frozen=True, tag=True):
    """-6: a lock lives, and it is not the speaker's."""


class NotMine(LockFact, frozen=True, tag=True):
    """A refused renewal, an old -2, releaseLock 0: absent or another's. `ttl_ms` is what a renewal asked for."""

    renewal: bool = False
    ttl_ms: int | None = None


class NoProof(LockFact, frozen=True, tag=True):
    """Answered before the token was read: -1, -4, -9, READONLY, LOADING, NOSCRIPT, an EXEC that did not run."""


class Perhaps(LockFact, frozen=True, tag=True):
    """An answer that never came, or an error after which anything may have been done: the bounds widen.

    `ttl_ms`: a renewal that may have succeeded with it. None: a release that may have ended the lock.
    """

    ttl_ms: int | None


class Bypassed(LockFact, frozen=True, tag=True):
    """A move with the token "0": the job moved, the lock stays as it was."""


class Deleted(LockFact, frozen=True, tag=True):
    """The lock's key was deleted by hand: whoever held it, holds it no more. Nobody speaks: `token` is empty."""


class Overwritten(LockFact, frozen=True, tag=True):
    """A hand on the lock's key, or an unknown script: who holds it from then on, and until when, is not known."""

    unread: bool = False
    """A call of the protocol that could not be read: whoever held it may have renewed it or given it back itself."""


class Untouched(LockFact, frozen=True, tag=True):
    """A call that named the job and neither looked at its lock nor touched it: it was added, written to, removed from
    a list that no lock guards; or what would have touched it was refused before. Of the journal, not of the account."""


# ---------------------------------------------------------------- facts of another kind


class Lapsed(LockFact, frozen=True, tag=True):
    """Made by time: the deadline passed without a renewal. Its Window is from certainly alive to certainly gone."""


class Wiped(Fact, frozen=True, tag=True):
    """Leases went away in bulk: all in scope are unseen. `db` None: every database; `prefix` empty: every queue."""

    db: int | None
    prefix: bytes = b""


class Blinded(Fact, frozen=True, tag=True):
    """A connection went OPAQUE: what it does to any lease is unseen from here on."""


class Met(Fact, frozen=True, tag=True):
    """A connection was made: a client's; or, where `place` names none, to another Redis than before. Of the journal."""


class Sighted(Fact, frozen=True, tag=True):
    """A connection closed: nothing more comes from it, seen or unseen."""


AnyIntent: TypeAlias = Take | Sweep | Renew | Release | Write | Remove | Overwrite | Wipe
AnyLockFact: TypeAlias = (
    Granted
    | Renewed
    | Released
    | Absent
    | HeldByOther
    | NotMine
    | NoProof
    | Perhaps
    | Bypassed
    | Deleted
    | Overwritten
    | Lapsed
)
"""What an account hears."""
AnyFact: TypeAlias = AnyLockFact | Untouched | Nothing | PerhapsGranted | Wiped | Blinded | Sighted | Met


def effect(fact: Fact) -> str:
    """The fact's class in the journal's words: `held_by_other`."""
    return _EFFECTS[type(fact).__name__]


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


def _leaves(kind: type[Fact]) -> list[type[Fact]]:
    below = kind.__subclasses__()
    return [leaf for child in below for leaf in _leaves(child)] if below else [kind]


_EFFECTS: Final = {leaf.__name__: _snake(leaf.__name__) for leaf in _leaves(Fact)}
