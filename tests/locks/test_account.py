"""One lock: what can be said at once, what waits, what is settled, and what is given up."""

from __future__ import annotations

from emqproxy.locks.account import Account
from emqproxy.locks.events import LockFact, Place
from emqproxy.locks.grading import Grading
from emqproxy.locks.orders import FACTS_MAX, Heard
from emqproxy.locks.story import Story
from emqproxy.locks.verdicts import End, Finding, Verdict
from emqproxy.locks.worlds import World
from tests.locks.history import GONE, JOB, MS, QUEUE, TTL, fact_of, span

GRADING = Grading(0.60, 0.80)
A, B = b"A", b"B"
SWEEP, PICKUP = Place(7, 1), Place(8, 1)


class Talk:
    """An account, and facts by words."""

    def __init__(self) -> None:
        self.account = Account(JOB, QUEUE, Story(JOB, QUEUE))
        self._count = 0

    def hear(
        self, kind: str, at: int, token: bytes = A, *waits: Place, took: int = 0, conn: int = 1, unsure: int = 0
    ) -> list[str]:
        self._count += 1
        fact = fact_of(kind, Place(conn, self._count), span(at, at + took), token)
        assert isinstance(fact, LockFact)
        heard = Heard(fact, at * MS)
        return words(self.account.hear(heard, set(waits), GRADING, unsure * MS))

    def answered(self, place: Place) -> list[str]:
        for pending in self.account.pending:
            pending.waits.discard(place)
        return words(self.account.review(GRADING))


def words(verdicts: list[Verdict]) -> list[str]:
    return [
        f"{v.fact.token.decode()} {type(v.fact).__name__} {v.finding.word}"
        for v in verdicts
        if isinstance(v.fact, LockFact) and v.finding is not None
    ]


def test_what_suspects_nobody_is_given_at_once_and_kept_until_nothing_can_change_it() -> None:
    talk = Talk()
    assert talk.hear("grant", 0, A, SWEEP) == ["A Granted sound"]
    assert talk.hear("renewed", 1_000, A, SWEEP) == ["A Renewed sound"]
    assert talk.account.settled == (World(),)
    assert len(talk.account.pending) == 2
    assert talk.answered(SWEEP) == []
    assert (talk.account.pending, talk.account.sure_holder) == ([], A)
    assert talk.account.settled == talk.account.ends


def test_what_suspects_somebody_waits_for_each_that_may_explain_it() -> None:
    talk = Talk()
    talk.hear("grant", 0)
    assert talk.hear("grant", 1_000, B, SWEEP, PICKUP) == []
    assert talk.answered(SWEEP) == []
    assert talk.answered(PICKUP) == ["B Granted double"]


def test_a_grade_worse_than_on_time_waits_too() -> None:
    talk = Talk()
    talk.hear("grant", 0)
    assert talk.hear("renewed", 5_000, A, PICKUP) == ["A Renewed sound"]
    assert talk.hear("renewed", 12_000, A, PICKUP) == []
    assert talk.answered(PICKUP) == ["A Renewed sound"]


def test_what_was_waited_for_explains_it() -> None:
    talk = Talk()
    talk.hear("grant", 0, took=5)
    release = Place(1, 3)  # the next but one
    assert talk.hear("grant", 1_000, B, release, took=10, conn=2) == []
    for pending in talk.account.pending:
        pending.waits.discard(release)
    assert talk.hear("released", 1_000, A, took=11) == ["A Released sound", "B Granted sound"]
    assert list(talk.account.story.open) == [B]
    assert talk.account.story.past[A].end is End.RELEASED


def test_a_grant_read_after_its_own_release_has_ended_released() -> None:
    """In one connection's order the grant came first, and the release was given at once as unwitnessed."""
    talk = Talk()
    later = fact_of("released", Place(1, 9), span(100, 120), A)
    earlier = fact_of("grant", Place(1, 8), span(100, 121), A)
    assert isinstance(later, LockFact)
    assert isinstance(earlier, LockFact)
    said = talk.account.hear(Heard(later, 0), {Place(1, 8)}, GRADING)
    assert words(said) == ["A Released unwitnessed"]
    talk.account.pending[0].waits.clear()
    (verdict,) = talk.account.hear(Heard(earlier, 0), set(), GRADING)
    assert (verdict.finding, [attempt.end for attempt in verdict.over]) == (Finding.SOUND, [End.RELEASED])
    assert talk.account.sure_holder is None


def test_two_that_may_both_hold_it_are_both_open_until_one_proves_it() -> None:
    talk = Talk()
    assert talk.hear("grant", 0, A, PICKUP, took=10, conn=1) == ["A Granted sound"]
    assert talk.hear("grant", 0, B, PICKUP, took=10, conn=2) == []
    assert talk.answered(PICKUP) == ["B Granted double"]
    assert (set(talk.account.story.open), talk.account.sure_holder, talk.account.lapses_at) == ({A, B}, None, None)
    assert talk.hear("renewed", 1_000, A) == ["A Renewed sound"]
    assert (talk.account.sure_holder, talk.account.story.past[B].end) == (A, End.SUPERSEDED)


def test_past_so_many_facts_nothing_is_claimed_and_the_story_goes_on() -> None:
    talk = Talk()
    talk.hear("grant", 0)
    for number in range(FACTS_MAX):
        assert talk.hear("renewed", 100 * number, A, SWEEP) == ["A Renewed sound"]
    assert talk.hear("grant", 1_000, B, SWEEP) == ["B Granted doubtful"]
    assert talk.account.pending == []
    assert World() in talk.account.ends
    assert talk.account.lapses_at is None
    assert talk.hear("swept", 1_100, b"") == [" Absent unwitnessed"]
    assert talk.account.story.past[A].end is End.SUPERSEDED
    assert talk.account.story.past[B].end is End.REAPED


def test_after_giving_up_the_next_proof_is_certain_again() -> None:
    talk = Talk()
    for number in range(FACTS_MAX + 1):
        talk.hear("grant" if not number else "renewed", 100 * number, A, SWEEP)
    assert talk.account.sure_holder is None
    assert talk.account.story.open[A].attempt.renewals == FACTS_MAX
    assert talk.hear("renewed", 5_000) == ["A Renewed sound"]
    assert talk.account.lapses_at == (5_000 + GONE) * MS
    assert talk.account.story.open[A].attempt.number == 0


def test_what_may_have_run_before_something_unseen_claims_nothing() -> None:
    talk = Talk()
    talk.hear("grant", 0)
    assert talk.hear("grant", 99, B, took=10, unsure=100) == ["B Granted doubtful"]
    assert World() in talk.account.ends
    assert talk.hear("-2", 200, B) == ["B Absent unwitnessed"]


def test_forgotten_its_open_attempts_have_lapsed_or_were_given_back() -> None:
    talk = Talk()
    talk.hear("grant", 0)
    assert [attempt.end for attempt in talk.account.end_all()] == [End.LAPSED]
    talk.hear("grant", 0)
    talk.hear("released?", 100)
    assert [attempt.end for attempt in talk.account.end_all()] == [End.RELEASED]


def test_it_is_kept_for_twice_its_time() -> None:
    talk = Talk()
    talk.hear("grant", 0)
    assert talk.account.forget_at == (GONE + 2 * 60_000) * MS
    talk.account.doubt([World().held(B, span(0), 100_000)])
    assert talk.account.forget_at == (100_101 + 2 * 100_000) * MS
    assert TTL < 60_000
