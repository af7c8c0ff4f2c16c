"""The table, whole; a world's bounds at the instant; who speaks; what a fact can mean in it."""

from __future__ import annotations

import itertools
import typing

import pytest

from emqproxy.locks.events import AnyLockFact, LockFact, Place, Window
from emqproxy.locks.verdicts import Finding
from emqproxy.locks.worlds import MS, PAST_MAX, TRANSITIONS, LeaseState, Move, Speaker, World, steps
from tests.locks.history import GONE, TTL, fact_of, span

EVENTS = [kind.__name__ for kind in typing.get_args(AnyLockFact)]
A, B = b"A", b"B"
S, W, F, M = LeaseState, Speaker, Finding, Move
ALIVE: list[LeaseState] = [S.HELD]
UNSURE: list[LeaseState] = [S.HELD, S.IN_DOUBT]
NOT_LAPSED: list[LeaseState] = [state for state in S if state is not S.LAPSED]
ENDED = [S.LAPSED, S.FREE]
NOT_HELD: list[LeaseState] = [state for state in S if state is not S.HELD]
MINE, LOST = [W.HOLDER, W.LATE], [W.LOSER, W.LEAVER]
PAST = [*LOST, W.SURPRISED]


def test_every_cell_is_filled_and_none_is_over() -> None:
    assert set(TRANSITIONS) == set(itertools.product(EVENTS, LeaseState, Speaker))


CELLS: list[tuple[str, list[LeaseState], list[Speaker], Finding, Move]] = [
    # event, states, speakers: finding, move. Every cell stands here once; none is derived from the code's own rows.
    ("Granted", ALIVE, [*W], F.DOUBLE, M.HOLD),
    ("Granted", NOT_HELD, [*W], F.SOUND, M.HOLD),
    ("Renewed", NOT_LAPSED, MINE, F.SOUND, M.HOLD),
    ("Renewed", [S.LAPSED], MINE, F.RESURRECTED, M.HOLD),
    ("Renewed", ALIVE, [*PAST, W.STRANGER, W.NOBODY], F.FOREIGN, M.HOLD),
    ("Renewed", [S.FREE], PAST, F.DISPUTED, M.HOLD),
    ("Renewed", [S.UNSEEN, S.IN_DOUBT, S.LAPSED, S.ELSEWHERE], PAST, F.UNWITNESSED, M.HOLD),
    ("Renewed", NOT_HELD, [W.STRANGER, W.NOBODY], F.UNWITNESSED, M.HOLD),
    ("Released", NOT_LAPSED, MINE, F.SOUND, M.FREE),
    ("Released", [S.LAPSED], MINE, F.RESURRECTED, M.FREE),
    ("Released", ALIVE, [*PAST, W.STRANGER, W.NOBODY], F.FOREIGN, M.FREE),
    ("Released", [S.FREE], PAST, F.DISPUTED, M.FREE),
    ("Released", [S.UNSEEN, S.IN_DOUBT, S.LAPSED, S.ELSEWHERE], PAST, F.UNWITNESSED, M.FREE),
    ("Released", NOT_HELD, [W.STRANGER, W.NOBODY], F.UNWITNESSED, M.FREE),
    ("Absent", ALIVE, [w for w in W if w is not W.NOBODY], F.DISPUTED, M.FREE),
    ("Absent", ALIVE, [W.NOBODY], F.REAPED_ALIVE, M.FREE),
    ("Absent", NOT_HELD, [W.LOSER, W.LATE], F.STRAGGLER, M.FREE),
    ("Absent", NOT_HELD, [W.SURPRISED, W.LEAVER, W.HOLDER], F.DOUBTFUL, M.FREE),
    ("Absent", NOT_HELD, [W.STRANGER], F.UNWITNESSED, M.FREE),
    ("Absent", [S.UNSEEN, S.ELSEWHERE], [W.NOBODY], F.UNWITNESSED, M.FREE),
    ("Absent", [S.IN_DOUBT, *ENDED], [W.NOBODY], F.SOUND, M.FREE),
    ("HeldByOther", ALIVE, MINE, F.DISPUTED, M.ELSEWHERE),
    ("HeldByOther", NOT_HELD, [W.LATE], F.STRAGGLER, M.ELSEWHERE),
    ("HeldByOther", NOT_HELD, [W.HOLDER], F.DOUBTFUL, M.ELSEWHERE),
    ("HeldByOther", UNSURE, [W.LOSER], F.STRAGGLER, M.KEEP),
    ("HeldByOther", UNSURE, [W.SURPRISED, W.LEAVER], F.DOUBTFUL, M.KEEP),
    ("HeldByOther", UNSURE, [W.STRANGER, W.NOBODY], F.UNWITNESSED, M.KEEP),
    ("HeldByOther", [S.UNSEEN, S.ELSEWHERE, *ENDED], [W.LOSER], F.STRAGGLER, M.ELSEWHERE),
    ("HeldByOther", [S.UNSEEN, S.ELSEWHERE, *ENDED], [W.SURPRISED, W.LEAVER], F.DOUBTFUL, M.ELSEWHERE),
    ("HeldByOther", [S.UNSEEN, S.ELSEWHERE, *ENDED], [W.STRANGER, W.NOBODY], F.UNWITNESSED, M.ELSEWHERE),
    ("NotMine", ALIVE, MINE, F.DISPUTED, M.UNSEEN),
    ("NotMine", NOT_HELD, [W.LATE], F.STRAGGLER, M.UNSEEN),
    ("NotMine", NOT_HELD, [W.HOLDER], F.DOUBTFUL, M.UNSEEN),
    ("NotMine", [*S], [W.LOSER], F.STRAGGLER, M.KEEP),
    ("NotMine", [*S], [W.SURPRISED], F.DOUBTFUL, M.KEEP),
    ("NotMine", [*S], [W.LEAVER], F.SOUND, M.KEEP),
    ("NotMine", [*S], [W.STRANGER, W.NOBODY], F.UNWITNESSED, M.KEEP),
    ("NoProof", [*S], [*MINE, *PAST], F.SOUND, M.KEEP),
    ("NoProof", [*S], [W.STRANGER, W.NOBODY], F.UNWITNESSED, M.KEEP),
    ("Perhaps", [*S], [*W], F.DOUBTFUL, M.KEEP),
    ("Bypassed", ALIVE, [*W], F.ORPHAN, M.KEEP),
    ("Bypassed", NOT_HELD, [*W], F.UNWITNESSED, M.KEEP),
    ("Deleted", [*S], [*W], F.UNWITNESSED, M.FREE),
    ("Overwritten", [*S], [*W], F.UNWITNESSED, M.UNSEEN),
    ("Lapsed", [*S], [*W], F.SOUND, M.KEEP),
]


