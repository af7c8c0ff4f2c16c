"""What waits and what does not; how far a finding can be claimed; what makes everything unsure."""

from __future__ import annotations

from typing import Any

import pytest

from emqproxy.locks.events import AnyFact, Blinded, Granted, Nothing, PerhapsGranted, Place, Queue, Sighted, Sweep, Take
from emqproxy.locks.verdicts import End, Finding
from tests.locks.history import GONE, JOB, MS, QUEUE, TTL, History, job, span

A, B = b"A", b"B"
OTHERS = [Queue(1, QUEUE.prefix), Queue(0, b"emq:mails:")]

# ---------------------------------------------------------------- what waits


@pytest.mark.parametrize(("out", "token"), [("grant", b"C"), ("swept", b""), ("released", A), ("renewed", b"C")])
def test_a_finding_that_suspects_somebody_waits_for_what_may_explain_it(out: str, token: bytes) -> None:
    history = History()
    history.do(0, "grant")
    history.ask("out", 500, out, token, conn=3)
    assert history.do(1_000, "grant", B, conn=2) == []
    history.abandon("out", 1_100)
    assert history.words() == ["A Granted sound", "B Granted double"]


@pytest.mark.parametrize("queue", OTHERS)
def test_requests_of_another_queue_or_database_delay_nothing(queue: Queue) -> None:
    history = History()
    history.do(0, "grant")
    history.ledger.asked(Take(Place(3, 1), queue, b"C", TTL), 500 * MS)
    history.ledger.asked(Sweep(Place(4, 1), queue), 500 * MS)
    history.ask("another lock", 500, "renewed", A, conn=5, lock=job(7))
    assert history.one(1_000, "grant", B, conn=2).finding is Finding.DOUBLE


def test_a_request_sent_later_delays_nothing() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("first", 1_000, "grant", B, conn=2)
    history.ask("later", 1_010, "swept", b"", conn=3)
    (double,) = history.answer("first", 1_010, "grant")
    assert double.finding is Finding.DOUBLE


def test_a_finding_that_suspects_nobody_is_given_at_once() -> None:
    history = History()
    history.ask("pickup", 0, "grant", B, conn=2)
    history.ask("sweep", 0, "swept", b"", conn=3)
    for at, kind in enumerate(["-1", "grant", "renewed", "released"], 1):
        assert len(history.do(at, kind, conn=1)) == 1
    assert history.words() == [
        "A NoProof unwitnessed",
        "A Granted sound",
        "A Renewed sound on_time",
        "A Released sound",
    ]


def test_a_late_grade_waits() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("sweep", 6_900, "swept", b"", conn=3)
    assert history.do(7_000, "renewed") == []
    history.answer("sweep", 7_100, "nothing")
    assert history.words()[1:] == ["A Renewed sound late"]


def test_a_straggler_waits_for_the_pickup_that_may_have_taken_its_job_after_it_spoke() -> None:
    history = History()
    history.do(0, "grant")
    history.tick(GONE)
    history.ask("pickup", 10_100, "grant", B, conn=2)
    assert history.do(10_200, "-6", A) == []
    history.answer("pickup", 10_300, "grant")
    assert history.words()[2:] == ["B Granted sound", "A HeldByOther straggler"]


# ---------------------------------------------------------------- how far it can be claimed


@pytest.mark.parametrize(
    ("sole_path", "blind", "scope"), [(False, False, "here"), (True, False, "whole"), (True, True, "here")]
)
def test_what_others_may_have_done_past_us(sole_path: bool, blind: bool, scope: str) -> None:
    history = History(sole_path=sole_path)
    if blind:
        history.keep(history.ledger.observe(Blinded(Place(7, 0), span(0))))
    history.do(1, "grant")
    assert history.one(1_000, "grant", B).scope == scope
    assert history.one(20_000, "renewed", B).scope == scope
    history.close(7, 20_500)
    assert history.one(21_000, "grant", A).scope == ("whole" if sole_path else "here")
    assert history.one(22_000, "refused", B).scope is None  # suspects the speaker
    assert history.one(22_001, "renewed", A).scope is None


# ---------------------------------------------------------------- what makes everything unsure


def test_facts_of_a_queue_or_a_connection_have_no_finding() -> None:
    history = History()
    history.do(0, "grant")
    facts: list[AnyFact] = [
        Nothing(Place(1, 7), span(1), QUEUE),
        PerhapsGranted(Place(1, 8), span(2), QUEUE, B, TTL),
        Blinded(Place(1, 0), span(3)),
        Sighted(Place(3, 0), span(4)),
    ]
    for fact in facts:
        (verdict,) = history.ledger.observe(fact)
        assert (verdict.fact, verdict.finding, verdict.over) == (fact, None, ())
    assert len(history.ledger.open_attempts()) == 1


