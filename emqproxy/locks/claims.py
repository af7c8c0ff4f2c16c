"""Who took which job over which connection, as far as the wire has proved it: what a refusal may rest on.

The ledger tells tokens apart; a refusal must tell speakers apart who use the same one. A speaker is a connection here,
and only where that is certain: a token that was once used from two connections within one acquisition (a pool), and
these connections, are nobody's sign of anything from then on. Who gave a job back itself has lost nothing. What is not
certain is not claimed, and then nothing is refused. So it is with a connection that speaks for a job which was taken
elsewhere: a pool may be spread over several sidecars, and then each sees a part of what its process does.

What no wire can show: a pool whose token took a job over one connection, lost it and took it again over another, and
that never before spoke for any job over two, looks like two workers with one token.

Fed only where something can come of it: in observe mode nobody asks. So claims begin with the first grant seen since.

Source: CONTRACT, `[rules]`: lapsed_holder, zombie_write.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from emqproxy.locks.events import (
    Absent,
    AnyFact,
    AnyIntent,
    Blinded,
    Bypassed,
    Deleted,
    Granted,
    Lock,
    LockFact,
    Overwritten,
    Perhaps,
    PerhapsGranted,
    Queue,
    Release,
    Released,
    Renew,
    Renewed,
    Sighted,
    Window,
    Wiped,
)
from emqproxy.locks.pools import Newest, Pools

FORMER_MAX: Final = 8
"""Acquisitions of one job that are remembered behind the last."""
NO_TOKENS: Final = frozenset((b"", b"0"))
"""They are no speaker's sign."""


class Acquisition(msgspec.Struct, eq=False, gc=False):
    """A job was given to a token, over a connection."""

    token: bytes
    conn: int
    window: Window | None
    """None: nothing rests on it: it was forgotten, or only a use of the token was seen."""
    seen: bool = True
    """It was granted here."""
    left: bool = False
    """It gave the job back itself, or may have."""


class Claim(msgspec.Struct, eq=False, gc=False):
    """The acquisitions of one job: the last one, and those certainly before it that lost it."""

    queue: Queue
    last: Acquisition
    former: list[Acquisition]
    past: list[tuple[bytes, int]]
    """Tokens and connections of acquisitions that nothing rests on any more: their use still shows a pool."""


