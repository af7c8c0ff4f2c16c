"""Histories that a real Redis made, cut down to what they broke: see `test_histories`."""

from __future__ import annotations

from emqproxy.locks.orders import FACTS_MAX
from emqproxy.locks.verdicts import Suspect
from tests.locks.history import GONE, History

B = b"B"


def quiet(history: History) -> bool:
    return all(v.finding is None or v.finding.suspects is Suspect.NOBODY for v in history.said)


def test_renewals_read_before_ones_own_finish_do_not_end_the_attempt_in_its_stead() -> None:
    """The finish ran first and was read last; what was refused meanwhile had the attempt wiped."""
    history = History()
    history.do(0, "grant")
    history.ask("finish", 1_000, "released", conn=2)
    for number in range(3):
        history.ask(f"renewal {number}", 1_001 + number, "refused", conn=1 if number else 4)
    for number in range(3):
        history.answer(f"renewal {number}", 1_010, "refused")
    assert history.ends() == []
    history.answer("finish", 1_012, "released")
    assert quiet(history)
    assert history.ends() == ["A0 released"]


def test_a_pickup_read_before_the_retry_that_made_it_possible() -> None:
    """The job was given back and taken anew; the first holder was not superseded, it had left."""
    history = History()
    history.do(0, "grant")
    history.ask("retry", 1_000, "released", conn=1)
    history.ask("pickup", 1_001, "grant", B, conn=2)
    history.answer("pickup", 1_010, "grant")
    history.answer("retry", 1_012, "released")
    assert quiet(history)
    assert history.ends() == ["A0 released"]
    assert [attempt.token for attempt in history.ledger.open_attempts()] == [B]


def test_when_too_much_comes_at_once_a_late_answer_ends_no_other_attempt() -> None:
    """The first holder's refusals were read among a takeover's answers, too many to weigh: the new holder lives on."""
    history = History()
    history.do(0, "grant")
    history.tick(GONE)
    at = GONE + 1_000
    history.ask("sweep", at, "swept", b"", conn=9)
    for number in range(FACTS_MAX):
        history.ask(f"late {number}", at + number, "-2", conn=3 + number)
    history.ask("pickup", at + 10, "grant", B, conn=2)
    history.answer("pickup", at + 20, "grant")
    for number in range(FACTS_MAX):
        history.answer(f"late {number}", at + 30, "-2")
    history.answer("sweep", at + 31, "nothing")
    assert [attempt.token for attempt in history.ledger.open_attempts() if attempt.token == B] == [B]
    history.do(at + 100, "released", B, conn=2)
    assert "B0 released" in history.ends()
    assert quiet(history)


def test_when_too_much_comes_at_once_ones_own_finish_is_still_waited_for() -> None:
    """Refusals, too many to weigh, were read before the finish that explains them: the attempt has not lapsed."""
    history = History()
    history.do(0, "grant")
    history.ask("finish", 1_000, "released", conn=2)
    for number in range(FACTS_MAX + 1):
        history.ask(f"renewal {number}", 1_001 + number, "refused", conn=3 + number)
    for number in range(FACTS_MAX + 1):
        history.answer(f"renewal {number}", 1_020, "refused")
    assert history.ends() == []
    history.answer("finish", 1_030, "released")
    assert quiet(history)
    assert history.ends() == ["A0 released"]


def test_after_too_much_at_once_a_finish_that_nobody_read_still_counts() -> None:
    """The finish ran and its answer was lost with its connection: what is refused later is no lapse."""
    history = History()
    history.do(0, "grant")
    history.ask("finish", 1_000, "released", conn=2)
    for number in range(FACTS_MAX):
        history.ask(f"renewal {number}", 1_001 + number, "refused", conn=3 + number)
    history.answer("finish", 1_030, "released?")
    for number in range(FACTS_MAX):
        history.answer(f"renewal {number}", 1_040, "refused")
    history.do(1_100, "-2", conn=1)
    assert quiet(history)
    assert history.ends() == ["A0 released"]


def test_a_lock_that_was_seen_to_live_while_it_can_have_lapsed_may_be_its_holders_still() -> None:
    """An old holder is told that another holds it; when that is read the other's lock has run out, but not when it was
    sent. The other's finish, next in the pipeline, ends its own attempt."""
    history = History()
    history.do(0, "grant")
    history.tick(GONE)
    at = GONE + 1_000
    history.do(at, "grant", B, conn=2)
    history.ask("late", at + 9_000, "-6", conn=3)
    history.ask("finish", at + 9_000, "released", B, conn=3)
    history.answer("late", at + GONE + 100, "-6")
    history.answer("finish", at + GONE + 100, "released")
    assert history.ends() == ["A0 superseded", "B0 released"]


def test_what_hangs_together_waits_together() -> None:
    """A renewal and a finish in one pipeline, and a pickup, read first, that the finish made possible. The finish is
    no explanation of the renewal by itself, but of the pickup, and so of both."""
    history = History()
    history.do(0, "grant")
    history.ask("renewal", 9_990, "renewed")
    history.ask("finish", 9_991, "released")
    history.ask("pickup", 9_992, "grant", B, conn=2)
    history.answer("pickup", 10_005, "grant")
    history.answer("renewal", 10_006, "renewed")
    history.answer("finish", 10_006, "released")
    assert quiet(history)
    assert history.ends() == ["A0 released"]


def test_a_renewal_read_behind_its_own_finish_begins_no_other_attempt() -> None:
    """Among too much to weigh: the finish is told first, the renewal before it last."""
    history = History()
    history.do(0, "grant")
    history.ask("renewal", 1_000, "renewed", conn=2)
    history.ask("finish", 1_001, "released", conn=3)
    for number in range(FACTS_MAX):
        history.ask(f"late {number}", 1_002 + number, "-2", conn=4 + number)
    history.answer("finish", 1_020, "released")
    for number in range(FACTS_MAX):
        history.answer(f"late {number}", 1_030, "-2")
    history.answer("renewal", 1_040, "renewed")
    history.do(2_000, "-2", conn=1)
    assert quiet(history)
    assert history.ends() == ["A0 released"]
    assert history.ledger.open_attempts() == ()


def test_what_is_read_behind_too_much_has_no_order_either() -> None:
    """A refusal that ran before a pickup is read after the two were given up: the new holder holds it still."""
    history = History()
    history.do(0, "grant")
    history.tick(GONE)
    at = GONE + 1_000
    for number in range(FACTS_MAX + 1):
        history.ask(f"late {number}", at + number, "-2", conn=3 + number)
    history.ask("pickup", at + 10, "grant", B, conn=2)
    history.answer("pickup", at + 20, "grant")
    for number in range(FACTS_MAX + 1):
        history.answer(f"late {number}", at + 30 + number, "-2")
    assert B in {attempt.token for attempt in history.ledger.open_attempts()}
    history.do(at + 100, "released", B, conn=2)
    assert quiet(history)
    assert "B0 released" in history.ends()
