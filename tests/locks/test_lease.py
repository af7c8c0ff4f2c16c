"""The table, whole; a lease's bounds at the instant; its attempts and their numbers."""

from __future__ import annotations

import itertools
import typing

import pytest

from emqproxy.locks.events import AnyLockFact, Window
from emqproxy.locks.lease import MS, PAST_MAX, TRANSITIONS, Lease, LeaseState, Move, Speaker, bounds
from emqproxy.locks.verdicts import End, Finding
from tests.locks.history import GONE, JOB, QUEUE, TTL, span

EVENTS = [kind.__name__ for kind in typing.get_args(AnyLockFact)]
S, W, F, M = LeaseState, Speaker, Finding, Move


def held(token: bytes = b"A", at: Window | None = None, ttl_ms: int = TTL) -> Lease:
    lease = Lease(JOB, QUEUE)
    lease.begin(token, at or span(0, 5), ttl_ms, 1, partial=False)
    return lease


# ---------------------------------------------------------------- the table


def test_every_cell_is_filled_and_none_is_over() -> None:
    assert set(TRANSITIONS) == set(itertools.product(EVENTS, LeaseState, Speaker))


CELLS = [
    # event, state, speaker → finding, move
    ("Granted", S.FREE, W.STRANGER, F.SOUND, M.HOLD),
    ("Granted", S.LAPSED, W.STRANGER, F.SOUND, M.HOLD),
    ("Granted", S.IN_DOUBT, W.STRANGER, F.SOUND, M.HOLD),
    ("Granted", S.HELD, W.STRANGER, F.DOUBLE, M.HOLD),
    ("Granted", S.ELSEWHERE, W.STRANGER, F.DOUBTFUL, M.HOLD),
    ("Renewed", S.HELD, W.HOLDER, F.SOUND, M.HOLD),
    ("Renewed", S.IN_DOUBT, W.HOLDER, F.SOUND, M.HOLD),
    ("Renewed", S.LAPSED, W.HOLDER, F.RESURRECTED, M.HOLD),
    ("Renewed", S.UNSEEN, W.STRANGER, F.UNWITNESSED, M.HOLD),
    ("Renewed", S.HELD, W.STRANGER, F.FOREIGN, M.HOLD),
    ("Renewed", S.FREE, W.LEAVER, F.DISPUTED, M.HOLD),
    ("Released", S.HELD, W.HOLDER, F.SOUND, M.FREE),
    ("Released", S.LAPSED, W.HOLDER, F.RESURRECTED, M.FREE),
    ("Released", S.UNSEEN, W.STRANGER, F.UNWITNESSED, M.FREE),
    ("Released", S.HELD, W.LOSER, F.FOREIGN, M.FREE),
    ("Absent", S.LAPSED, W.HOLDER, F.STRAGGLER, M.FREE),
    ("Absent", S.IN_DOUBT, W.HOLDER, F.DOUBTFUL, M.FREE),
    ("Absent", S.HELD, W.HOLDER, F.DISPUTED, M.FREE),
    ("Absent", S.FREE, W.LOSER, F.STRAGGLER, M.FREE),
    ("Absent", S.LAPSED, W.NOBODY, F.SOUND, M.FREE),
    ("Absent", S.UNSEEN, W.NOBODY, F.UNWITNESSED, M.FREE),
    ("Absent", S.HELD, W.NOBODY, F.REAPED_ALIVE, M.FREE),
    ("HeldByOther", S.HELD, W.LOSER, F.STRAGGLER, M.KEEP),
    ("HeldByOther", S.LAPSED, W.HOLDER, F.STRAGGLER, M.ELSEWHERE),
    ("HeldByOther", S.HELD, W.HOLDER, F.DISPUTED, M.ELSEWHERE),
    ("HeldByOther", S.HELD, W.STRANGER, F.UNWITNESSED, M.KEEP),
    ("HeldByOther", S.UNSEEN, W.STRANGER, F.UNWITNESSED, M.ELSEWHERE),
    ("NotMine", S.LAPSED, W.HOLDER, F.STRAGGLER, M.UNSEEN),
    ("NotMine", S.HELD, W.HOLDER, F.DOUBTFUL, M.UNSEEN),
    ("NotMine", S.FREE, W.LEAVER, F.SOUND, M.KEEP),
    ("NotMine", S.HELD, W.LOSER, F.STRAGGLER, M.KEEP),
    ("NotMine", S.HELD, W.STRANGER, F.UNWITNESSED, M.KEEP),
    ("NoProof", S.HELD, W.HOLDER, F.SOUND, M.KEEP),
    ("NoProof", S.FREE, W.STRANGER, F.UNWITNESSED, M.KEEP),
    ("Perhaps", S.HELD, W.HOLDER, F.DOUBTFUL, M.KEEP),
    ("Bypassed", S.HELD, W.STRANGER, F.ORPHAN, M.KEEP),
    ("Bypassed", S.FREE, W.STRANGER, F.UNWITNESSED, M.KEEP),
]


