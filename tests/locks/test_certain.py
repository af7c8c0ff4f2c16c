"""What is certain of a lock at an instant, whatever is out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.locks.events import (
    AnyIntent,
    Blinded,
    Granted,
    Lock,
    Overwrite,
    Place,
    Queue,
    Release,
    Renew,
    Sighted,
    Take,
    Wipe,
)
from emqproxy.locks.ledger import LockLedger
from tests.locks.history import JOB, MS, QUEUE, TTL, History, job, span

MAILS = Queue(0, b"emq:mails:")


def holder(history: History, at_ms: int = 500, lock: Lock = JOB) -> bytes | None:
    return history.ledger.certain.holder(lock, at_ms * MS)


def held() -> History:
    """A holds the job over connection 1 since 100 ms."""
    history = History()
    history.do(100, "grant")
    return history


def test_a_grant_and_a_renewal_are_certain_until_their_time_has_come() -> None:
    history = held()
    assert holder(history) == b"A"
    assert holder(history, 100 + TTL - 1) == b"A"
    assert holder(history, 100 + TTL) is None
    history.do(5000, "renewed")
    assert holder(history, 5000 + TTL - 1) == b"A"
    assert holder(history, lock=job(7)) is None


@pytest.mark.parametrize("kind", ["released", "swept", "deleted", "overwritten", "removed", "released?", "refused"])
def test_after_what_ended_it_or_may_have_nobody_is(kind: str) -> None:
    history = held()
    history.do(200, kind)
    assert holder(history) is None


@pytest.mark.parametrize("kind", ["-1", "bypassed", "renewed?"])
def test_what_leaves_it_leaves_it_certain_or_unsure(kind: str) -> None:
    history = held()
    history.do(200, kind, token=b"0" if kind == "bypassed" else b"A")
    assert holder(history) == (None if kind == "renewed?" else b"A")


def test_the_last_of_two_that_took_it() -> None:
    history = held()
    history.do(200, "grant", b"B", conn=2)
    assert holder(history) == b"B"


def test_of_overlapping_grants_it_is_nobody() -> None:
    history = History()
    history.ask("a", 100, "grant", b"A", conn=1)
    history.ask("b", 110, "grant", b"B", conn=2)
    history.answer("a", 120, "grant")
    history.answer("b", 130, "grant")
    assert holder(history) is None


def test_an_order_that_only_honesty_excludes_is_not_excluded() -> None:
    """One token takes the job over two connections, as it can where somebody moved it without its lock; the first one's
    finish and the second one's grant overlap. Honest workers finish first."""
    history = History()
    history.do(100, "grant", b"T", conn=1)
    history.ask("again", 200, "grant", b"T", conn=2)
    history.ask("finish", 210, "released", b"T", conn=1)
    history.answer("again", 220, "grant")
    history.answer("finish", 230, "released")
    assert history.ledger._accounts.get(JOB).sure_holder == b"T"  # type: ignore[union-attr]
    assert holder(history) is None
    history.do(300, "renewed", b"T", conn=2)
    assert holder(history) == b"T"


OUT: dict[str, Callable[[Place], AnyIntent]] = {
    "release by another": lambda at: Release(at, QUEUE, JOB, b"B"),
    "release by the wildcard": lambda at: Release(at, QUEUE, JOB, b"0"),
    "hand": lambda at: Overwrite(at, QUEUE, JOB, b""),
    "obliterate": lambda at: Wipe(at, QUEUE),
    "flush": lambda at: Wipe(at, Queue(0, b"")),
    "unread": lambda at: Take(at, QUEUE, b"", None, anything=True),
    "short renewal": lambda at: Renew(at, QUEUE, JOB, b"A", 50),
    "renewal of unknown time": lambda at: Renew(at, QUEUE, JOB, b"A", None),
}
BESIDE: dict[str, Callable[[Place], AnyIntent]] = {
    "of another lock": lambda at: Release(at, QUEUE, job(7), b"A"),
    "of another queue": lambda at: Wipe(at, MAILS),
    "pickup": lambda at: Take(at, QUEUE, b"B", 1000),
    "renewal": lambda at: Renew(at, QUEUE, JOB, b"A", TTL),
    "another's short renewal": lambda at: Renew(at, QUEUE, JOB, b"B", 50),
}


@pytest.mark.parametrize("conn", [1, 2])
@pytest.mark.parametrize("name", OUT)
def test_nobody_while_something_is_out_that_may_end_it_from_anyone(name: str, conn: int) -> None:
    history, intent = held(), OUT[name](Place(conn, 77))
    history.ledger.asked(intent, 200 * MS)
    assert holder(history) is None
    history.ledger.abandoned(intent, 300 * MS)
    assert holder(history) == b"A"


