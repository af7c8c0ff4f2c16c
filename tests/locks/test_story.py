"""Attempts: numbered by token, counted, and each ended once."""

from __future__ import annotations

from emqproxy.locks.events import Granted, Place, Renewed, Window
from emqproxy.locks.story import Story
from emqproxy.locks.verdicts import Attempt, End, Grade
from emqproxy.locks.worlds import PAST_MAX
from tests.locks.history import JOB, QUEUE, TTL, span

A, B = b"A", b"B"


def granted(token: bytes = A, at: Window | None = None, conn: int = 1) -> Granted:
    return Granted(Place(conn, 1), at or span(0, 5), JOB, QUEUE, token, TTL)


def renewed(at: Window, conn: int = 1, ttl_ms: int = TTL) -> Renewed:
    return Renewed(Place(conn, 2), at, JOB, QUEUE, A, ttl_ms)


def begun() -> Story:
    story = Story(JOB, QUEUE)
    story.begin(granted(), partial=False)
    return story


def attempt(story: Story, token: bytes = A) -> Attempt:
    found = story.of(token)
    assert found is not None
    return found


def test_each_token_counts_its_own_attempts() -> None:
    story, numbers = Story(JOB, QUEUE), []
    for token in (A, B, A, A, B):
        story.begin(granted(token), partial=False)
        numbers.append(attempt(story, token).number)
        story.close(token, End.RELEASED, span(1))
    assert numbers == [0, 0, 1, 2, 1]


def test_a_renewal_is_counted_with_its_grade_and_its_connection() -> None:
    story = begun()
    for grade, at in [(Grade.ON_TIME, 1), (Grade.LATE, 2), (Grade.CRITICAL, 3), (Grade.UNKNOWN, 4)]:
        assert story.renewed(renewed(span(at), conn=at, ttl_ms=at * 1_000), grade)
    story.refused(A)
    story.refused(B)
    found = attempt(story)
    assert (found.renewals, found.late, found.refused) == (4, 2, 1)
    assert (found.conn, found.ttl_ms, found.proved) == (4, 4_000, span(4))
    assert not story.renewed(Renewed(Place(1, 3), span(5), JOB, QUEUE, B, TTL), None)


def test_the_youngest_proof_stands_whatever_is_told_last() -> None:
    story = begun()
    story.renewed(renewed(span(50)), None)
    story.renewed(renewed(span(40)), None)
    assert attempt(story).proved == span(50)


def test_an_attempt_ends_once_and_is_remembered() -> None:
    story = begun()
    ended = story.close(A, End.REAPED, span(7, 8))
    assert ended is not None
    assert (ended.end, ended.ended, story.open) == (End.REAPED, span(7, 8), {})
    assert story.of(A) == ended


def test_a_partial_attempt_has_begun_with_a_renewal() -> None:
    story = Story(JOB, QUEUE)
    story.begin(renewed(span(3)), partial=True)
    assert (attempt(story).partial, attempt(story).renewals) == (True, 1)


def test_deserted_it_is_over_when_it_lapses_and_is_not_told_again() -> None:
    story = begun()
    assert story.desert(2, span(1)) == story.desert(1, span(1)) == []
    assert story.lapse(A).lapsed
    over = story.end_if_deserted(A, span(2, 3))
    assert over is not None
    assert (over.end, over.ended) == (End.LAPSED, span(2, 3))
    assert story.end_if_deserted(A, span(4)) is None
    assert story.close(A, End.SUPERSEDED, span(5)) is None
    assert attempt(story).end is End.LAPSED


def test_deserted_after_its_lapse_it_is_over_at_once() -> None:
    story = begun()
    assert story.end_if_deserted(A, span(1)) is None
    story.lapse(A)
    assert [found.ended for found in story.desert(1, span(9))] == [span(9)]


def test_spoken_for_again_it_lives_on() -> None:
    story = begun()
    story.desert(1, span(1))
    story.lapse(A)
    story.renewed(renewed(span(2), conn=2), None)
    assert not attempt(story).lapsed
    story.lapse(A)
    assert story.end_if_deserted(A, span(3)) is None


def test_what_is_remembered_is_bounded_the_oldest_forgotten() -> None:
    story = Story(JOB, QUEUE)
    for number in range(100):
        story.begin(granted(b"t%d" % number), partial=False)
        story.close_all({b"t%d" % number: End.REAPED}, span(number))
    assert list(story.past) == list(story.taken) == [b"t%d" % n for n in range(100 - PAST_MAX, 100)]