@pytest.mark.parametrize(("event", "state", "speaker", "finding", "move"), CELLS)
def test_cell(event: str, state: LeaseState, speaker: Speaker, finding: Finding, move: Move) -> None:
    assert TRANSITIONS[event, state, speaker] == (finding, move)


def rows(event: str) -> list[tuple[LeaseState, Speaker, Finding, Move]]:
    return [(state, speaker, *cell) for (name, state, speaker), cell in TRANSITIONS.items() if name == event]


@pytest.mark.parametrize("event", ["Granted", "Renewed"])
def test_a_success_that_holds_always_holds(event: str) -> None:
    assert {move for *_, move in rows(event)} == {Move.HOLD}


@pytest.mark.parametrize("event", ["Released", "Absent"])
def test_what_proves_the_lock_away_always_frees_it(event: str) -> None:
    assert {move for *_, move in rows(event)} == {Move.FREE}


@pytest.mark.parametrize("event", ["NoProof", "Perhaps", "Bypassed", "Lapsed"])
def test_what_proves_nothing_moves_nothing(event: str) -> None:
    assert {move for *_, move in rows(event)} == {Move.KEEP}


def test_a_refusal_that_may_be_anothers_refutes_only_the_speaker() -> None:
    assert all((move is Move.KEEP) == (speaker is not Speaker.HOLDER) for _, speaker, _, move in rows("NotMine"))


def test_nobody_is_a_straggler_who_was_never_a_holder() -> None:
    for (_, _, speaker), (finding, _) in TRANSITIONS.items():
        assert finding is not Finding.STRAGGLER or speaker in {Speaker.HOLDER, Speaker.LOSER, Speaker.LEAVER}


def test_a_holder_is_a_straggler_only_of_a_lapsed_lock() -> None:
    for (_, state, speaker), (finding, _) in TRANSITIONS.items():
        if finding is Finding.STRAGGLER and speaker is Speaker.HOLDER:
            assert state is LeaseState.LAPSED


def test_nothing_is_accused_in_doubt_but_a_loser() -> None:
    for (_, state, speaker), (finding, _) in TRANSITIONS.items():
        if state is LeaseState.IN_DOUBT and finding < Finding.DOUBTFUL:
            assert (finding, speaker) in {(F.STRAGGLER, W.LOSER), (F.STRAGGLER, W.LEAVER)}


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    ("at", "state"),
    [
        (0, S.HELD),
        (TTL * MS - 1, S.HELD),
        (TTL * MS, S.IN_DOUBT),
        ((GONE + 5) * MS - 1, S.IN_DOUBT),
        ((GONE + 5) * MS, S.LAPSED),
    ],
)
def test_the_state_at_the_instant(at: int, state: LeaseState) -> None:
    assert held(at=span(0, 5)).state(at) is state


