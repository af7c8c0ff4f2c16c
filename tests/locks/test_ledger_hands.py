"""Hands on a lock's key, removals of its job, and calls that have nothing to do with it."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import (
    Absent,
    Deleted,
    Lapsed,
    Overwritten,
    PerhapsGranted,
    Place,
    Queue,
    Take,
    Untouched,
    Wiped,
)
from emqproxy.locks.verdicts import Finding, Grade, Verdict
from tests.locks.history import GONE, JOB, MS, QUEUE, TTL, History, job, span

B = b"B"


def test_a_key_deleted_by_hand_ends_the_attempt_and_leaves_the_lock_free() -> None:
    history = History()
    history.do(0, "grant")
    verdict = history.one(100, "deleted", b"", conn=7)
    assert (verdict.finding, history.ends()) == (Finding.UNWITNESSED, ["A0 wiped"])
    assert history.tick(GONE) == []
    assert history.one(GONE, "removed", b"").finding is Finding.SOUND


def test_its_holder_was_told_nothing_and_is_no_straggler() -> None:
    for answer in ("-2", "refused"):
        history = History()
        history.do(0, "grant")
        history.do(100, "deleted", b"", conn=7)
        assert history.one(200, answer).finding is Finding.DOUBTFUL


def test_after_another_time_to_live_no_lapse_is_told_and_the_holder_goes_on() -> None:
    """A PEXPIRE by hand: the old deadline says nothing any more."""
    history = History()
    history.do(0, "grant")
    history.do(100, "overwritten", b"", conn=7)
    assert history.tick(GONE) == []
    assert history.one(20_000, "renewed").finding is Finding.UNWITNESSED
    assert history.ends() == []
    (lapse,) = history.tick(20_000 + GONE)
    assert isinstance(lapse.fact, Lapsed)


@pytest.mark.parametrize("finished_ms", [200, 20_000])
def test_a_finish_after_another_time_to_live_leaves_its_speaker_no_straggler(finished_ms: int) -> None:
    """Its own late renewal comes behind its own finish, as without the hand."""
    history = History()
    history.do(0, "grant")
    history.do(100, "overwritten", b"", conn=7)
    history.one(finished_ms, "released")
    renewal = history.one(finished_ms + 100, "refused")
    assert (renewal.finding, renewal.grade) == (Finding.SOUND, Grade.UNKNOWN)
    assert history.one(finished_ms + 200, "-2").finding is Finding.DOUBTFUL


def test_while_it_is_out_no_lapse_is_told_and_nobody_is_accused() -> None:
    history = History()
    history.do(0, "grant")
    history.ask("hand", 9_000, "overwritten", b"", conn=7)
    assert history.do(9_500, "grant", B, conn=2) == []
    assert history.tick(GONE) == []
    history.answer("hand", 12_000, "overwritten")
    assert [v.finding for v in history.said[1:] if v.finding] == [Finding.UNWITNESSED, Finding.SOUND]


@pytest.mark.parametrize("first", ["deleted", "grant"])
def test_a_deletion_and_a_grant_at_once_are_taken_in_the_order_that_explains(first: str) -> None:
    """Whichever came first: what is seen later accuses nobody."""
    history = History()
    history.ask("hand", 0, "deleted", b"", conn=7)
    history.ask("take", 1, "grant")
    for name, kind in sorted([("hand", "deleted"), ("take", "grant")], key=lambda pair: pair[1] != first):
        history.answer(name, 5, kind)
    later = "-2" if first == "grant" else "renewed"
    assert history.one(100, later).finding in {Finding.SOUND, Finding.DOUBTFUL}
    assert all(v.finding is None or v.finding >= Finding.DOUBTFUL for v in history.said)


def test_a_deletion_where_no_account_is_and_something_is_out_is_remembered() -> None:
    history = History()
    history.ask("take", 0, "grant")
    history.do(1, "deleted", b"", conn=7)
    history.answer("take", 5, "grant")
    assert history.one(100, "swept", b"", conn=3).finding is not Finding.REAPED_ALIVE


def test_a_removal_that_found_a_lock_proves_that_it_lived_and_no_more() -> None:
    history = History()
    history.do(0, "grant")
    assert history.one(100, "locked", b"", conn=7).finding is Finding.UNWITNESSED
    assert history.one(200, "renewed").finding is Finding.SOUND


def test_a_removal_that_found_none_where_one_certainly_lived_is_told() -> None:
    history = History()
    history.do(0, "grant")
    assert history.one(100, "removed", b"", conn=7).finding is Finding.REAPED_ALIVE


def test_a_removal_that_was_out_when_the_job_was_granted_accuses_nobody() -> None:
    history = History()
    history.ask("removal", 0, "removed", b"", conn=7)
    history.do(1, "grant", took=1)
    history.answer("removal", 5, "removed")
    assert all(v.finding is None or v.finding >= Finding.DOUBTFUL for v in history.said)


# ---------------------------------------------------------------- calls that could not be read


def unread(history: History, opened_ms: int, closed_ms: int) -> list[Verdict]:
    """A batch of renewals that names nobody we can read."""
    place = history.place(7)
    history.ledger.asked(Take(place, QUEUE, b"", None, anything=True), opened_ms * MS)
    said = history.tick(closed_ms)
    fact = PerhapsGranted(place, span(opened_ms, closed_ms), QUEUE, b"", None, anything=True)
    return said + history.keep(history.ledger.observe(fact))


@pytest.mark.parametrize(("opened_ms", "closed_ms"), [(100, 110), (9_000, 20_000)])
def test_an_unread_batch_of_renewals_may_have_renewed_any_lock_of_its_queue(opened_ms: int, closed_ms: int) -> None:
    history = History()
    history.do(0, "grant")
    assert [v.finding for v in unread(history, opened_ms, closed_ms)] == [None]
    assert history.tick(25_000) == []
    assert history.one(25_000, "renewed").finding is Finding.UNWITNESSED
    assert history.ends() == []
    (lapse,) = history.tick(25_000 + GONE)
    assert isinstance(lapse.fact, Lapsed)


@pytest.mark.parametrize("answer", ["refused", "-2", "-6", "released"])
def test_behind_an_unread_batch_nobody_is_accused(answer: str) -> None:
    history = History()
    history.do(0, "grant")
    unread(history, 100, 110)
    history.one(25_000, answer)
    assert all(v.finding is None or v.finding >= Finding.DOUBTFUL for v in history.said)


def test_an_unread_batch_leaves_other_queues_alone() -> None:
    history = History()
    history.do(0, "grant")
    other = Queue(0, b"emq:mails:")
    fact = PerhapsGranted(Place(7, 1), span(1, 2), other, b"", None, anything=True)
    history.keep(history.ledger.observe(fact))
    assert len(history.tick(GONE)) == 1


@pytest.mark.parametrize("at_ms", [200, 20_000])
def test_whose_own_finish_could_not_be_read_is_no_straggler_afterwards(at_ms: int) -> None:
    history = History()
    history.do(0, "grant")
    place, window = Place(1, 50), span(100, 110)
    history.keep(history.ledger.observe(Overwritten(place, window, JOB, QUEUE, b"", unread=True)))
    assert history.tick(GONE) == []
    renewal = history.one(at_ms, "refused")
    assert renewal.finding in {Finding.SOUND, Finding.DOUBTFUL}
    assert renewal.grade is Grade.UNKNOWN


# ---------------------------------------------------------------- room


def test_ten_thousand_adds_and_writes_open_no_account() -> None:
    history = History()
    for number in range(10_000):
        place, window = Place(1, number), span(number, number + 1)
        (verdict,) = history.ledger.observe(Untouched(place, window, job(number), QUEUE, b""))
        assert (verdict.finding, verdict.attempt, verdict.over) == (None, None, ())
    assert len(history.ledger) == 0


@pytest.mark.parametrize("kind", [Absent, Deleted, Overwritten])
def test_nor_do_removals_and_hands_on_keys_that_nobody_holds(kind: type[Absent | Deleted | Overwritten]) -> None:
    history = History()
    for number in range(1_000):
        place, window = Place(1, number), span(number, number + 1)
        (verdict,) = history.ledger.observe(kind(place, window, job(number), QUEUE, b""))
        assert verdict.finding is Finding.UNWITNESSED
    assert len(history.ledger) == 0


def test_an_untouched_lock_goes_on() -> None:
    history = History()
    history.do(0, "grant")
    history.ledger.observe(Untouched(Place(7, 1), span(100, 200), job(42), QUEUE, b""))
    assert history.one(TTL // 2, "renewed").finding is Finding.SOUND


def test_a_wiped_queue_leaves_the_others() -> None:
    history = History()
    history.do(0, "grant")
    history.keep(history.ledger.observe(Wiped(Place(7, 1), span(1, 2), 0, b"emq:mails:")))
    assert history.one(100, "renewed").finding is Finding.SOUND
    history.keep(history.ledger.observe(Wiped(Place(7, 2), span(200, 300), 0, QUEUE.prefix)))
    assert history.ends() == ["A0 wiped"]
    assert history.tick(GONE * 2) == []
    assert history.ledger.next_deadline() is not None
    assert history.ledger.next_deadline() > GONE * 2 * MS  # type: ignore[operator]
