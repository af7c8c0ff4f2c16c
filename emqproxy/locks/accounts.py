"""Which accounts there are: by lock, by the connection that spoke for them last, and room for so many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from emqproxy.locks.account import Account
from emqproxy.locks.events import Lock, Queue, Wiped
from emqproxy.locks.story import Story
from emqproxy.locks.verdicts import Attempt

EVICT_LOOK: Final = 16
"""How many of the oldest accounts are looked at for one that has ended."""


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

    def get(self, lock: Lock) -> Account | None:
        """The account of a lock, if there is one."""
        return self._by_lock.get(lock)

    def open(self, lock: Lock, queue: Queue) -> tuple[Account, Account | None]:
        """The account of a lock; and one that had to be forgotten to make room for it."""
        account, evicted = self._by_lock.get(lock), None
        if account is None:
            if len(self._by_lock) >= self._locks_max:
                evicted = self._oldest()
                self.drop(evicted)
                self.evicted += 1
            account = self._by_lock[lock] = Account(lock, queue, Story(lock, queue))
        return account, evicted

    def drop(self, account: Account) -> None:
        """Forgets it."""
        self.let_go(telling.attempt for telling in account.story.open.values())
        del self._by_lock[account.lock]

    def hit_by(self, wiped: Wiped) -> list[Account]:
        """Those that a wipe reaches."""
        if wiped.lock is not None:
            account = self._by_lock.get(wiped.lock)
            return [] if account is None else [account]
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
        """After facts: which connections speak for it now."""
        for telling in account.story.open.values():
            self._of_conn.setdefault(telling.attempt.conn, {})[account.lock] = None

    def let_go(self, attempts: Iterable[Attempt]) -> None:
        """Attempts that are over: nobody speaks for them."""
        for attempt in attempts:
            locks = self._of_conn.get(attempt.conn)
            if locks is not None:
                locks.pop(attempt.lock, None)
                if not locks:
                    del self._of_conn[attempt.conn]

    def hang_up(self, conn: int) -> None:
        """The connection is gone."""
        self._of_conn.pop(conn, None)

    def _oldest(self) -> Account:
        """One of the oldest that has ended, else the oldest."""
        oldest = [account for account, _ in zip(self._by_lock.values(), range(EVICT_LOOK), strict=False)]
        return next((a for a in oldest if not a.story.open and not a.pending), oldest[0])
