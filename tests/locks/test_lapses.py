"""Lapses: told once, when the deadline is certainly past and nothing in flight can have moved it."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import Lapsed, Place, Queue, Sweep, Take
from emqproxy.locks.verdicts import Finding, Grade
from tests.locks.history import GONE, MS, QUEUE, TTL, History, span

B = b"B"


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
        ("refused", ["A NotMine doubtful unknown"]),
        ("-2", ["A Absent doubtful"]),
        ("-1", ["A NoProof sound", "A Lapsed sound"]),
        ("renewed?", ["A Perhaps doubtful"]),
        ("released?", ["A Perhaps doubtful"]),
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


@pytest.mark.parametrize(("kind", "token"), [("grant", B), ("swept", b"")])
def test_a_pickup_or_a_sweep_in_flight_may_explain_a_lapse_of_its_queue(kind: str, token: bytes) -> None:
    history = History()
    history.do(0, "grant")
    history.ask("p", 9_000, kind, token, conn=2)
    assert history.tick(GONE) == []
    assert isinstance(history.answer("p", 10_500, "nothing")[-1].fact, Lapsed)


@pytest.mark.parametrize("other", [Queue(1, QUEUE.prefix), Queue(0, b"emq:mails:")])
def test_of_another_queue_or_database_it_explains_nothing(other: Queue) -> None:
    history = History()
    history.do(0, "grant")
    history.ledger.asked(Take(Place(2, 1), other, B, TTL), 9_000 * MS)
    history.ledger.asked(Sweep(Place(3, 1), other), 9_000 * MS)
    assert len(history.tick(GONE)) == 1


def test_a_pickup_sent_after_the_deadline_delays_nothing_though_some_pickup_is_always_out() -> None:
    """Fifty workers, each asking again as soon as it is answered: a lapse waits for none that was sent after it."""
    history = History()
    history.do(0, "grant")
    for worker in range(50):
        history.ask(f"{worker} at {GONE - 1}", GONE - 1, "grant", b"w%d" % worker, conn=10 + worker)
    for worker in range(50):
        assert history.lapses() == []
        history.answer(f"{worker} at {GONE - 1}", GONE + worker, "nothing")
        history.ask(f"{worker} again", GONE + worker, "grant", b"w%d" % worker, conn=10 + worker)
    assert len(history.lapses()) == 1


def test_a_pickup_that_took_the_job_is_no_lapse() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("p", 9_000, "grant", B, conn=2)
    history.tick(GONE)
    history.answer("p", 10_500, "grant")
    assert (history.lapses(), history.ends()) == ([], ["A0 superseded"])


def test_a_finish_that_was_not_answered_may_have_ended_it_no_lapse_can_be_told() -> None:
    history = History()
    history.do(0, "grant")
    history.do(5_000, "released?")
    assert history.tick(GONE) == []
    history.tick(10**9)
    assert (history.lapses(), history.ends()) == ([], ["A0 released"])


def test_renewed_while_the_lapse_waited_it_is_due_at_the_new_deadline() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("r", 9_800, "renewed", conn=1)
    history.ask("p", 9_900, "grant", B, conn=2)
    history.tick(GONE)
    history.answer("r", 10_500, "renewed")
    assert history.tick(30_000) == []  # the pickup is still out
    history.answer("p", 30_001, "nothing")
    (lapse,) = history.lapses()
    assert isinstance(lapse.fact, Lapsed)
    assert lapse.fact.window == span(9_800 + TTL, 10_500 + GONE)