@pytest.mark.parametrize(("event", "states", "speakers", "finding", "move"), CELLS)
def test_cells(event: str, states: list[LeaseState], speakers: list[Speaker], finding: Finding, move: Move) -> None:
    for state, speaker in itertools.product(states, speakers):
        assert TRANSITIONS[event, state, speaker] == (finding, move), (state, speaker)


def test_every_cell_is_tried_once() -> None:
    tried = [cell for event, states, speakers, *_ in CELLS for cell in itertools.product([event], states, speakers)]
    assert len(tried) == len(set(tried)) == len(TRANSITIONS)


def test_nobody_is_accused_of_what_is_not_certain() -> None:
    for (_, state, speaker), (finding, _) in TRANSITIONS.items():
        if finding is F.STRAGGLER:
            assert speaker in {W.LATE, W.LOSER}
        elif finding < F.STRAGGLER:
            assert state in {S.HELD, S.LAPSED} or (state, finding) == (S.FREE, F.DISPUTED)


# ---------------------------------------------------------------- bounds


def held(token: bytes = A, at: Window | None = None, ttl_ms: int = TTL) -> World:
    """Granted in [0, 5] ms: certainly alive before 10,000, certainly gone from 10,016 on."""
    return World().held(token, at or span(0, 5), ttl_ms)


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
    assert held().state(at) is state


