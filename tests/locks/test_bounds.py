"""What ends many leases at once, what is forgotten, and what stays bounded; and the question that changes nothing."""

from __future__ import annotations

import enum
from collections import deque
from typing import Any

import pytest

from emqproxy.locks.account import RETENTION_NS_MIN
from emqproxy.locks.deadlines import STALE_MAX
from emqproxy.locks.events import Place, Queue, Release, Renew, Sweep, Take, Write
from emqproxy.locks.ledger import TICK_MAX
from emqproxy.locks.verdicts import End, Finding
from tests.locks.history import GONE, JOB, MS, QUEUE, TTL, History, job, span

RETENTION = 2 * RETENTION_NS_MIN // MS
A, B = b"A", b"B"

# ---------------------------------------------------------------- a connection closes


def test_closed_before_the_deadline_the_attempt_is_over_when_it_lapses() -> None:
    history = History()
    history.do(0, "grant")
    (closed,) = history.close(1, 5_000)
    assert closed.over == ()
    (lapse,) = history.tick(GONE)
    assert [(a.end, a.lapsed, a.ended) for a in lapse.over] == [(End.LAPSED, True, span(TTL, GONE))]
    history.tick(10 * RETENTION)
    assert history.ends() == ["A0 lapsed"]


@pytest.mark.parametrize("ticked", [True, False])
def test_closed_after_the_deadline_the_attempt_is_over_at_once(ticked: bool) -> None:
    history = History()
    history.do(0, "grant")
    if ticked:
        assert history.tick(GONE)[0].over == ()
    *_, closed = history.close(1, 12_000)
    assert [(a.end, a.lapsed) for a in closed.over] == [(End.LAPSED, True)]
    assert len(history.lapses()) == 1


def test_an_attempt_that_another_connection_speaks_for_goes_on() -> None:
    history = History()
    history.do(0, "grant", conn=1)
    history.do(5_000, "renewed", conn=2)
    assert history.close(1, 6_000)[0].over == ()
    assert history.tick(5_000 + GONE)[0].over == ()
    assert [a.end for a in history.close(2, 20_000)[0].over] == [End.LAPSED]


def test_a_closed_connections_job_is_spoken_for_again() -> None:
    history = History()
    history.do(0, "grant", conn=1)
    history.close(1, 1_000)
    history.do(5_000, "renewed", conn=2)
    history.do(9_000, "released", conn=2)
    history.tick(10 * RETENTION)
    assert history.ends() == ["A0 released"]


def test_the_taker_over_of_a_told_attempt_ends_it_not_again() -> None:
    history = History()
    history.do(0, "grant")
    history.close(1, 1_000)
    history.do(20_000, "grant", B, conn=2)
    assert history.ends() == ["A0 lapsed"]
    assert history.one(20_100, "-6", A, conn=3).finding is Finding.STRAGGLER


# ---------------------------------------------------------------- wiped


@pytest.mark.parametrize(
    ("scope", "wiped"),
    [
        ({"db": None}, {0, 1, 2}),
        ({"db": 0}, {0, 1}),
        ({"db": 0, "prefix": b"emq:orders:"}, {0}),
        ({"db": 1, "prefix": b"emq:orders:"}, {2}),
        ({"db": 3}, set()),
    ],
)
def test_what_a_wipe_reaches(scope: dict[str, Any], wiped: set[int]) -> None:
    locks = [JOB, JOB._replace(key=b"emq:mails:1:lock"), JOB._replace(db=1)]
    history = History()
    for lock in locks:
        history.do(0, "grant", lock=lock)
    verdict = history.wipe(100, **scope)
    assert {locks.index(a.lock) for a in verdict.over} == wiped
    assert {a.end for a in verdict.over} <= {End.WIPED}
    assert len(history.ledger.open_attempts()) == 3 - len(wiped)


def test_what_was_wiped_lapses_not_and_its_holder_is_no_straggler() -> None:
    history = History()
    history.do(0, "grant")
    history.wipe(100, db=0)
    assert history.tick(GONE) == []
    assert history.one(12_000, "-2").finding is Finding.UNWITNESSED
    history.do(13_000, "grant", B)
    assert history.said[-1].finding is Finding.SOUND


def test_a_del_that_answered_one_leaves_it_free() -> None:
    history = History()
    history.do(0, "grant")
    history.do(100, "deleted", b"")
    assert history.one(200, "swept", b"").finding is Finding.SOUND


# ---------------------------------------------------------------- retention and room


def test_a_finished_lease_is_forgotten_after_its_retention() -> None:
    history = History()
    history.do(0, "grant")
    history.do(1_000, "released")
    history.tick(1_000 + RETENTION - 1)
    assert len(history.ledger) == 1
    assert history.tick(1_000 + RETENTION) == []
    assert len(history.ledger) == 0
    assert history.ledger.next_deadline() is None


def test_a_lapsed_lease_that_nobody_spoke_of_again_is_over_when_forgotten() -> None:
    history = History()
    history.do(0, "grant")
    history.tick(GONE + RETENTION - 1)
    assert (len(history.ledger), history.ends()) == (1, [])
    history.tick(GONE + RETENTION)
    assert (len(history.ledger), history.ends()) == (0, ["A0 lapsed"])


def test_one_late_tick_does_all_that_was_due() -> None:
    history = History()
    history.do(0, "grant")
    history.tick(100 * RETENTION)
    assert (len(history.lapses()), history.ends(), len(history.ledger)) == (1, ["A0 lapsed"], 0)


