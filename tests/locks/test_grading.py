"""Grades at their edges, the figures as they stood, and the milder word where an order inside the Windows allows it."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import LockFact, Place, Window
from emqproxy.locks.grading import Grading, end_by, find
from emqproxy.locks.lease import Lease, LeaseState, Move, Speaker
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade
from tests.locks.history import GONE, JOB, KINDS, MS, QUEUE, TTL, fact_of, span

GRADING = Grading(0.60, 0.80)


def held(token: bytes = b"A", conn: int = 1, at: Window | None = None) -> Lease:
    """Granted in [0, 100] ms: certainly alive before 10,000, certainly gone from 10,111 on."""
    lease = Lease(JOB, QUEUE)
    lease.begin(token, at or span(0, 100), TTL, conn, partial=False)
    return lease


def fact(kind: str, opened_ms: int, closed_ms: int | None = None, token: bytes = b"A", conn: int = 1) -> LockFact:
    made = fact_of(kind, Place(conn, 1), span(opened_ms, closed_ms), token)
    assert isinstance(made, LockFact)
    return made


def figures(
    lease: Lease, kind: str, sent_ns: int, token: bytes = b"A"
) -> tuple[float | None, float | None, Grade | None]:
    at = Window(sent_ns, sent_ns + MS)
    made = fact_of(kind, Place(1, 1), at, token)
    assert isinstance(made, LockFact)
    return GRADING.figures(lease.attempt_of(token), made, sent_ns)


# ---------------------------------------------------------------- grades


@pytest.mark.parametrize(
    ("age_ns", "grade"),
    [
        (0, Grade.ON_TIME),
        (6_000 * MS - 1, Grade.ON_TIME),
        (6_000 * MS, Grade.LATE),
        (8_000 * MS - 1, Grade.LATE),
        (8_000 * MS, Grade.CRITICAL),
        (12_000 * MS, Grade.CRITICAL),
    ],
)
def test_a_success_is_graded_by_its_age(age_ns: int, grade: Grade) -> None:
    assert figures(held(), "renewed", 100 * MS + age_ns)[2] is grade


@pytest.mark.parametrize("ttl_ms", [100, 1_000, 2_000, 15_000, 30_000, 60_000, 3_600_000])
def test_the_edges_lie_where_they_should_for_any_usual_time_to_live(ttl_ms: int) -> None:
    lease = Lease(JOB, QUEUE)
    lease.begin(b"A", span(0), ttl_ms, 1, partial=False)
    late, critical = ttl_ms * MS // 10 * 6, ttl_ms * MS // 10 * 8
    grades = [figures(lease, "renewed", at)[2] for at in (late - 1, late, critical - 1, critical)]
    assert grades == [Grade.ON_TIME, Grade.LATE, Grade.LATE, Grade.CRITICAL]


@pytest.mark.parametrize(
    ("sent_ns", "grade"),
    [
        (9_000 * MS, Grade.UNKNOWN),
        (TTL * MS - 1, Grade.UNKNOWN),
        (TTL * MS, Grade.TOO_LATE),  # 9,900 ms old by its answer, but alive before 10,000 only for certain
        (30_000 * MS, Grade.TOO_LATE),
    ],
)
def test_a_refusal_is_too_late_only_past_the_certainly_alive_bound(sent_ns: int, grade: Grade) -> None:
    assert figures(held(), "refused", sent_ns)[2] is grade


def test_only_renewals_have_a_grade() -> None:
    graded = {kind for kind in KINDS if figures(held(), kind, 7_000 * MS)[2] is not None}
    assert graded == {"renewed", "refused"}


def test_without_an_earlier_proof_nothing_is_known() -> None:
    assert figures(held(), "renewed", 7_000 * MS, token=b"B") == (None, None, Grade.UNKNOWN)
    assert figures(held(), "refused", 7_000 * MS, token=b"B") == (None, None, Grade.UNKNOWN)
    assert figures(held(), "-2", 7_000 * MS, token=b"B") == (None, None, None)


# ---------------------------------------------------------------- figures


def test_age_and_remainder_as_they_stood() -> None:
    assert figures(held(), "renewed", 6_100 * MS) == (6_000.0, 4_000.0, Grade.LATE)
    assert figures(held(), "released", 12_100 * MS) == (12_000.0, -2_000.0, None)


def test_a_request_sent_before_the_proof_was_read_has_no_negative_age() -> None:
    assert figures(held(), "renewed", 50 * MS)[0] == 0.0


def test_a_grant_looks_back_at_nothing() -> None:
    assert figures(held(), "grant", 5_000 * MS) == (None, None, None)


def test_a_stragglers_figures_are_of_its_own_attempt() -> None:
    lease = held()
    lease.finish(End.SUPERSEDED, span(11_000))
    lease.begin(b"B", span(11_000), 60_000, 2, partial=False)
    assert figures(lease, "refused", 13_100 * MS) == (13_000.0, -3_000.0, Grade.TOO_LATE)


def test_a_success_after_the_attempts_end_has_no_grade() -> None:
    lease = held()
    lease.finish(End.WIPED, span(5_000))
    assert figures(lease, "renewed", 5_100 * MS) == (5_000.0, 5_000.0, Grade.UNKNOWN)


@pytest.mark.parametrize("kind", ["renewed", "refused"])
def test_after_ones_own_release_no_age_runs(kind: str) -> None:
    lease = held()
    lease.finish(End.RELEASED, span(5_000))
    assert figures(lease, kind, 30_000 * MS) == (None, None, Grade.UNKNOWN)


# ---------------------------------------------------------------- which state a fact is judged against


def found(lease: Lease, made: LockFact, *, sent_ms: int | None = None, leaving: bool = False) -> tuple[Finding, Move]:
    sent = made.window.opened if sent_ms is None else sent_ms * MS
    return find(lease, lease.attempt_of(made.token), made, lease.speaker(made.token), sent, leaving=leaving)


GONE_AT = 100 + GONE


@pytest.mark.parametrize("kind", ["refused", "not_mine", "-2", "-6"])
def test_a_holder_straggles_only_if_it_spoke_after_the_lock_was_certainly_gone(kind: str) -> None:
    assert found(held(), fact(kind, GONE_AT - 1, 20_000))[0] is Finding.DOUBTFUL
    assert found(held(), fact(kind, GONE_AT, 20_000))[0] is Finding.STRAGGLER


def test_our_own_pause_before_the_sending_is_not_held_against_the_holder() -> None:
    assert found(held(), fact("refused", GONE_AT, 20_000), sent_ms=GONE_AT - 1)[0] is Finding.DOUBTFUL


def test_a_holders_success_is_judged_where_its_window_opens() -> None:
    assert found(held(), fact("renewed", 10_050, 20_000)) == (Finding.SOUND, Move.HOLD)
    assert found(held(), fact("renewed", GONE_AT, 20_000)) == (Finding.DOUBTFUL, Move.HOLD)


def test_a_strangers_minus_six_says_nothing_against_a_holder_who_may_have_lived() -> None:
    assert found(held(), fact("-6", 9_000, 20_000, token=b"B", conn=2))[1] is Move.KEEP
    assert found(held(), fact("-6", GONE_AT, 20_000, token=b"B", conn=2))[1] is Move.ELSEWHERE


@pytest.mark.parametrize(("closed_ms", "finding"), [(9_999, Finding.DOUBTFUL), (10_000, Finding.SOUND)])
def test_a_slow_pickup_is_no_second_grant_if_the_first_may_have_lapsed_meanwhile(
    closed_ms: int, finding: Finding
) -> None:
    assert found(held(), fact("grant", 5_000, closed_ms, token=b"B", conn=2)) == (finding, Move.HOLD)


@pytest.mark.parametrize("kind", ["renewed", "released"])
def test_anothers_success_is_foreign_only_if_the_holder_lived_all_the_while(kind: str) -> None:
    assert found(held(), fact(kind, 5_000, 9_999, token=b"B", conn=2))[0] is Finding.DOUBTFUL
    assert found(held(), fact(kind, 5_000, 10_000, token=b"B", conn=2))[0] is Finding.UNWITNESSED


def test_nothing_but_a_straggler_is_accused_whatever_the_table_says() -> None:
    for kind in KINDS:
        for token in (b"A", b"B", b"C"):
            for at in (500, 10_050, 20_000):
                lease = held(b"C", at=span(0))
                lease.finish(End.REAPED, span(1))
                lease.begin(b"A", span(2, 100), TTL, 1, partial=False)
                assert found(lease, fact(kind, at, token=token))[0] in set(Finding) - {f for f in Finding if f < 7}


def taken_over(lapsed: bool = True) -> Lease:
    """A held, and lost it in [11,000, 11,100] to B."""
    lease = held()
    lease.lapsed = lapsed
    lease.finish(End.SUPERSEDED, span(11_000, 11_100))
    lease.begin(b"B", span(11_000, 11_100), TTL, 2, partial=False)
    return lease


@pytest.mark.parametrize("kind", ["refused", "not_mine", "-6"])
def test_a_loser_straggles_if_its_loss_was_certain_when_it_spoke(kind: str) -> None:
    assert found(taken_over(), fact(kind, 11_050, 11_060))[0] is Finding.STRAGGLER
    assert found(taken_over(lapsed=False), fact(kind, 11_100, 11_110))[0] is Finding.STRAGGLER
    assert found(taken_over(lapsed=False), fact(kind, 11_099, 11_110))[0] is Finding.DOUBTFUL


# ---------------------------------------------------------------- what was only read late


@pytest.mark.parametrize("kind", ["renewed", "released", "-2", "swept"])
def test_what_may_have_run_before_the_grant_does_not_end_the_new_holding(kind: str) -> None:
    assert found(taken_over(), fact(kind, 11_099, 11_200, conn=3))[1] is Move.KEEP
    assert found(taken_over(), fact(kind, 11_100, 11_200, conn=3))[1] is not Move.KEEP


def test_of_one_connection_the_order_is_known() -> None:
    assert found(taken_over(), fact("-2", 11_099, 11_200, conn=2))[1] is Move.FREE


def test_a_sweep_read_behind_the_grant_it_made_possible_accuses_nobody() -> None:
    assert found(taken_over(), fact("swept", 11_050, 11_200, conn=3)) == (Finding.DOUBTFUL, Move.KEEP)


def test_a_straggler_stays_one_when_its_answer_is_read_behind_the_grant() -> None:
    assert found(taken_over(), fact("-2", 11_050, 11_200)) == (Finding.STRAGGLER, Move.KEEP)
    assert found(taken_over(lapsed=False), fact("-2", 11_050, 11_200)) == (Finding.DOUBTFUL, Move.KEEP)


@pytest.mark.parametrize("kind", ["released", "-2", "refused", "-6"])
def test_a_token_speaks_not_for_a_grant_that_it_has_not_read(kind: str) -> None:
    """One token for all of a worker's jobs: its finish of the first attempt, read behind the second's grant."""
    lease = held(conn=2, at=span(500, 600))
    assert found(lease, fact(kind, 550, 610, conn=1))[1] is Move.KEEP
    assert found(lease, fact(kind, 600, 610, conn=1))[1] is not Move.KEEP


@pytest.mark.parametrize("kind", ["refused", "not_mine", "-2", "-6"])
def test_a_refusal_beside_ones_own_finish_ends_nothing(kind: str) -> None:
    assert found(held(), fact(kind, 1_000), leaving=True) == (Finding.DOUBTFUL, Move.KEEP)


def test_the_finish_itself_is_as_the_account_has_it() -> None:
    assert found(held(), fact("released", 1_000), leaving=True) == (Finding.SOUND, Move.FREE)


# ---------------------------------------------------------------- how it ended


@pytest.mark.parametrize(
    ("kind", "closed_ms", "speaker", "end"),
    [
        ("released", 5_000, Speaker.HOLDER, End.RELEASED),
        ("released", 5_000, Speaker.STRANGER, End.SUPERSEDED),
        ("-6", 5_000, Speaker.HOLDER, End.SUPERSEDED),
        ("swept", 5_000, Speaker.NOBODY, End.REAPED),
        ("swept", 50_000, Speaker.NOBODY, End.REAPED),
        ("-2", 9_999, Speaker.HOLDER, End.WIPED),
        ("-2", 10_000, Speaker.HOLDER, End.LAPSED),
        ("refused", 9_999, Speaker.HOLDER, End.WIPED),
        ("refused", 10_000, Speaker.HOLDER, End.LAPSED),
    ],
)
def test_the_end(kind: str, closed_ms: int, speaker: Speaker, end: End) -> None:
    assert end_by(fact(kind, closed_ms), held(), speaker) is end


def test_refused_behind_a_finish_whose_answer_never_came_it_was_probably_that_finish() -> None:
    lease = held()
    lease.perhaps(span(1_000, 2_000), None)
    assert lease.state(1_500 * MS) is LeaseState.IN_DOUBT
    assert end_by(fact("-2", 3_000), lease, Speaker.HOLDER) is End.RELEASED
    assert end_by(fact("-2", 10_000), lease, Speaker.HOLDER) is End.LAPSED


def test_the_attempt_keeps_what_its_figures_need() -> None:
    attempt = held().attempt_of(b"A")
    assert isinstance(attempt, Attempt)
    assert (attempt.proved, attempt.ttl_ms, attempt.end) == (span(0, 100), TTL, None)