@pytest.mark.parametrize(("ttl_ms", "slack_ns"), [(1, MS + MS // 1000), (1000, 2 * MS), (30_000, 31 * MS)])
def test_slack_is_a_millisecond_and_a_thousandth(ttl_ms: int, slack_ns: int) -> None:
    world = held(at=Window(7, 9), ttl_ms=ttl_ms)
    assert (world.alive_until, world.gone_after) == (7 + ttl_ms * MS, 9 + ttl_ms * MS + slack_ns)


def test_a_shorter_renewal_moves_both_bounds_back() -> None:
    world = held().held(A, span(4_000, 4_010), 1_000)
    assert (world.alive_until, world.gone_after) == (5_000 * MS, 5_012 * MS)
    assert world.past == ()


@pytest.mark.parametrize("rest", [S.UNSEEN, S.FREE, S.ELSEWHERE])
def test_without_a_holder_the_state_does_not_age(rest: LeaseState) -> None:
    assert World(None, rest).state(0) is World(None, rest).state(10**18) is rest


# ---------------------------------------------------------------- who speaks, by when it spoke


@pytest.mark.parametrize(
    ("world", "sent_ms", "speaker"),
    [
        (held(), GONE + 4, W.HOLDER),
        (held(), GONE + 5, W.LATE),
        (held(B), 1, W.STRANGER),
        (held().held(B, span(50, 60), TTL), 59, W.SURPRISED),
        (held().held(B, span(50, 60), TTL), 60, W.LOSER),
        (held().held(B, span(20_000, 20_060), TTL), GONE + 4, W.SURPRISED),
        (held().held(B, span(20_000, 20_060), TTL), GONE + 5, W.LOSER),  # the clock had proved it before B did
        (held().left_by(span(50, 60), left=True), 59, W.SURPRISED),
        (held().left_by(span(50, 60), left=True), 60, W.LEAVER),
        (held().left_by(span(50, 60), left=True, told=False), 61, W.SURPRISED),
        (held().left_by(span(50, 60), left=True, told=False), GONE + 5, W.LEAVER),
        (held().held(B, span(50, 60), TTL).held(A, span(70, 80), TTL), 0, W.HOLDER),
    ],
)
def test_who_speaks(world: World, sent_ms: int, speaker: Speaker) -> None:
    assert world.speaker(A, sent_ms * MS) is speaker
    assert world.speaker(b"", sent_ms * MS) is W.NOBODY


def test_the_past_is_bounded_forgets_the_oldest_and_has_a_token_once() -> None:
    world = World()
    for number in range(100):
        world = world.held(b"t%d" % number, span(number), TTL)
    assert [past.token for past in world.past] == [b"t%d" % n for n in range(99 - PAST_MAX, 99)]
    again = world.held(b"t98", span(200), TTL)
    assert b"t98" not in {past.token for past in again.past}
    assert again.left_by(span(300), left=True).past[-1].token == b"t98"


# ---------------------------------------------------------------- steps


def meant(
    world: World, kind: str, opened_ms: int, closed_ms: int | None = None, token: bytes = A
) -> list[tuple[Finding, LeaseState, bytes | None]]:
    """Finding, the state just after, and the holder: one for each thing it can mean."""
    window = span(opened_ms, closed_ms)
    fact = fact_of(kind, Place(1, 1), window, token)
    assert isinstance(fact, LockFact)
    found = steps(world, fact, window.opened)
    return [(step.finding, step.world.state(window.closed), step.world.holder) for step in found]


def test_a_success_is_judged_where_its_window_opens_all_else_where_it_closes() -> None:
    assert meant(held(), "renewed", GONE + 4, 20_000) == [(F.SOUND, S.HELD, A)]
    assert meant(held(), "renewed", GONE + 5, 20_000) == [(F.RESURRECTED, S.HELD, A)]
    assert meant(held(), "refused", 5_000, 9_999) == [(F.DISPUTED, S.UNSEEN, None)]
    assert meant(held(), "refused", 5_000, 10_000) == [(F.DOUBTFUL, S.UNSEEN, None)]
    assert meant(held(), "grant", 5_000, 9_999, B) == [(F.DOUBLE, S.HELD, B)]
    assert meant(held(), "grant", 5_000, 10_000, B) == [(F.SOUND, S.HELD, B)]
    assert meant(held(), "released", 5_000, 10_000, B) == [(F.UNWITNESSED, S.FREE, None)]


def test_perhaps_it_was_renewed() -> None:
    fact = fact_of("renewed?", Place(1, 1), span(5_000, 6_000), A)
    assert isinstance(fact, LockFact)
    old, new = steps(held(), fact, 0)
    assert old.world == held()
    assert (new.world.alive_until, new.world.gone_after) == (15_000 * MS, (6_000 + GONE) * MS)


def test_perhaps_it_was_released() -> None:
    assert meant(held(), "released?", 5_000) == [(F.DOUBTFUL, S.HELD, A), (F.DOUBTFUL, S.FREE, None)]
    assert meant(World(), "released?", 5_000) == [(F.DOUBTFUL, S.UNSEEN, None), (F.DOUBTFUL, S.FREE, None)]


def test_what_is_gone_is_not_perhaps_renewed_and_nobody_perhaps_ends_anothers() -> None:
    assert meant(held(), "renewed?", 20_000) == [(F.DOUBTFUL, S.LAPSED, A)]
    assert meant(held(), "released?", 5_000, token=B) == [(F.DOUBTFUL, S.HELD, A)]
    assert meant(World(None, S.FREE), "renewed?", 5_000) == [(F.DOUBTFUL, S.FREE, None)]


def test_an_unseen_holder_is_perhaps_the_one_who_asks() -> None:
    assert meant(World(), "renewed?", 5_000) == [(F.DOUBTFUL, S.UNSEEN, None), (F.DOUBTFUL, S.HELD, A)]


@pytest.mark.parametrize("world", [World(), World(None, S.FREE), held(B), held().left_by(span(50, 60), left=False)])
def test_whoever_gave_back_what_another_had_is_no_loser(world: World) -> None:
    fact = fact_of("released", Place(1, 1), span(5_000, 5_010), A)
    assert isinstance(fact, LockFact)
    (step,) = steps(world, fact, 5_000 * MS)
    assert step.world.state(5_010 * MS) is S.FREE
    assert step.world.speaker(A, 5_009 * MS) is W.SURPRISED
    assert step.world.speaker(A, 5_010 * MS) is W.LEAVER
    assert [past.token for past in step.world.past].count(A) == 1
    assert step.world.speaker(B, GONE * MS * 2) is (W.LOSER if world.holder == B else W.STRANGER)
