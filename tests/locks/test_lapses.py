"""Lapses: told once, when the deadline is certainly past and nothing in flight can have moved it."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import Lapsed
from emqproxy.locks.verdicts import Finding, Grade
from tests.locks.history import GONE, MS, TTL, History, job, span


def test_a_lapse_is_told_once_at_the_deadline() -> None:
    history = History()
    history.do(0, "grant", took=100)
    assert history.ledger.next_deadline() == (100 + GONE) * MS
    assert history.tick(100 + GONE - 1) == []
    (lapse,) = history.tick(100 + GONE)
    assert isinstance(lapse.fact, Lapsed)
    assert lapse.fact.window == span(TTL, 100 + GONE)
    assert (lapse.finding, lapse.age_ms, lapse.remaining_ms) == (Finding.SOUND, GONE, TTL - GONE)
    assert lapse.attempt is not None
    assert (lapse.attempt.lapsed, lapse.attempt.end) == (True, None)
    assert history.tick(100 + GONE) == history.tick(60_000) == []


@pytest.mark.parametrize("ticks", [[], [GONE], [GONE, GONE + 1, 10_500]])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("renewed", ["A Renewed sound critical"]),
        ("released", ["A Released sound"]),
        ("refused", ["A Lapsed sound", "A NotMine doubtful unknown"]),
        ("-2", ["A Lapsed sound", "A Absent doubtful"]),
        ("-1", ["A NoProof sound", "A Lapsed sound"]),
        ("renewed?", ["A Perhaps doubtful"]),
        ("released?", ["A Perhaps doubtful", "A Lapsed sound"]),
    ],
)
def test_a_lapse_waits_for_what_was_sent_before_it(answer: str, words: list[str], ticks: list[int]) -> None:
    history = History()
    history.do(0, "grant")
    history.ask("r", 9_900, "renewed" if answer.startswith("re") else "released")
    for at in ticks:
        assert history.tick(at) == []
    history.answer("r", 11_000, answer)
    assert history.words()[1:] == words
    history.tick(11_000)
    assert history.words()[1:] == words


@pytest.mark.parametrize("ticks", [[], [GONE]])
def test_a_lapse_that_waited_for_an_abandoned_request_is_told_at_once(ticks: list[int]) -> None:
    history = History()
    history.do(0, "grant")
    history.ask("r", 9_900, "renewed")
    for at in ticks:
        history.tick(at)
    (lapse,) = history.abandon("r", 11_000)
    assert isinstance(lapse.fact, Lapsed)


def test_abandoned_before_the_deadline_it_is_told_at_the_deadline() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("r", 5_000, "renewed")
    assert history.abandon("r", 6_000) == []
    assert len(history.tick(GONE)) == 1


def test_a_lapse_waits_for_the_last_of_several() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("one", 9_800, "renewed", conn=1)
    history.ask("two", 9_900, "renewed", conn=2)
    history.tick(GONE)
    history.answer("one", 10_500, "-1")
    assert history.lapses() == []
    history.answer("two", 10_600, "-1")
    assert len(history.lapses()) == 1


def test_what_was_sent_after_the_deadline_delays_nothing() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("r", GONE, "renewed")
    assert len(history.tick(GONE)) == 1
    (refused,) = history.answer("r", 11_000, "refused")
    assert (refused.finding, refused.grade) == (Finding.STRAGGLER, Grade.TOO_LATE)


def test_a_pickup_in_flight_delays_no_lapse() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("p", 9_000, "grant", b"B", lock=job(7))
    assert len(history.tick(GONE)) == 1