@pytest.mark.parametrize("start_ms", [0, 10**9])
def test_a_lease_of_which_only_a_refusal_was_seen_is_kept_as_long(start_ms: int) -> None:
    history = History()
    history.do(start_ms, "refused")
    history.tick(start_ms + RETENTION - 1)
    assert len(history.ledger) == 1
    history.tick(start_ms + RETENTION)
    assert len(history.ledger) == 0


def test_a_living_lease_is_never_forgotten() -> None:
    history = History()
    history.do(0, "grant", ttl_ms=86_400_000)
    history.tick(86_400_000)
    assert [a.token for a in history.ledger.open_attempts()] == [A]


def test_room_is_made_by_the_oldest_that_has_ended() -> None:
    history = History(locks_max=3)
    for number in range(3):
        history.do(number, "grant", lock=job(number))
    history.do(5, "released", lock=job(1))
    history.do(6, "grant", lock=job(3))
    assert (len(history.ledger), history.ledger.evicted) == (3, 1)
    assert [a.lock for a in history.ledger.open_attempts()] == [job(0), job(2), job(3)]
    history.do(7, "grant", lock=job(4))
    assert [a.lock for a in history.ledger.open_attempts()] == [job(2), job(3), job(4)]
    assert len(history.tick(20_000)) == 3


def test_an_evicted_lease_may_have_requests_out() -> None:
    history = History(locks_max=1)
    history.do(0, "grant")
    history.ask("r", 1, "renewed")
    history.ask("s", 1, "renewed")
    history.do(2, "grant", B, lock=job(7))
    assert history.abandon("s", 3) == []
    assert history.answer("r", 4, "renewed")[0].finding is Finding.UNWITNESSED


def test_renewals_do_no_heap_work() -> None:
    history = History()
    history.do(0, "grant")
    for number in range(1, 10_001):
        history.do(number, "renewed", ttl_ms=TTL if number % 2 else 2_000)
    assert len(history.ledger._deadlines) < 10


def test_ever_shorter_renewals_and_ever_new_grants_do_not_fill_the_heap() -> None:
    history = History()
    for number in range(6_000):
        history.do(number, "grant" if number % 3 else "renewed", ttl_ms=60_000 - 5 * number, conn=number % 7)
    assert len(history.ledger._deadlines) <= STALE_MAX + 2
    assert sum(map(len, history.ledger._accounts._of_conn.values())) <= 1


def test_a_finished_job_leaves_nothing_with_its_connection() -> None:
    history = History()
    for number in range(50):
        history.do(number, "grant", lock=job(number), conn=number % 5)
        history.do(number, "released", lock=job(number), conn=number % 5)
    for conn in range(5):
        history.close(conn, 100)
    assert not history.ledger._accounts._of_conn
    assert not history.ledger.waiting
    assert len(history.ledger._flights) == 0


def test_a_tick_takes_so_many_and_the_rest_is_due_at_once() -> None:
    history = History()
    for number in range(TICK_MAX + 10):
        history.do(0, "grant", lock=job(number))
    assert len(history.tick(20_000)) == TICK_MAX
    deadline = history.ledger.next_deadline()
    assert deadline is not None
    assert deadline <= 20_000 * MS
    assert len(history.tick(20_000)) == 10


def test_a_fact_of_a_lock_whose_turn_has_not_come_is_judged_the_same() -> None:
    history = History()
    for number in range(TICK_MAX + 10):
        history.do(0, "grant", lock=job(number))
    last = job(TICK_MAX + 9)
    said = history.do(20_000, "refused", lock=last)
    about = [v.finding for v in said if getattr(v.fact, "lock", None) == last]
    assert about == [Finding.SOUND, Finding.STRAGGLER]


# ---------------------------------------------------------------- judge


INTENTS = [
    (Take(Place(1, 900), QUEUE, B, TTL), None),
    (Sweep(Place(1, 901), QUEUE), None),
    (Renew(Place(1, 902), QUEUE, JOB, A, TTL), Finding.SOUND),
    (Release(Place(1, 903), QUEUE, JOB, A), Finding.SOUND),
    (Write(Place(1, 904), QUEUE, JOB, B), Finding.FOREIGN),
    (Release(Place(1, 905), QUEUE, job(7), A), Finding.UNWITNESSED),
    (Release(Place(1, 906), Queue(5, b"x:"), job(8), A), Finding.UNWITNESSED),
]


@pytest.mark.parametrize(("intent", "finding"), INTENTS)
@pytest.mark.parametrize("now_ms", [1_000, 50_000])
def test_judge_changes_nothing(intent: Any, finding: Finding | None, now_ms: int) -> None:
    history = History()
    history.do(0, "grant")
    history.do(0, "refused", A, lock=job(7))
    before = _all_of(history.ledger)
    verdict = history.ledger.judge(intent, now_ms * MS)
    assert _all_of(history.ledger) == before
    if now_ms == 1_000:
        assert verdict.finding is finding
        assert verdict.over == ()


def _all_of(thing: Any) -> Any:
    """Everything it holds, down to plain values."""
    if isinstance(thing, dict):
        return [(key, _all_of(value)) for key, value in thing.items()]
    if isinstance(thing, (list, tuple, deque)):
        return [_all_of(each) for each in thing]
    if isinstance(thing, (int, float, bytes, str, set, frozenset, enum.Enum)) or thing is None:
        return repr(thing)
    names = getattr(type(thing), "__struct_fields__", None) or vars(thing)
    return [(name, _all_of(getattr(thing, name))) for name in names]
