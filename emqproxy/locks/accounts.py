"""Which accounts there are: by lock, by the connection that spoke for them last, and room for so many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emqproxy.locks.account import Account
from emqproxy.locks.events import Absent, AnyLockFact, Deleted, HeldByOther, Lock, Overwritten, Queue, Wiped
from emqproxy.locks.flights import Flights
from emqproxy.locks.story import Story

EVICT_LOOK: Final = 16
"""How many of the oldest accounts are looked at for one that has ended."""

_NOBODY: Final[frozenset[int]] = frozenset()


class Accounts:
    """All accounts of a ledger."""

    def __init__(self, locks_max: int) -> None:
        self.evicted = 0
        """Forgotten for want of room."""
        self._locks_max = max(1, locks_max)
        self._by_lock: dict[Lock, Account] = {}
        self._of_conn: dict[int, dict[Lock, None]] = {}
        """Locks with an open attempt that this connection spoke for last, in that order; no empty ones."""

    def __len__(self) -> int:
        return len(self._by_lock)

    def __iter__(self) -> Iterator[Account]:
        return iter(self._by_lock.values())

    @property
    def full(self) -> bool:
        """The next account to be opened makes another one go."""
        return len(self._by_lock) >= self._locks_max

    def get(self, lock: Lock) -> Account | None:
        """The account of a lock, if there is one."""
        return self._by_lock.get(lock)

    def is_no_news(self, fact: AnyLockFact, flights: Flights) -> bool:
        """Whether it is spoken by nobody, of a lock that nobody is known to hold: a removal, a hand on a key. There may
        be millions, and they open no account; but a hand does where something out may yet show that somebody held it.
        A sweep does, too: the job has just lost its holder, who may still speak."""
        if fact.token or fact.lock in self._by_lock:
            return False
        if isinstance(fact, (Deleted, Overwritten)):
            return not flights.bearing_on(fact.lock, fact.queue, fact.window.closed)
        return isinstance(fact, HeldByOther) or (isinstance(fact, Absent) and not fact.swept)

    def open(self, lock: Lock, queue: Queue) -> tuple[Account, Account | None]:
        """The account of a lock; and one that had to be forgotten to make room for it."""
        account, evicted = self._by_lock.get(lock), None
        if account is None:
            if self.full:
                evicted = self._oldest()
                self.drop(evicted)
                self.evicted += 1
            account = self._by_lock[lock] = Account(lock, queue, Story(lock, queue))
        return account, evicted

    def drop(self, account: Account) -> None:
        """Forgets it."""
        self._set_speakers(account, _NOBODY)
        del self._by_lock[account.lock]

    def hit_by(self, wiped: Wiped) -> list[Account]:
        """Those that a wipe reaches."""
        return [
            account
            for lock, account in self._by_lock.items()
            if (wiped.db is None or lock.db == wiped.db) and lock.key.startswith(wiped.prefix)
        ]

    # ---------------------------------------------------------------- who speaks for them

    def spoken_for_by(self, conn: int) -> list[Account]:
        """Those with an open attempt that a connection spoke for last."""
        return [self._by_lock[lock] for lock in self._of_conn.get(conn, ()) if lock in self._by_lock]

    def note_speakers(self, account: Account) -> None:
        """After anything that began, moved or ended an attempt: which connections speak for it now."""
        tellings = account.story.open
        speakers = frozenset([t.attempt.conn for t in tellings.values() if not t.over]) if tellings else _NOBODY
        if speakers != account.speakers:
            self._set_speakers(account, speakers)

    def _set_speakers(self, account: Account, now: frozenset[int]) -> None:
        before = account.speakers
        account.speakers = now
        for conn in before - now:
            locks = self._of_conn.get(conn)
            if locks is not None:
                locks.pop(account.lock, None)
                if not locks:
                    del self._of_conn[conn]
        for conn in now - before:
            self._of_conn.setdefault(conn, {})[account.lock] = None

    def hang_up(self, conn: int) -> None:
        """The connection is gone."""
        self._of_conn.pop(conn, None)

    def _oldest(self) -> Account:
        """One of the oldest that has ended, else the oldest."""
        oldest = [account for account, _ in zip(self._by_lock.values(), range(EVICT_LOOK), strict=False)]
        return next((a for a in oldest if not a.story.open and not a.pending), oldest[0])
