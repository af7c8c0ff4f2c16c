"""What only time tells: a queue that nobody sweeps, a job that is renewed and no more; each once, and only then."""

from __future__ import annotations

from typing import Any

from emqproxy.locks.events import (
    Absent,
    AnyFact,
    Granted,
    Lapsed,
    Lock,
    Nothing,
    Place,
    Queue,
    Released,
    Renewed,
    Untouched,
    Window,
    effect,
)
from emqproxy.locks.notes import MS, Note
from emqproxy.locks.watches import Patience, Watches

QUEUE = Queue(0, b"emq:orders:")
TTL_MS = 2_000


def at(ms: float) -> Window:
    return Window(int(ms * MS), int(ms * MS))


class Story:
    """Lines of one queue, told to watches."""

    def __init__(self, patience: Patience | None = None) -> None:
        self.watches = Watches(patience)

    def tell(self, fact: AnyFact, op: str, outcome: str = "ok", **more: Any) -> None:
        opened, closed = fact.window
        self.watches.observe(fact, Note(1, op, outcome, effect(fact), opened, closed, who="w1", **more))

    def about(self, job: str, ms: float) -> tuple[Place, Window, Lock, Queue, bytes]:
        return Place(1, 1), at(ms), Lock(0, f"emq:orders:{job}:lock".encode()), QUEUE, b"t"

    def take(self, job: str, ms: float) -> None:
        self.tell(Granted(*self.about(job, ms), TTL_MS), "acquire")

    def renew(self, job: str, ms: float) -> None:
        self.tell(Renewed(*self.about(job, ms), TTL_MS), "renew")

    def finish(self, job: str, ms: float) -> None:
        self.tell(Released(*self.about(job, ms)), "finish")

    def lapse(self, job: str, ms: float) -> None:
        self.tell(Lapsed(*self.about(job, ms)), "lapse", "told")

    def sweep(self, ms: float) -> None:
        self.tell(Nothing(Place(2, 1), at(ms), QUEUE), "sweep")

    def causes(self, ms: float) -> list[str]:
        return [watch.found.cause for watch in self.watches.due(int(ms * MS))]


def test_a_lapsed_job_that_nobody_sweeps_is_told_once_after_a_minute() -> None:
    story = Story()
    story.take("1", 0)
    story.lapse("1", 2_003)
    assert story.causes(62_002) == []
    assert story.causes(62_004) == ["no_sweeper"]
    assert story.causes(90_000) == []


def test_where_sweeps_were_seen_two_of_their_intervals_are_waited_for() -> None:
    story = Story()
    for ms in (0, 1_500, 3_000):
        story.sweep(ms)
    story.take("1", 3_100)
    story.lapse("1", 5_103)
    assert story.causes(8_102) == []
    assert story.causes(8_104) == ["no_sweeper"]


def test_a_sweep_that_names_nobody_is_a_sweep() -> None:
    story = Story()
    story.take("1", 0)
    story.lapse("1", 2_003)
    story.sweep(30_000)
    assert story.causes(100_000) == []


def test_a_sweep_after_the_word_allows_another_word() -> None:
    story = Story(Patience(unswept_ms=1_000))
    story.take("1", 0)
    story.lapse("1", 2_003)
    assert story.causes(4_000) == ["no_sweeper"]
    story.sweep(5_000)
    story.take("1", 6_000)
    story.lapse("1", 8_003)
    assert story.causes(20_000) == ["no_sweeper"]


def test_a_job_that_was_taken_swept_or_finished_waits_for_no_sweep() -> None:
    for end in ("take", "finish", "reap"):
        story = Story()
        story.take("1", 0)
        story.lapse("1", 2_003)
        if end == "reap":
            story.tell(Absent(*story.about("1", 3_000), swept=True), "reap")
        else:
            getattr(story, end)("1", 3_000)
        assert story.causes(70_000) == [], end


def test_a_job_that_is_only_renewed_is_told_once() -> None:
    story = Story()
    story.take("1", 0)
    for ms in range(1_000, 61_000, 1_000):
        story.renew("1", ms)
    assert story.causes(59_999) == []
    assert story.causes(60_500) == ["hung_processor"]
    story.renew("1", 61_000)
    assert story.causes(62_000) == []


def test_progress_shows_that_a_job_is_alive() -> None:
    story = Story()
    story.take("1", 0)
    for ms in range(1_000, 71_000, 1_000):
        story.renew("1", ms)
    story.tell(Untouched(*story.about("1", 50_000)), "write")
    assert story.causes(70_500) == []


def test_a_job_is_long_by_what_its_queues_jobs_take() -> None:
    story = Story()
    for job in range(5):
        story.take(f"done{job}", job)
        story.finish(f"done{job}", 10_000 + job)
    story.take("1", 10_100)
    for ms in range(11_000, 260_000, 1_000):
        story.renew("1", ms)
    assert story.causes(205_000) == [], "a job of this queue takes 10 s: 200 s are no reason yet"
    assert story.causes(259_500) == ["hung_processor"]


def test_a_job_that_is_renewed_no_more_is_none_that_hangs() -> None:
    story = Story()
    story.take("1", 0)
    for ms in range(1_000, 50_000, 1_000):
        story.renew("1", ms)
    assert story.causes(61_000) == []


def test_there_is_nothing_to_watch_when_all_is_done() -> None:
    story = Story()
    assert story.watches.idle
    story.take("1", 0)
    assert not story.watches.idle
    story.finish("1", 1)
    assert story.watches.idle
