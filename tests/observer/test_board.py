"""What is remembered of open attempts, and for how long."""

from __future__ import annotations

from emqproxy.observer.board import Board
from emqproxy.observer.timeline import Timeline
from emqproxy.records import Anchor, JobFields, Snapshot
from tests.observer.records_factory import ANCHOR, BOOT_NS, WALL_NS, Story, wall_ns


def board(open_max: int = 10) -> tuple[Board, Timeline]:
    timeline = Timeline()
    timeline.anchor(ANCHOR)
    return Board(timeline, open_max), timeline


def test_a_grants_words_are_there_at_the_end_and_gone_after_it() -> None:
    seen, _ = board()
    story = Story()
    seen.seen(story.acquire(0, JobFields(name="mail")), violated=False, keep=False)
    seen.seen(story.renew(5_000), violated=True, keep=False)
    notes = seen.over(story._now())
    assert notes.job is not None
    assert (notes.job.name, notes.violated, notes.keep) == ("mail", True, False)
    assert notes.attempt.renewals == 1
    assert len(seen) == 0
    assert seen.over(story._now()).job is None


def test_an_attempt_begins_where_its_grant_ended_though_the_clock_was_stepped_since() -> None:
    seen, timeline = board()
    story = Story()
    seen.seen(story.acquire(0), violated=False, keep=False)
    timeline.anchor(Anchor(BOOT_NS, WALL_NS + 3_600_000_000_000, 0, 0))
    assert seen.over(story._now()).started_wall_ns == wall_ns(0)


def test_the_oldest_is_forgotten_past_the_bound() -> None:
    seen, _ = board(open_max=2)
    stories = [Story(job=b"%d" % n) for n in range(3)]
    for story in stories:
        seen.seen(story.acquire(0), violated=False, keep=False)
    assert len(seen) == 2
    assert [seen.over(story._now()).job is None for story in stories] == [True, False, False]


def test_a_snapshot_restores_what_was_open() -> None:
    seen, _ = board()
    story = Story()
    story.acquire(0)
    seen.restore(Snapshot((story._now(),)))
    assert len(seen) == 1
    assert seen.over(story._now()).started_wall_ns == wall_ns(0)


def test_a_straggler_reopens_nothing() -> None:
    seen, _ = board()
    story = Story()
    seen.seen(story.acquire(0), violated=False, keep=False)
    story.finish(5)
    seen.over(story._now())
    seen.seen(story.finish_refused(6), violated=True, keep=True)
    assert len(seen) == 0
