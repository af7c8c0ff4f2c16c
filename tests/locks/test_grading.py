"""Grades at their edges, the figures as they stood, and how a holding ended."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import LockFact, Place, Window
from emqproxy.locks.grading import Figures, Grading, end_by
from emqproxy.locks.verdicts import End, Grade
from emqproxy.locks.worlds import World
from tests.locks.history import KINDS, MS, TTL, fact_of, span

GRADING = Grading(0.60, 0.80)


def held(token: bytes = b"A", at: Window | None = None) -> World:
    """Granted in [0, 100] ms: certainly alive before 10,000, certainly gone from 10,111 on."""
    return World().held(token, at or span(0, 100), TTL)


def fact(kind: str, closed_ms: int, token: bytes = b"A") -> LockFact:
    made = fact_of(kind, Place(1, 1), span(closed_ms), token)
    assert isinstance(made, LockFact)
    return made


def figures(world: World, kind: str, sent_ns: int, token: bytes = b"A") -> Figures:
    made = fact_of(kind, Place(1, 1), Window(sent_ns, sent_ns + MS), token)
    assert isinstance(made, LockFact)
    return GRADING.figures(world, made, sent_ns)


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
    world = World().held(b"A", span(0), ttl_ms)
    late, critical = ttl_ms * MS // 10 * 6, ttl_ms * MS // 10 * 8
    grades = [figures(world, "renewed", at).grade for at in (late - 1, late, critical - 1, critical)]
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


def test_a_stragglers_figures_are_of_its_own_holding() -> None:
    world = held().held(b"B", span(11_000), 60_000)
    assert figures(world, "refused", 13_100 * MS) == (13_000.0, -3_000.0, Grade.TOO_LATE)


def test_a_success_of_one_who_held_it_before_has_no_grade() -> None:
    world = held().left_by(span(5_000), left=False)
    assert figures(world, "renewed", 5_100 * MS) == (5_000.0, 5_000.0, Grade.UNKNOWN)


@pytest.mark.parametrize("kind", ["renewed", "refused"])
def test_after_ones_own_release_no_age_runs(kind: str) -> None:
    assert figures(held().left_by(span(5_000), left=True), kind, 30_000 * MS) == (None, None, Grade.UNKNOWN)


@pytest.mark.parametrize(("sent_ns", "grade"), [(5_999 * MS, Grade.ON_TIME), (6_100 * MS, Grade.LATE)])
def test_it_is_graded_by_when_it_was_sent_not_by_when_it_can_have_run(sent_ns: int, grade: Grade) -> None:
    made = fact_of("renewed", Place(1, 1), span(9_000, 9_100), b"A")
    assert isinstance(made, LockFact)
    assert GRADING.figures(held(), made, sent_ns).grade is grade


# ---------------------------------------------------------------- how it ended


@pytest.mark.parametrize(
    ("kind", "closed_ms", "speaker", "end"),
    [
        ("released", 5_000, b"A", End.RELEASED),
        ("released", 5_000, b"B", End.SUPERSEDED),
        ("grant", 5_000, b"B", End.SUPERSEDED),
        ("renewed", 5_000, b"B", End.SUPERSEDED),
        ("-6", 5_000, b"A", End.SUPERSEDED),
        ("swept", 5_000, b"", End.REAPED),
        ("swept", 50_000, b"", End.REAPED),
        ("-2", 9_999, b"A", End.WIPED),
        ("-2", 10_000, b"A", End.LAPSED),
        ("-2", 10_000, b"B", End.LAPSED),
        ("refused", 9_999, b"A", End.WIPED),
        ("refused", 10_000, b"A", End.LAPSED),
    ],
)
def test_the_end(kind: str, closed_ms: int, speaker: bytes, end: End) -> None:
    assert end_by(fact(kind, closed_ms, speaker), held(), b"A") is end


@pytest.mark.parametrize(("kind", "speaker"), [("-2", b"A"), ("refused", b"A"), ("grant", b"B"), ("swept", b"")])
def test_it_had_ended_before_by_a_finish_whose_answer_was_not_read(kind: str, speaker: bytes) -> None:
    world = held().left_by(span(1_000, 2_000), left=True, told=False)
    assert end_by(fact(kind, 3_000, speaker), world, b"A") is End.RELEASED


@pytest.mark.parametrize(("closed_ms", "end"), [(9_999, End.WIPED), (10_000, End.LAPSED)])
def test_found_without_it_the_bounds_of_its_own_holding_count(closed_ms: int, end: End) -> None:
    world = held().left_by(span(5_000), left=False)
    assert end_by(fact("-1", closed_ms, b"B"), world, b"A") is end


def test_found_with_another_holder_it_was_superseded_whatever_bounds_that_one_has() -> None:
    assert end_by(fact("-1", 20_000, b"B"), held().held(b"B", span(19_000), TTL), b"A") is End.SUPERSEDED


def test_our_own_pauses_are_no_workers_lateness() -> None:
    grading = Grading(0.60, 0.80)
    for opened, closed in ((0, 100), (2_000, 3_000), (4_500, 9_000), (20_000, 21_000)):
        grading.paused(Window(opened * MS, closed * MS))
    assert grading.own_lag_ns(1_000 * MS, 5_000 * MS) == 1_500 * MS
    assert grading.own_lag_ns(9_000 * MS, 20_000 * MS) == 0
    assert grading.own_lag_ns(0, 30_000 * MS) == (100 + 1_000 + 4_500 + 1_000) * MS
    assert Grading(0.60, 0.80).own_lag_ns(0, 30_000 * MS) == 0
