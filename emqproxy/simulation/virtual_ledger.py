"""The ledger on virtual time: answers of Windows without width go in, its verdicts come out. There is no other judge.

An instant in milliseconds becomes the same in nanoseconds, so that every bound of the ledger stands where it stands in
a real account, its slack included: that the lock has lapsed it tells once that is certain, and for which instant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from emqproxy.locks.events import (
    Absent,
    AnyFact,
    Granted,
    Lapsed,
    Lock,
    NotMine,
    Place,
    Queue,
    Released,
    Renewed,
    Window,
)
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import End, Verdict
from emqproxy.locks.worlds import MS

_QUEUE: Final = Queue(0, b"emq:simulated:")
_LOCK: Final = Lock(0, b"emq:simulated:1:lock")
_SWEEPER: Final = 0
"""The connection that sweeps; worker n speaks on connection n."""
_ENDED_BY_TIME: Final = frozenset({End.LAPSED, End.REAPED})


class VirtualLedger:
    """One job's lock, as a ledger sees it that sees everything."""

    def __init__(self) -> None:
        self._ledger = LockLedger(sole_path=True)
        self._requests = 0
        self.lapses_ms: dict[bytes, int] = {}
        """By token: when its lock ended for want of a renewal."""
        self.ends: dict[bytes, End] = {}
        """By token: how its attempt ended."""

    def granted(self, worker: int, token: bytes, ttl_ms: int, at_ms: int) -> Verdict:
        """A pickup."""
        return self._observe(Granted(self._place(worker), _at(at_ms), _LOCK, _QUEUE, token, ttl_ms))

    def renewed(self, worker: int, token: bytes, ttl_ms: int, at_ms: int, *, held: bool) -> Verdict:
        """A renewal's answer."""
        place, window = self._place(worker), _at(at_ms)
        if held:
            return self._observe(Renewed(place, window, _LOCK, _QUEUE, token, ttl_ms))
        return self._observe(NotMine(place, window, _LOCK, _QUEUE, token, renewal=True, ttl_ms=ttl_ms))

    def swept(self, at_ms: int) -> Verdict:
        """A sweep named the job."""
        return self._observe(Absent(self._place(_SWEEPER), _at(at_ms), _LOCK, _QUEUE, b"", swept=True))

    def released(self, worker: int, token: bytes, at_ms: int) -> Verdict:
        """A finish that was accepted."""
        return self._observe(Released(self._place(worker), _at(at_ms), _LOCK, _QUEUE, token))

    def tick(self, now_ms: int) -> None:
        """Time has come so far, and nothing else happened."""
        self._tick(now_ms * MS)

    def _place(self, conn: int) -> Place:
        self._requests += 1
        return Place(conn, self._requests)

    def _observe(self, fact: AnyFact) -> Verdict:
        self._tick(fact.window.closed)
        verdicts = self._ledger.observe(fact)
        self._note(verdicts)
        return next(verdict for verdict in verdicts if verdict.fact is fact)

    def _tick(self, now: int) -> None:
        while (due := self._ledger.next_deadline()) is not None and due <= now:
            self._note(self._ledger.tick(due))

    def _note(self, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            if isinstance(verdict.fact, Lapsed):
                self._lapsed(verdict.fact.token, verdict.fact.window.opened)
            for attempt in verdict.over:
                if attempt.end is None:
                    continue
                self.ends[attempt.token] = attempt.end
                if attempt.end in _ENDED_BY_TIME:  # heard of before it could be told as a lapse
                    self._lapsed(attempt.token, attempt.proved.opened + attempt.ttl_ms * MS)

    def _lapsed(self, token: bytes, instant: int) -> None:
        self.lapses_ms.setdefault(token, instant // MS)


def _at(at_ms: int) -> Window:
    return Window(at_ms * MS, at_ms * MS)