class Claims:
    """Of all locks; bounded."""

    def __init__(self, locks_max: int) -> None:
        self._locks_max = locks_max
        self._by_lock: OrderedDict[Lock, Claim] = OrderedDict()
        self._of_queue: dict[Queue, set[Lock]] = {}
        """Locks that have a claim; none is empty."""
        self._pools = Pools()
        self._bypassed: Newest[Lock] = Newest(locks_max)

    def __len__(self) -> int:
        return len(self._by_lock)

    # ---------------------------------------------------------------- facts in

    def observed(self, fact: AnyFact) -> None:
        """An answer: a grant is another acquisition; after what may have granted or ended one unseen, none is known."""
        match fact:
            case Granted():
                self._granted(fact)
            case Renewed():
                self._held(fact)
            case Released():
                self._held(fact)
                self._left(fact)
            case Perhaps() if fact.ttl_ms is None:
                self._left(fact)
            case Overwritten() | Deleted():
                self._void(fact.lock)
            case Absent() if not fact.token and not fact.swept:  # removed: what is added under its id is another job
                self._void(fact.lock)
            case Bypassed():
                self._void(fact.lock)
                self._bypassed.add(fact.lock)
            case Wiped():
                hit = [q for q in self._of_queue if fact.db in {None, q.db} and q.prefix.startswith(fact.prefix)]
                for queue in hit:
                    self._forget(queue)
            case PerhapsGranted():
                self._forget(fact.queue)
            case Blinded():
                for queue in self._of_queue:
                    self._forget(queue)
            case Sighted():
                self._pools.hang_up(fact.place.conn)
            case _:
                pass

    def spoke(self, intent: AnyIntent) -> None:
        """A call goes on that names a token: a use of it, in the acquisition that was its last."""
        if not isinstance(intent, (Renew, Release)) or intent.token in NO_TOKENS:
            return
        claim, conn = self._by_lock.get(intent.lock), intent.place.conn
        if claim is None:
            self._keep(intent.lock, Claim(intent.queue, Acquisition(intent.token, conn, None, seen=False), [], []))
            return
        acquired = [*claim.past, *((each.token, each.conn) for each in (*claim.former, claim.last))]
        takers = [taker for token, taker in acquired if token == intent.token]
        if takers and (claim.last.token == intent.token or conn not in takers) and takers[-1] != conn:
            self._pools.shared(intent.token, takers[-1], conn)

    def _granted(self, fact: Granted) -> None:
        taken, claim = Acquisition(fact.token, fact.place.conn, fact.window), self._drop(fact.lock)
        self._bypassed.discard(fact.lock)
        former: list[Acquisition] = []
        past: list[tuple[bytes, int]] = []
        if claim is not None and (last := claim.last).window is not None:
            # Where it is open which came first, who holds it is open, too: then only this one is known of.
            if last.window.closed >= fact.window.opened:
                self._pools.unsure(last.token)
                self._pools.unsure(fact.token)
            else:
                lost = claim.former if last.left else [*claim.former, last]
                former = [a for a in lost if not _is_of(a, taken)][-FORMER_MAX:]
        if claim is not None:
            over = ((a.token, a.conn) for a in (*claim.former, claim.last) if a not in former)
            past = [*claim.past, *over][-FORMER_MAX:]
        self._keep(fact.lock, Claim(fact.queue, taken, former, past))

    def _held(self, fact: LockFact) -> None:
        """A token held a job. Where it was not given it here, its process speaks through another sidecar, too."""
        claim, token = self._by_lock.get(fact.lock), fact.token
        if token in NO_TOKENS:
            return
        if claim is None or not any(each.seen and each.token == token for each in (claim.last, *claim.former)):
            self._pools.elsewhere(token, fact.place.conn)

    def _left(self, fact: LockFact) -> None:
        """A token gave the job back, or may have: as the holder, or in an order in which answers were not read."""
        claim = self._by_lock.get(fact.lock)
        if claim is None:
            return
        ours, token = claim.last.token == fact.token, fact.token
        claim.last.left = claim.last.left or ours
        claim.former = [a for a in claim.former if a.token != token or (ours and a.conn != fact.place.conn)]

    def _keep(self, lock: Lock, claim: Claim) -> None:
        self._by_lock[lock] = claim
        self._of_queue.setdefault(claim.queue, set()).add(lock)
        if len(self._by_lock) > self._locks_max:
            self._drop(next(iter(self._by_lock)))

    def _drop(self, lock: Lock) -> Claim | None:
        claim = self._by_lock.pop(lock, None)
        if claim is not None:
            locks = self._of_queue[claim.queue]
            locks.discard(lock)
            if not locks:
                del self._of_queue[claim.queue]
        return claim

    def _forget(self, queue: Queue) -> None:
        for lock in self._of_queue.get(queue, ()):
            self._void(lock)

    def _void(self, lock: Lock) -> None:
        """Nothing rests on what is known of it; only who was given it here is kept."""
        claim = self._by_lock.get(lock)
        if claim is not None:
            claim.former.clear()
            claim.last.window = None

    # ---------------------------------------------------------------- questions

    def is_stale(self, lock: Lock, token: bytes, conn: int) -> bool:
        """Whether a connection took this job with this token, and another connection took it since with the same one:
        it speaks for what it has lost, and Redis cannot tell."""
        claim = self._lost_by(lock, conn)
        if claim is None or claim.last.token != token or token in NO_TOKENS:
            return False
        return any(former.token == token and former.conn == conn for former in claim.former)

    def holder_since(self, lock: Lock, conn: int) -> Acquisition | None:
        """The last acquisition of a job that a connection took before and lost to it: by another connection, and by
        another worker. None: it never had it, has it, or who had what is not certain."""
        claim = self._lost_by(lock, conn)
        if claim is None:
            return None
        had = [former for former in claim.former if former.conn == conn]
        if not had or any(self._pools.has_token(former.token) for former in had):
            return None
        holder = worker_of(claim.last.token)
        return None if any(worker_of(former.token) == holder for former in had) else claim.last

    def was_bypassed(self, lock: Lock) -> bool:
        """Whether its job was moved with the token "0" since it was given out: the lock is nobody's work any more."""
        return lock in self._bypassed

    def _lost_by(self, lock: Lock, conn: int) -> Claim | None:
        """The claim on a lock whose last acquisition is another speaker's than this connection's."""
        claim, pools = self._by_lock.get(lock), self._pools
        if claim is None or claim.last.conn == conn or pools.has_token(claim.last.token):
            return None
        return None if pools.has_conn(conn) or pools.has_conn(claim.last.conn) else claim


def _is_of(earlier: Acquisition, later: Acquisition) -> bool:
    """Whether it is certainly the same worker's: who takes a job again makes good what it lost before."""
    if earlier.conn == later.conn:
        return True
    return earlier.token != later.token and worker_of(earlier.token) == worker_of(later.token)


def worker_of(token: bytes) -> bytes:
    """What of a token is its worker's: all of it, or what stands before the colon of `uuid:n`."""
    return token.partition(b":")[0]
