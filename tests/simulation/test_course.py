"""What becomes of a lock: the documents' examples, laws that hold of every setting, and a second way to the answer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emqproxy.simulation.course import EVENTS_MAX, RENEWALS_SEEN, play
from emqproxy.simulation.settings import Block, Setting, SettingError
from tests.simulation.naive import first_stall
from tests.simulation.strategies import EVERY, TIMES, UNBLOCKED, unhurried

DOCUMENTS = Setting(lock_duration_ms=30_000, renew_ms=15_000)


def setting(renew_ms: int = 15_000, *blocks: tuple[int, int], **more: int | bool) -> Setting:
    """The documents' defaults but for what is told. A block: (from, for)."""
    return replace(DOCUMENTS, renew_ms=renew_ms, blocks=tuple(Block(*block) for block in blocks), **more)


# ---------------------------------------------------------------- the documents' slider


@pytest.mark.parametrize(
    ("renew_ms", "grade"),
    [
        (7_500, "on_time"),
        (15_000, "on_time"),
        (17_999, "on_time"),
        (18_000, "late"),
        (24_000, "critical"),
        (30_000, "critical"),
    ],
)
def test_a_renew_interval_up_to_the_lock_keeps_the_job(renew_ms: int, grade: str) -> None:
    outcome = play(setting(renew_ms))
    assert (outcome.outcome, outcome.owned, outcome.stalls, outcome.failed_ms) == ("owned", True, 0, None)
    (attempt,) = outcome.attempts
    assert [renewal.at_ms for renewal in attempt.renewals] == [renew_ms * count for count in (1, 2, 3, 4)]
    assert {(renewal.grade, renewal.finding, renewal.outcome) for renewal in attempt.renewals} == {
        (grade, "sound", "ok")
    }
    assert (attempt.lapsed_ms, attempt.recovered_ms, attempt.learned_ms, attempt.end) == (None, None, None, None)


@pytest.mark.parametrize(("renew_ms", "finding"), [(30_001, "doubtful"), (30_031, "straggler"), (45_000, "straggler")])
def test_a_longer_one_lets_the_lock_lapse_and_the_job_stall_until_it_is_failed(renew_ms: int, finding: str) -> None:
    outcome = play(setting(renew_ms))
    assert (outcome.outcome, outcome.stalls, outcome.failed_ms, outcome.until_ms) == ("failed", 2, 120_000, 120_000)
    first, second, third = outcome.attempts
    assert (first.taken_ms, first.lapsed_ms, first.recovered_ms) == (0, 30_000, 60_000)
    assert (second.taken_ms, second.lapsed_ms, second.recovered_ms) == (60_000, 90_000, 120_000)
    assert (third.taken_ms, third.renewals, third.lapsed_ms, third.end) == (120_000, (), None, "released")
    (renewal,) = first.renewals
    assert (renewal.at_ms, renewal.outcome, renewal.grade, renewal.finding) == (
        renew_ms,
        "refused",
        "too_late",
        finding,
    )
    assert (first.learned_ms, first.end) == (renew_ms, "lapsed")
    assert [(sweep.at_ms, sweep.job) for sweep in outcome.sweeps] == [
        (30_000, "marked"), (60_000, "recovered"), (90_000, "marked"), (120_000, "over_limit"),
    ]  # fmt: skip


# ---------------------------------------------------------------- blocks and sweeps


def test_a_block_that_leaves_room_is_survived() -> None:
    outcome = play(setting(15_000, (12_000, 4_000)))
    assert [r.at_ms for r in outcome.attempts[0].renewals] == [16_000, 31_000, 46_000, 61_000]
    assert outcome.owned


@pytest.mark.parametrize(("long_ms", "owned"), [(18_000, True), (18_001, False)])
def test_a_block_that_ends_just_as_the_lock_does_is_survived(long_ms: int, owned: bool) -> None:
    assert play(setting(15_000, (12_000, long_ms))).owned is owned


def test_a_blocked_worker_loses_the_job_to_one_that_keeps_it() -> None:
    outcome = play(setting(15_000, (16_000, 80_000)))
    first, second = outcome.attempts
    assert [(r.at_ms, r.grade) for r in first.renewals] == [(15_000, "on_time"), (96_000, "too_late")]
    assert (first.lapsed_ms, first.recovered_ms, first.learned_ms, first.end) == (45_000, 60_000, 96_000, "reaped")
    assert (outcome.outcome, second.taken_ms, second.lapsed_ms) == ("recovered", 60_000, None)


def test_who_learns_it_after_all_is_decided_learns_it_all_the_same() -> None:
    outcome = play(setting(15_000, (16_000, 900_000)))
    assert (outcome.until_ms, outcome.attempts[0].learned_ms) == (120_000, 916_000)
    assert len(outcome.attempts[0].renewals) == 1


def test_a_job_that_blocks_every_worker_is_failed() -> None:
    outcome = play(setting(15_000, (16_000, 80_000), block_every_attempt=True))
    assert [attempt.lapsed_ms for attempt in outcome.attempts] == [45_000, 105_000, None]
    assert (outcome.outcome, outcome.failed_ms) == ("failed", 120_000)


def test_a_renewal_between_mark_and_sweep_costs_the_sweeps_another_round() -> None:
    """Marked at 30 s, unmarked by the renewal at 40 s, lapsed at 70 s: marked again at 60 s, put back at 90 s."""
    outcome = play(setting(20_000, (41_000, 100_000)))
    assert (outcome.attempts[0].lapsed_ms, outcome.attempts[0].recovered_ms) == (70_000, 90_000)


