"""Which orders are legal, and the mildest thing that overlapping facts can mean."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import AnyLockFact, LockFact, Place
from emqproxy.locks.orders import WORLDS_MAX, Heard, clusters, precedes, weigh
from emqproxy.locks.verdicts import Finding
from emqproxy.locks.worlds import LeaseState, World
from tests.locks.history import GONE, MS, TTL, fact_of, span

A, B, C = b"A", b"B", b"C"
F, S = Finding, LeaseState


def fact(
    kind: str, opened_ms: int, closed_ms: int, token: bytes = A, conn: int = 1, request: int = 1, part: int = 0
) -> AnyLockFact:
    made = fact_of(kind, Place(conn, request, part), span(opened_ms, closed_ms), token)
    assert isinstance(made, LockFact)
    return made


def heard(*facts: AnyLockFact) -> list[Heard]:
    return [Heard(each, each.window.opened) for each in facts]


HELD = World().held(A, span(0, 5), TTL)

# ---------------------------------------------------------------- legal orders


@pytest.mark.parametrize(
    ("first", "second", "legal"),
    [
        (("renewed", 0, 10, A, 1), ("renewed", 11, 20, A, 2), {"ab"}),
        (("renewed", 0, 10, A, 1), ("renewed", 10, 20, A, 2), {"ab", "ba"}),  # one instant orders nothing
        (("renewed", 0, 30, A, 1), ("renewed", 10, 20, A, 2), {"ab", "ba"}),
        (("renewed", 0, 10, A, 1, 1), ("renewed", 0, 10, A, 1, 2), {"ab"}),  # one connection's pipeline
        (("released", 0, 10, A, 1, 7, 0), ("grant", 0, 10, A, 1, 7, 1), {"ab"}),  # a finish and its fetch-next
        (("renewed", 0, 10, A, 2, 9), ("renewed", 0, 10, A, 1, 3), {"ab", "ba"}),
    ],
)
def test_what_came_before_what(first: tuple[object, ...], second: tuple[object, ...], legal: set[str]) -> None:
    a, b = fact(*first), fact(*second)  # type: ignore[arg-type]
    assert ("ba" not in legal) == precedes(a, b)
    assert ("ab" not in legal) == precedes(b, a)


def test_facts_that_overlap_directly_or_through_others_are_one_group() -> None:
    a, b, c = fact("grant", 0, 10), fact("renewed", 9, 30, A, 2), fact("renewed", 25, 40, A, 3)
    later = fact("released", 41, 50)
    groups = clusters(heard(later, c, a, b))
    assert [[h.fact for h in group] for group in groups] == [[a, b, c], [later]]


# ---------------------------------------------------------------- the mildest meaning


def test_replies_read_in_reverse_of_execution_accuse_nobody() -> None:
    """A gives back, B picks up; B's answer is read first."""
    meaning = weigh([HELD], heard(fact("grant", 100, 110, B, 2), fact("released", 100, 111, A, 1)))
    assert meaning.findings == (F.SOUND, F.SOUND)
    assert meaning.order == (1, 0)
    assert [world.holder for world in meaning.ends] == [B]
    assert meaning.before[0].holder is None
    assert meaning.before[1].holder == A


def test_where_no_order_explains_it_it_is_said() -> None:
    meaning = weigh([HELD], heard(fact("grant", 100, 110, B, 2), fact("released", 111, 112, A, 1)))
    assert meaning.findings == (F.DOUBLE, F.FOREIGN)


def test_a_whole_relay_read_backwards() -> None:
    """Refused, swept, granted, refused again: four connections, read from the last to the first."""
    facts = heard(
        fact("-6", 20_000, 20_104, A, 4),
        fact("grant", 20_000, 20_103, B, 3),
        fact("swept", 20_000, 20_102, b"", 2),
        fact("refused", 20_000, 20_101, A, 1),
    )
    meaning = weigh([HELD], facts)
    assert meaning.findings == (F.STRAGGLER, F.SOUND, F.SOUND, F.STRAGGLER)
    assert {world.holder for world in meaning.ends} == {B}


def test_the_ends_are_all_that_can_be_true() -> None:
    """Which of two overlapping renewals ran last decides how long it lives."""
    short, long = fact("renewed", 100, 110, A, 1), fact("renewed", 100, 110, A, 2)
    meaning = weigh([HELD], [Heard(short, 0), Heard(fact_like(long, 1_000), 0)])
    assert {world.gone_after for world in meaning.ends} == {(110 + GONE) * MS, (110 + 1_000 + 2) * MS}


def fact_like(made: AnyLockFact, ttl_ms: int) -> AnyLockFact:
    other = fact_of("renewed", made.place, made.window, made.token, ttl_ms=ttl_ms)
    assert isinstance(other, LockFact)
    return other


def test_an_end_that_only_a_broken_script_explains_is_kept_only_if_there_is_no_other() -> None:
    worlds = [HELD, World(None, S.FREE)]
    (end,) = weigh(worlds, heard(fact("grant", 100, 110, B, 2))).ends
    assert (end.holder, end.past) == (B, ())  # not the world in which A was robbed
    (robbed,) = weigh([HELD], heard(fact("grant", 100, 110, B, 2))).ends
    assert [past.token for past in robbed.past] == [A]


@pytest.mark.parametrize("alone", [True, False])
def test_the_mildest_of_all_that_can_have_been_true(alone: bool) -> None:
    worlds = [HELD, World(None, S.FREE), World().held(B, span(0, 5), TTL)]
    extra = [] if alone else [fact("-1", 100, 110, C, 3)]
    meaning = weigh(worlds, heard(fact("released", 100, 110), *extra))
    assert meaning.findings[0] is F.SOUND
    assert meaning.before[0] == HELD


def test_lateness_is_measured_in_the_kindest_of_the_best_orders() -> None:
    """Two renewals at once: whichever ran second came soon after a success."""
    facts = heard(fact("renewed", 9_000, 9_100, A, 1), fact("renewed", 9_000, 9_100, A, 2))
    meaning = weigh([HELD], facts)
    assert [world.proved for world in meaning.kindest] == [span(9_000, 9_100)] * 2
    (alone,) = weigh([HELD], facts[:1]).kindest
    assert alone.proved == span(0, 5)


def test_too_much_can_be_true_then_nothing_is_known() -> None:
    worlds = [World().held(b"t%d" % n, span(n), TTL) for n in range(WORLDS_MAX + 1)]
    assert weigh(worlds[:-1], heard(fact("-1", 100, 110))).ends == tuple(worlds[:-1])
    assert weigh(worlds, heard(fact("-1", 100, 110))).ends == (World(),)
    assert weigh(worlds, heard(fact("-1", 100, 110), fact("-1", 100, 110, B, 2))).ends == (World(),)
