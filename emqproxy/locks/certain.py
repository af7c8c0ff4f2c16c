"""What is certain of locks at an instant, whatever is still out: what a refusal may rest on. Reads only.

Stricter than a finding, which only has to be true of what has happened: here nothing that was asked and not answered
may change it, no order is taken because everybody keeps to the scripts in it, no connection may be unseen, and the
holder must still be connected. For where clients may reach Redis another way, one who left here may have given the lock
back elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from emqproxy.locks.account import Account
from emqproxy.locks.accounts import Accounts
from emqproxy.locks.events import Instant, Lock, Overwrite, Queue, Release, Renew, Take, Wipe
from emqproxy.locks.flights import Flight, Flights
from emqproxy.locks.worlds import MS, LeaseState

ACCOUNTS_MAX: Final = 100_000
"""So many are looked at for one that is held."""


class Certain:
    """Of one ledger's accounts and flights. `blind`: the connections whose calls are unseen."""

    def __init__(self, accounts: Accounts, flights: Flights, blind: AbstractSet[int]) -> None:
        self._accounts, self._flights, self._blind = accounts, flights, blind

    def holder(self, lock: Lock, now: Instant) -> bytes | None:
        """The token that holds a lock now, in whatever order what is out may run; None where that is not certain."""
        account = self._accounts.get(lock)
        if account is None or self._blind or not _lives(account, now):
            return None
        holder = account.ends[0].holder
        for flight in self._flights.over(account.lock, account.queue):
            if _may_end(flight, holder, now):
                return None
        return holder

    def held_among(self, queue: Queue | None, dbs: Iterable[int] | None, now: Instant) -> Lock | None:
        """A lock that is certainly held: of a queue, or of these databases (None: of any); None where there is none."""
        wanted = None if dbs is None else frozenset(dbs)
        for count, account in enumerate(self._accounts):
            if count >= ACCOUNTS_MAX:
                break
            lock = account.lock
            fits = account.queue == queue if queue is not None else wanted is None or lock.db in wanted
            if fits and _lives(account, now) and self.holder(lock, now) is not None:
                return lock
        return None

    def may_take(self, queue: Queue, token: bytes | None, conn: int) -> bool:
        """Whether a pickup is out on a queue that may give any job of it to this token, or over this connection."""
        takes = (intent for intent in self._flights.of_queue(queue) if isinstance(intent, Take))
        return any(intent.anything or intent.token == token or intent.place.conn == conn for intent in takes)


def _may_end(flight: Flight, holder: bytes | None, now: Instant) -> bool:
    """Whether what is out may have ended the lock by now: a renewal by the holder does where its time is short."""
    intent = flight.intent
    match intent:
        case Release() | Overwrite() | Wipe():
            return True
        case Take():
            return intent.anything
        case Renew():
            return intent.token == holder and (intent.ttl_ms is None or flight.opened + intent.ttl_ms * MS <= now)
        case _:
            return False


def _lives(account: Account, now: Instant) -> bool:
    """Whether the one world that can be true has a holder, whose time has not come and who has not hung up."""
    if len(account.ends) != 1 or account.pending or account.mixed:
        return False
    world = account.ends[0]
    if world.holder is None or world.state(now) is not LeaseState.HELD:
        return False
    telling = account.story.open.get(world.holder)
    return telling is not None and not telling.deserted and not telling.over