@pytest.mark.parametrize(
    ("first_ms", "recovered_ms"), [(0, 60_000), (1, 30_001), (29_999, 59_999), (30_000, 60_000), (50_000, 80_000)]
)
def test_recovery_depends_on_when_the_sweeps_come(first_ms: int, recovered_ms: int) -> None:
    assert play(setting(45_000, first_sweep_ms=first_ms)).attempts[0].recovered_ms == recovered_ms


def test_with_no_stall_allowed_the_first_one_fails_it() -> None:
    outcome = play(setting(45_000, max_stalled=0))
    assert (outcome.stalls, outcome.failed_ms, len(outcome.attempts)) == (1, 60_000, 2)


@pytest.mark.parametrize(
    ("times", "option"),
    [
        (setting(1, (86_400_000, 86_400_000), lock_duration_ms=1000), "--renew"),
        (setting(86_400_000, stalled_interval_ms=2, lock_duration_ms=80_000_000), "--stalled-interval"),
    ],
)
def test_what_takes_for_ever_is_refused(times: Setting, option: str) -> None:
    with pytest.raises(SettingError, match=f"{option}: .* {EVENTS_MAX} .*; write a longer one"):
        play(times)


# ---------------------------------------------------------------- laws


@unhurried
@given(UNBLOCKED)
def test_unblocked_it_is_owned_just_where_the_interval_is_no_longer_than_the_lock(times: Setting) -> None:
    outcome = play(times)
    assert outcome.owned is (times.renew_ms <= times.lock_duration_ms)
    assert outcome.attempts[0].lapsed_ms == (None if outcome.owned else times.lock_duration_ms)


@unhurried
@given(EVERY)
def test_a_lapse_comes_exactly_one_lock_after_the_last_proof(times: Setting) -> None:
    outcome = play(times)
    for attempt in outcome.attempts:
        proved = [attempt.taken_ms, *(r.at_ms for r in attempt.renewals if r.outcome == "ok")]
        assert attempt.lapsed_ms in {None, proved[-1] + times.lock_duration_ms}
        assert all(later - sooner <= times.lock_duration_ms for sooner, later in pairwise(proved))
    assert outcome.owned is (outcome.attempts[0].lapsed_ms is None)


@unhurried
@given(EVERY, TIMES)
def test_a_longer_lock_never_lapses_sooner(times: Setting, more_ms: int) -> None:
    never = 10**9
    short, long = play(times), play(replace(times, lock_duration_ms=times.lock_duration_ms + more_ms))
    assert (long.attempts[0].lapsed_ms or never) >= (short.attempts[0].lapsed_ms or never)


@unhurried
@given(EVERY, st.integers(2, 5))
def test_renewals_between_those_that_were_never_make_one_block_worse(times: Setting, part: int) -> None:
    """Only so: a shorter interval of another phase may have its last renewal sooner before the block."""
    seldom = replace(times, renew_ms=times.renew_ms * part, blocks=times.blocks[:1])
    assert not play(seldom).owned or play(replace(seldom, renew_ms=times.renew_ms)).owned


@unhurried
@given(EVERY)
def test_blocks_that_leave_an_interval_of_the_lock_are_survived(times: Setting) -> None:
    longest_ms = max((block.for_ms for block in times.blocks), default=0)
    assert times.renew_ms + longest_ms > times.lock_duration_ms or play(times).owned


@unhurried
@given(EVERY)
def test_two_sweeps_find_a_stall_and_the_limit_fails_it(times: Setting) -> None:
    outcome = play(times)
    for attempt in outcome.attempts:
        if attempt.recovered_ms is None:
            continue
        assert attempt.lapsed_ms is not None
        assert (
            0 < attempt.recovered_ms - max(attempt.lapsed_ms, times.first_sweep_ms - 1) <= 2 * times.stalled_interval_ms
        )
        assert (attempt.recovered_ms - times.first_sweep_ms) % times.stalled_interval_ms == 0
    assert [a.taken_ms for a in outcome.attempts[1:]] == [a.recovered_ms for a in outcome.attempts[:-1]]
    assert (outcome.failed_ms is not None) is (outcome.stalls > times.max_stalled)
    assert len(outcome.attempts) == outcome.stalls + 1
    if outcome.failed_ms is None:
        assert len([r for r in outcome.attempts[-1].renewals if r.outcome == "ok"]) >= RENEWALS_SEEN


@unhurried
@given(EVERY)
def test_it_is_as_when_played_millisecond_by_millisecond(times: Setting) -> None:
    outcome = play(times)
    first = outcome.attempts[0]
    other = first_stall(times, max(outcome.until_ms, first.learned_ms or 0))
    assert [r.at_ms for r in first.renewals if r.outcome == "ok"] == other["renewed"][: len(first.renewals)]
    assert (first.lapsed_ms, first.recovered_ms, first.learned_ms) == (
        other["lapsed_ms"], other["recovered_ms"], other["learned_ms"],
    )  # fmt: skip


@unhurried
@given(EVERY)
def test_nobody_is_accused_but_a_worker_that_lost_the_job(times: Setting) -> None:
    for attempt in play(times).attempts:
        for renewal in attempt.renewals:
            assert renewal.finding in ({"sound"} if renewal.outcome == "ok" else {"doubtful", "straggler"})