@pytest.mark.parametrize(("ttl_ms", "slack_ns"), [(1, MS + MS // 1000), (1000, 2 * MS), (30_000, 31 * MS)])
def test_slack_is_a_millisecond_and_a_thousandth(ttl_ms: int, slack_ns: int) -> None:
    assert bounds(Window(7, 9), ttl_ms) == (7 + ttl_ms * MS, 9 + ttl_ms * MS + slack_ns)


def test_a_renewal_moves_both_bounds_and_a_shorter_one_moves_them_back() -> None:
    lease = held()
    lease.prove(span(4000, 4010), TTL, 1)
    assert (lease.alive_until, lease.gone_after) == bounds(span(4000, 4010), TTL)
    lease.prove(span(5000, 5010), 1000, 1)
    assert (lease.alive_until, lease.gone_after) == bounds(span(5000, 5010), 1000)


def test_which_of_two_overlapping_proofs_ran_last_is_not_known() -> None:
    lease = held()
    lease.prove(span(1000, 1010), TTL, 1)
    lease.prove(span(1005, 1020), 100, 2)
    assert lease.state(1104 * MS) is S.HELD
    assert lease.state(1105 * MS) is S.IN_DOUBT
    assert lease.gone_after == bounds(span(1000, 1010), TTL)[1]


def test_one_connections_proofs_are_in_order() -> None:
    lease = held()
    lease.prove(span(1000, 1010), TTL, 1)
    lease.prove(span(1005, 1020), 100, 1)
    assert lease.gone_after == bounds(span(1005, 1020), 100)[1]


def test_perhaps_renewed_moves_only_the_far_bound_perhaps_released_only_the_near_one() -> None:
    lease = held()
    lease.perhaps(span(5000, 6000), TTL)
    assert (lease.alive_until, lease.gone_after) == (TTL * MS, (6000 + GONE) * MS)
    lease.perhaps(span(7000, 8000), None)
    assert (lease.alive_until, lease.gone_after) == (7000 * MS, (6000 + GONE) * MS)


def test_what_is_gone_is_not_perhaps_renewed() -> None:
    lease = held()
    before = lease.gone_after
    lease.perhaps(span(20_000, 20_001), TTL)
    assert lease.gone_after == before


def test_without_a_holder_the_state_does_not_age() -> None:
    lease = Lease(JOB, QUEUE)
    assert lease.state(0) is lease.state(10**18) is S.UNSEEN


# ---------------------------------------------------------------- attempts and who speaks


def test_who_speaks() -> None:
    lease = held()
    assert [lease.speaker(t) for t in (b"A", b"B", b"")] == [W.HOLDER, W.STRANGER, W.NOBODY]
    lease.finish(End.RELEASED, span(9))
    assert lease.speaker(b"A") is W.LEAVER
    lease.begin(b"A", span(10), TTL, 1, partial=False)
    assert lease.speaker(b"A") is W.HOLDER
    lease.finish(End.REAPED, span(20))
    assert lease.speaker(b"A") is W.LOSER


def test_each_token_counts_its_own_attempts() -> None:
    lease = Lease(JOB, QUEUE)
    numbers = []
    for token in (b"A", b"B", b"A", b"A", b"B"):
        lease.begin(token, span(0), TTL, 1, partial=False)
        numbers.append(lease.number)
        lease.finish(End.RELEASED, span(1))
    assert numbers == [0, 0, 1, 2, 1]


def test_a_new_attempt_counts_from_nothing() -> None:
    lease = held()
    lease.renewals, lease.late, lease.refused, lease.lapsed, lease.deserted = 3, 2, 1, True, True
    lease.finish(End.LAPSED, span(1))
    lease.begin(b"A", span(2), TTL, 4, partial=True)
    attempt = lease.attempt()
    assert (attempt.renewals, attempt.late, attempt.refused, attempt.lapsed) == (0, 0, 0, False)
    assert (attempt.partial, attempt.conn, attempt.number, lease.deserted) == (True, 4, 1, False)


def test_an_attempt_ends_once() -> None:
    lease = held()
    ended = lease.finish(End.REAPED, span(7, 8))
    assert ended is not None
    assert (ended.end, ended.ended, lease.holder) == (End.REAPED, span(7, 8), None)
    assert lease.finish(End.LAPSED, span(9)) is None
    assert lease.attempt_of(b"A") == ended


def test_the_history_is_bounded_and_forgets_the_oldest() -> None:
    lease = Lease(JOB, QUEUE)
    for number in range(100):
        lease.begin(b"t%d" % number, span(number), TTL, 1, partial=False)
        lease.finish(End.REAPED, span(number))
    assert len(lease.past) == len(lease.taken) == PAST_MAX
    assert lease.speaker(b"t99") is W.LOSER
    assert lease.speaker(b"t92") is W.LOSER
    assert lease.speaker(b"t91") is W.STRANGER


def test_it_is_forgotten_after_twice_its_time() -> None:
    lease = held(ttl_ms=100_000)
    assert lease.forget_at(60_000 * MS) == lease.gone_after + 200_000 * MS
    lease.finish(End.RELEASED, span(9))
    lease.touched = 9 * MS
    assert lease.forget_at(60_000 * MS) == (9 + 200_000) * MS
    assert lease.forget_at(150_000 * MS) == (9 + 300_000) * MS
