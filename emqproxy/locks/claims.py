"""Who took which job over which connection, as far as the wire has proved it: what a refusal may rest on.

The ledger tells tokens apart; a refusal must tell speakers apart who use the same one. A speaker is a connection here,
and only where that is certain: a token that was once used from two connections within one acquisition (a pool) is
nobody's sign of anything from then on. What is not certain is not claimed, and then nothing is refused.

Fed only where something can come of it: in observe mode nobody asks. So claims begin with the first grant seen since.

Source: CONTRACT, `[rules]`: lapsed_holder, zombie_write.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from emqproxy.locks.events import (
    AnyFact,
    AnyIntent,
    Blinded,
    Deleted,
    Granted,
    Lock,
    Overwritten,
    PerhapsGranted,
    Release,
    Renew,
    Window,
    Wiped,
)

POOLED_MAX: Final = 10_000
"""Tokens remembered for having been used from two connections."""
FORMER_MAX: Final = 8
"""Acquisitions of one job that are remembered behind the last."""
NO_TOKENS: Final = frozenset((b"", b"0"))
"""They are no speaker's sign."""


class Acquisition(msgspec.Struct, eq=False, gc=False):
    """A job was given to a token, over a connection."""

    token: bytes
    conn: int
    window: Window


class Claim(msgspec.Struct, eq=False, gc=False):
    """The acquisitions of one job: the last one, and those certainly before it."""

    last: Acquisition
    former: list[Acquisition]


class Claims:
    """Of all locks; bounded."""

    def __init__(self, locks_max: int) -> None:
        self._locks_max = locks_max
        self._by_lock: OrderedDict[Lock, Claim] = OrderedDict()
        self._pooled: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_lock)

    # ---------------------------------------------------------------- facts in

    def observed(self, fact: AnyFact) -> None:
        """An answer: a grant is another acquisition; after what may have granted or ended one unseen, none is known."""
        match fact:
            case Granted():
                self._granted(fact)
            case Overwritten() | Deleted():
                self._by_lock.pop(fact.lock, None)
            case Wiped():
                self._forget(lambda lock: fact.db in {None, lock.db} and lock.key.startswith(fact.prefix))
            case PerhapsGranted():
                db, prefix = fact.queue
                self._forget(lambda lock: lock.db == db and lock.key.startswith(prefix))
            case Blinded():
                self._by_lock.clear()
            case _:
                pass

    def _forget(self, hit: Callable[[Lock], bool]) -> None:
        for lock in [lock for lock in self._by_lock if hit(lock)]:
            del self._by_lock[lock]

    def spoke(self, intent: AnyIntent) -> None:
        """A call goes on that names a token: a use of it in the acquisition that is the last one now."""
        if not isinstance(intent, (Renew, Release)) or intent.token in NO_TOKENS:
            return
        claim = self._by_lock.get(intent.lock)
        if claim is not None and claim.last.token == intent.token and claim.last.conn != intent.place.conn:
            self._pool(intent.token)

    def _granted(self, fact: Granted) -> None:
        taken, claim = Acquisition(fact.token, fact.place.conn, fact.window), self._by_lock.pop(fact.lock, None)
        former: list[Acquisition] = []
        # Where it is open which came first, who holds it is open, too: then only this one is known of.
        if claim is not None and claim.last.window.closed < fact.window.opened:
            former = [a for a in claim.former if (a.token, a.conn) != (claim.last.token, claim.last.conn)]
            former = [*former, claim.last][-FORMER_MAX:]
        elif claim is not None:
            self._pool(claim.last.token)
            self._pool(fact.token)
        self._by_lock[fact.lock] = Claim(taken, former)
        if len(self._by_lock) > self._locks_max:
            self._by_lock.popitem(last=False)

    def _pool(self, token: bytes) -> None:
        self._pooled[token] = None
        self._pooled.move_to_end(token)
        if len(self._pooled) > POOLED_MAX:
            self._pooled.popitem(last=False)

    # ---------------------------------------------------------------- questions

    def is_stale(self, lock: Lock, token: bytes, conn: int) -> bool:
        """Whether a connection took this job with this token, and another connection took it since with the same one:
        it speaks for what it has lost, and Redis cannot tell."""
        claim = self._by_lock.get(lock)
        if claim is None or token in NO_TOKENS or token in self._pooled:
            return False
        if claim.last.token != token or claim.last.conn == conn:
            return False
        return any(former.token == token and former.conn == conn for former in claim.former)

    def holder_since(self, lock: Lock, conn: int) -> Acquisition | None:
        """The last acquisition of a job that a connection took before and lost to it: by another connection, and by
        another worker. None: it never had it, has it, or who had what is not certain."""
        claim = self._by_lock.get(lock)
        if claim is None or claim.last.conn == conn or claim.last.token in self._pooled:
            return None
        had = [former for former in claim.former if former.conn == conn]
        if not had or any(former.token in self._pooled for former in had):
            return None
        holder = worker_of(claim.last.token)
        return None if any(worker_of(former.token) == holder for former in had) else claim.last


def worker_of(token: bytes) -> bytes:
    """What of a token is its worker's: all of it, or what stands before the colon of `uuid:n`."""
    return token.partition(b":")[0]
