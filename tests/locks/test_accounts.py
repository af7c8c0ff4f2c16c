"""Accounts by lock and by who speaks for them, and room for so many."""

from __future__ import annotations

from emqproxy.locks.account import Account
from emqproxy.locks.accounts import EVICT_LOOK, Accounts
from emqproxy.locks.events import Granted, Lock, Place, Renewed, Wiped
from emqproxy.locks.verdicts import End
from tests.locks.history import QUEUE, TTL, job, span


def opened(accounts: Accounts, lock: Lock) -> Account:
    return accounts.open(lock, QUEUE)[0]


def granted(accounts: Accounts, lock: Lock, conn: int = 1) -> Account:
    account = opened(accounts, lock)
    account.story.begin(Granted(Place(conn, 1), span(0), lock, QUEUE, b"A", TTL), partial=False)
    accounts.note_speakers(account)
    return account


def test_one_account_a_lock() -> None:
    accounts = Accounts(10)
    first = opened(accounts, job(1))
    assert opened(accounts, job(1)) is accounts.get(job(1)) is first
    assert (len(accounts), list(accounts), accounts.get(job(2))) == (1, [first], None)


def test_room_is_made_by_one_that_has_ended_else_by_the_oldest() -> None:
    accounts = Accounts(3)
    granted(accounts, job(1))
    ended = opened(accounts, job(2))
    granted(accounts, job(3))
    assert accounts.open(job(4), QUEUE)[1] is ended
    opened(accounts, job(4)).story.begin(Granted(Place(1, 1), span(0), job(4), QUEUE, b"A", TTL), partial=False)
    evicted = accounts.open(job(5), QUEUE)[1]
    assert evicted is not None
    assert (evicted.lock, accounts.evicted, len(accounts)) == (job(1), 2, 3)


def test_only_so_many_are_looked_at_for_room() -> None:
    accounts = Accounts(EVICT_LOOK + 1)
    for number in range(EVICT_LOOK):
        granted(accounts, job(number))
    opened(accounts, job(99))
    evicted = accounts.open(job(100), QUEUE)[1]
    assert evicted is not None
    assert evicted.lock == job(0)


def test_who_speaks_for_what_in_the_order_in_which_they_began() -> None:
    accounts = Accounts(10)
    for number in (3, 1, 2):
        granted(accounts, job(number), conn=number % 2)
    assert [account.lock for account in accounts.spoken_for_by(1)] == [job(3), job(1)]
    (second,) = accounts.spoken_for_by(0)
    second.story.close(b"A", End.RELEASED, span(1))
    accounts.note_speakers(second)
    assert accounts.spoken_for_by(0) == []
    accounts.hang_up(1)
    accounts.hang_up(7)
    assert accounts.spoken_for_by(1) == []


def test_it_is_spoken_for_by_the_last_that_spoke_and_by_no_other() -> None:
    accounts = Accounts(10)
    account = granted(accounts, job(1), conn=1)
    account.story.renewed(Renewed(Place(2, 1), span(5), job(1), QUEUE, b"A", TTL), None)
    accounts.note_speakers(account)
    assert (accounts.spoken_for_by(1), accounts.spoken_for_by(2)) == ([], [account])


def test_a_connection_that_is_gone_speaks_for_nothing_again() -> None:
    accounts = Accounts(10)
    account = granted(accounts, job(1), conn=1)
    accounts.hang_up(1)
    accounts.note_speakers(account)
    assert accounts.spoken_for_by(1) == []


def test_dropped_it_speaks_for_nothing() -> None:
    accounts = Accounts(10)
    accounts.drop(granted(accounts, job(1)))
    assert (len(accounts), accounts.spoken_for_by(1)) == (0, [])


def test_what_a_wipe_reaches() -> None:
    accounts = Accounts(10)
    for lock in (job(1), Lock(0, b"emq:mails:1:lock"), Lock(1, job(1).key)):
        opened(accounts, lock)

    def hit(db: int | None, prefix: bytes = b"") -> list[Lock]:
        return [account.lock for account in accounts.hit_by(Wiped(Place(9, 0), span(1), db, prefix))]

    assert len(hit(None)) == 3
    assert len(hit(0)) == 2
    assert hit(0, QUEUE.prefix) == [job(1)]
    assert hit(5) == []
