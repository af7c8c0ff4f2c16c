"""Who held the lock, and the one figure for its gaps."""

from __future__ import annotations

from typing import Any

from emqproxy.explain_holdings import Holdings
from emqproxy.journal_lines import JournalLine
from tests.locks.test_hands import FIELDS, raw

MS = 1_000_000
TOOK_MS = 5
TTL_MS = 30_000


def time(ms: int) -> str:
    return f"2026-11-30T00:53:{ms / 1000:06.3f}Z"


def at(ms: int, op: str, effect: str, token: str | None = "aa", **more: Any) -> JournalLine:
    """A call that was sent then, and took 5 ms."""
    fields = {
        **FIELDS, "op": op, "effect": effect, "token": token, "time": time(ms), "seq": ms, "opened_ns": ms * MS,
        "closed_ns": (ms + TOOK_MS) * MS, "ttl_ms": TTL_MS,
    }  # fmt: skip
    return JournalLine(**{**fields, **more})


def told(*lines: JournalLine) -> Holdings:
    account = Holdings()
    for line in lines:
        account.on(line, line.token or "somebody")
    return account


PICKUP = at(0, "acquire", "granted")
RENEWED = at(1000, "renew", "renewed", age_ms=995.0)
REFUSED = at(9005, "renew", "not_mine", outcome="refused", code=0)
FINISH = at(12_000, "finish", "absent", outcome="refused", code=-2)


def test_a_gap_runs_from_a_proof_s_answer_to_the_next_call_s_sending() -> None:
    account = told(PICKUP, RENEWED, REFUSED)
    assert account.all[0].longest_gap_ms == 8000
    assert (account.gaps["r", 1000], account.gaps["r", 9005]) == (995, 8000)


def test_what_comes_after_it_was_told_makes_no_longer_gap() -> None:
    account = told(PICKUP, RENEWED, REFUSED, FINISH)
    assert account.all[0].longest_gap_ms == 8000
    assert account.gaps["r", 12_000] == 8000
    blocked = at(9005, "renew", "not_mine", outcome="blocked", rule="lapsed_holder")
    assert told(PICKUP, RENEWED, blocked, FINISH).all[0].longest_gap_ms == 8000
    given_back = at(2005, "finish", "released")
    assert told(PICKUP, RENEWED, given_back, FINISH).all[0].longest_gap_ms == 1000


def test_a_call_that_did_not_get_through_ends_no_gap() -> None:
    failed = at(5000, "renew", "no_proof", outcome="error", code_name="READONLY")
    pending = at(6000, "finish", "no_proof", outcome="refused", code=-4)
    assert told(PICKUP, RENEWED, failed, pending, REFUSED).all[0].longest_gap_ms == 8000


def test_our_own_pauses_are_no_gap_of_a_renewal_that_succeeded() -> None:
    assert told(PICKUP, at(1000, "renew", "renewed", age_ms=400.0)).all[0].longest_gap_ms == 400


def test_a_late_renewal_that_the_lapse_came_before_counts() -> None:
    lapse = at(8000, "lapse", "lapsed", outcome="told")
    (holding,) = told(PICKUP, lapse, at(9005, "renew", "renewed", age_ms=9000.0)).all
    assert (holding.longest_gap_ms, holding.end) == (9000, None)


def test_a_hand_on_lists_and_hash_ends_nobody_s_holding() -> None:
    for script, target in (("LREM", "active"), ("LPUSH", "wait"), ("DEL", "job")):
        account = told(PICKUP, raw(script, target, code=1))
        assert account.holder is account.all[0], script
    assert told(PICKUP, raw("DEL", None, effect="deleted", code=1)).holder is None


def test_the_lapse_of_a_lock_that_was_overwritten_ends_not_the_other_s() -> None:
    other = at(500, "acquire", "granted", "bb")
    account = told(PICKUP, other, at(30_000, "lapse", "lapsed", outcome="told"))
    assert [each.end for each in account.all] == ["taken", None]
    assert told(PICKUP, at(30_000, "lapse", "lapsed", outcome="told")).all[0].end == "lapse"


def test_a_wipe_ends_it() -> None:
    wipe = at(500, "wipe", "wiped", None, job=None, prefix=None, queue=None)
    (holding,) = told(PICKUP, wipe).all
    assert (holding.end, holding.ended) == ("wipe", time(500))