@pytest.mark.parametrize("name", BESIDE)
def test_what_bears_on_nothing_or_cannot_end_it_changes_nothing(name: str) -> None:
    history = held()
    history.ledger.asked(BESIDE[name](Place(2, 77)), 200 * MS)
    assert holder(history) == b"A"


def test_a_short_renewal_ends_it_only_when_its_time_has_come() -> None:
    history = held()
    history.ledger.asked(Renew(Place(1, 77), QUEUE, JOB, b"A", 50), 200 * MS)
    assert holder(history, 249) == b"A"
    assert holder(history, 250) is None


def test_nobody_while_a_connection_is_unseen() -> None:
    history = held()
    history.ledger.observe(Blinded(Place(9, 0), span(200)))
    assert holder(history) is None
    history.ledger.observe(Sighted(Place(9, 0), span(300)))
    assert holder(history) == b"A"


def test_nobody_when_the_one_that_spoke_for_it_last_has_hung_up() -> None:
    history = held()
    history.do(200, "renewed", conn=2)
    history.close(1, 300)
    assert holder(history) == b"A"
    history.close(2, 400)
    assert holder(history) is None
    history.do(450, "renewed", conn=3)  # it has come back
    assert holder(history) == b"A"


def test_nobody_where_the_account_was_forgotten() -> None:
    history = History(locks_max=1)
    history.do(100, "grant")
    history.do(150, "grant", b"B", lock=job(7))
    assert holder(history) is None
    assert holder(history, lock=job(7)) == b"B"


def test_a_lapse_by_the_clock_proves_no_other_holder() -> None:
    history = held()
    history.tick(100 + 2 * TTL)
    assert history.lapses()
    assert holder(history, 100 + 2 * TTL) is None


def test_one_that_is_held_of_a_queue_of_databases_of_any() -> None:
    history = held()
    certain, far = history.ledger.certain, Lock(3, b"emq:mails:9:lock")
    history.ledger.observe(Granted(Place(2, 1), span(120), far, Queue(3, MAILS.prefix), b"B", TTL))
    now = 500 * MS
    assert certain.held_among(QUEUE, None, now) == JOB
    assert certain.held_among(MAILS, None, now) is None
    assert certain.held_among(None, (3,), now) == far
    assert certain.held_among(None, (0,), now) == JOB
    assert certain.held_among(None, (1, 2), now) is None
    assert certain.held_among(None, None, now) in {JOB, far}
    assert certain.held_among(None, None, (TTL + 200) * MS) is None


def test_who_may_take_any_job_of_the_queue() -> None:
    ledger = LockLedger()
    certain = ledger.certain
    assert not certain.may_take(QUEUE, b"A", 1)
    ledger.asked(Take(Place(1, 1), QUEUE, b"A", 1000), 0)
    assert certain.may_take(QUEUE, b"A", 9)
    assert certain.may_take(QUEUE, b"B", 1)
    assert certain.may_take(QUEUE, None, 1)
    assert not certain.may_take(QUEUE, b"B", 2)
    assert not certain.may_take(QUEUE, None, 2)
    assert not certain.may_take(MAILS, b"A", 1)
    ledger.asked(Take(Place(2, 1), MAILS, b"", None, anything=True), 0)
    assert certain.may_take(MAILS, None, 9)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("grant", "renewed", "released", "refused", "swept", "-2", "-6", "renewed?", "released?")),
        st.sampled_from((b"A", b"B")),
        st.integers(1, 2),
        st.integers(1, 4000),
        st.integers(0, 30),
    ),
    max_size=12,
)


@given(STEPS)
def test_whoever_is_certain_was_given_it_last_or_renewed_it_last(
    steps: list[tuple[str, bytes, int, int, int]],
) -> None:
    """Whatever is told, a certain holder is the last one of whom a proof of holding was read, in its time."""
    history, now_ms, last = History(), 0, (b"", 0)
    for kind, token, conn, wait_ms, took_ms in steps:
        history.do(now_ms, kind, token, conn, took=took_ms)
        if kind in {"grant", "renewed"}:
            last = (token, now_ms)
        elif kind in {"released", "swept", "-2"} or (kind != "renewed?" and token == last[0]):
            last = (b"", 0)
        now_ms += took_ms + 1
        found = holder(history, now_ms)
        assert found is None or (found == last[0] and now_ms < last[1] + TTL), (found, last, now_ms)
        now_ms += wait_ms