UNSEEN: dict[str, Any] = {
    "blinded": lambda history: history.keep(history.ledger.observe(Blinded(Place(1, 0), span(500, 600)))),
    "flushed": lambda history: history.wipe(600, db=0),
    "deleted": lambda history: history.do(450, "deleted", b"", conn=7, took=150),
    "overwritten": lambda history: history.do(450, "overwritten", b"", conn=7, took=150),
}


@pytest.mark.parametrize("unseen", UNSEEN)
def test_after_what_may_have_ended_it_unseen_a_grant_is_no_second_one(unseen: str) -> None:
    history = History()
    history.do(0, "grant")
    UNSEEN[unseen](history)
    assert history.one(1_000, "grant", B, conn=2).finding is Finding.SOUND


@pytest.mark.parametrize("unseen", UNSEEN)
def test_facts_not_yet_settled_do_not_bring_back_what_has_ended_unseen(unseen: str) -> None:
    history = History()
    history.ask("sweep", 0, "swept", b"", conn=3)
    history.do(1, "grant")
    history.do(400, "renewed")
    UNSEEN[unseen](history)
    history.answer("sweep", 700, "nothing")
    assert history.one(1_000, "grant", B, conn=2).finding is Finding.SOUND


@pytest.mark.parametrize("unseen", UNSEEN)
def test_what_was_out_meanwhile_may_have_run_before(unseen: str) -> None:
    history = History()
    history.do(0, "grant")
    history.ask("renewal", 450, "renewed")
    UNSEEN[unseen](history)
    history.answer("renewal", 650, "renewed")
    assert history.one(1_000, "grant", B, conn=2).finding is Finding.SOUND


def test_an_accusation_that_waits_is_given_up_when_something_unseen_comes_between() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("sweep", 500, "swept", b"", conn=3)
    assert history.do(1_000, "grant", B, conn=2) == []
    history.wipe(1_100, db=0)
    assert history.words()[1:] == ["B Granted doubtful"]
    assert history.ends() == ["A0 superseded", "B0 wiped"]


def test_a_failed_pickup_may_have_taken_a_job_that_had_lapsed_and_none_that_lived() -> None:
    history = History()
    history.do(0, "grant", lock=job(1))
    history.do(9_000, "grant", lock=job(2))
    history.tick(GONE)
    history.ask("pickup", 12_000, "grant", B, conn=2)
    history.answer("pickup", 12_100, "grant?")
    assert history.one(13_000, "renewed", B, conn=2, lock=job(1)).finding is Finding.SOUND
    assert history.one(13_000, "renewed", B, conn=2, lock=job(2)).finding is Finding.FOREIGN


def test_a_failed_pickup_says_nothing_of_another_queue() -> None:
    history = History()
    history.do(0, "grant")
    history.keep(history.ledger.observe(PerhapsGranted(Place(2, 1), span(12_000), OTHERS[0], B, TTL)))
    assert history.one(13_000, "renewed", B, conn=2).finding is Finding.UNWITNESSED


def test_of_two_grants_at_once_one_is_told_as_the_second() -> None:
    history = History()
    history.ask("one", 0, "grant", A, conn=1)
    history.ask("two", 0, "grant", B, conn=2)
    history.answer("one", 10, "grant")
    history.answer("two", 11, "grant")
    assert history.words() == ["A Granted sound", "B Granted double"]
    assert len(history.ledger.open_attempts()) == 2
    history.do(1_000, "renewed", A)
    history.do(2_000, "released", A)
    assert sorted(history.ends()) == ["A0 released", "B0 superseded"]


def test_another_database_is_another_lock() -> None:
    history = History()
    history.do(0, "grant")
    history.do(1, "grant", B, lock=JOB._replace(db=1))
    assert len(history.ledger) == 2
    assert history.ends() == []


def test_the_parts_of_one_sweep_wait_for_its_end() -> None:
    history = History()
    history.do(0, "grant", lock=job(1))
    history.do(0, "grant", lock=job(2))
    history.tick(GONE)
    history.do(20_000, "swept", b"", lock=job(1), took=5)
    assert history.ends() == ["A0 reaped"]
    assert [attempt.lock for attempt in history.ledger.open_attempts()] == [job(2)]
    history.ledger.observe(Granted(Place(5, 1), span(20_010, 20_011), job(1), QUEUE, B, TTL))
    assert [a.end for a in history.over()] == [End.REAPED]
