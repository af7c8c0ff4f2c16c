"""What only time tells: a queue that nobody sweeps, a job that is renewed and no more; each once, and only then."""

from __future__ import annotations

import random
from typing import Any

import pytest

from emqproxy.locks.causes import Diagnosis
from emqproxy.locks.events import (
    Absent,
    AnyFact,
    Granted,
    Lapsed,
    Lock,
    NoProof,
    Nothing,
    Perhaps,
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

    def sweep(self, ms: float, interval_ms: int | None = None) -> None:
        self.tell(Nothing(Place(2, 1), at(ms), QUEUE), "sweep", interval_ms=interval_ms)

    def due(self, ms: float) -> list[Diagnosis]:
        return [watch.found for watch in self.watches.due(int(ms * MS))]

    def causes(self, ms: float) -> list[str]:
        return [found.cause for found in self.due(ms)]


def test_a_lapsed_job_that_nobody_sweeps_is_told_once_after_a_minute() -> None:
    story = Story()
    story.take("1", 0)
    story.lapse("1", 2_003)
    assert story.causes(62_002) == []
    (told,) = story.due(62_004)
    assert told.cause == "no_sweeper"
    assert "60.0 s before, and no stalled sweep was ever seen" in told.because
    assert story.causes(90_000) == []


def test_where_sweeps_say_their_interval_two_of_it_are_waited_for() -> None:
    story = Story()
    for ms in (0, 1_500):
        story.sweep(ms, 1_500)
    story.take("1", 2_000)
    story.lapse("1", 4_003)
    assert story.causes(7_002) == []
    (told,) = story.due(7_004)
    assert told.cause == "no_sweeper"
    assert "seen 5.5 s before (one is due every 1.5 s there, as the sweeps say themselves)" in told.because


def test_where_no_sweep_says_its_interval_the_usual_one_is_taken() -> None:
    story = Story()
    for ms in (0, 1_500, 3_000):
        story.sweep(ms)
    story.take("1", 3_100)
    story.lapse("1", 5_103)
    assert story.causes(65_102) == []
    (told,) = story.due(65_104)
    assert "no sweep says how often one is due: 30.0 s is taken for it" in told.because


def test_a_longer_gap_than_the_usual_interval_is_waited_for_twice() -> None:
    story = Story()
    for ms in (0, 100_000):
        story.sweep(ms)
    story.lapse("1", 100_001)
    assert story.causes(300_000) == []
    assert story.causes(300_002) == ["no_sweeper"]


@pytest.mark.parametrize("seed", range(20))
def test_three_workers_that_sweep_irregularly_are_a_sweeper_until_the_last_has_died(seed: int) -> None:
    """They share a guard, start when they like and are late by up to half their interval; jobs lapse all the while,
    and are named when two sweeps got past the guard. The gaps between their calls are as they come."""
    draw, story, interval_ms = random.Random(seed), Story(), 30_000
    deaths = sorted(draw.uniform(0, 1_200_000) for _ in range(3))
    calls = []
    for death in deaths:
        ms = draw.uniform(0, interval_ms)
        while ms < death:
            calls.append(ms)
            ms += interval_ms * draw.uniform(1, 1.5)
    calls.sort()
    last = calls[-1] if calls else 0.0
    lapses = [draw.uniform(0, last) for _ in range(40)]
    guard, marked, lost = -1.0, set[str](), dict[str, float]()
    events = sorted([(ms, "sweep") for ms in calls] + [(ms, "lapse") for ms in lapses])
    ticks = iter(range(0, 10_000_000, 1_000))
    for number, (ms, what) in enumerate(events):
        for tick in ticks:
            assert story.causes(tick) == [], "one of them is alive"
            if tick >= ms:
                break
        if what == "lapse":
            story.lapse(str(number), ms)
            lost[str(number)] = ms
        elif ms < guard:
            story.sweep(ms, interval_ms)
        else:
            guard, named = ms + interval_ms, sorted(marked & set(lost))
            marked = set(lost) - marked
            for job in named:
                story.tell(Absent(*story.about(job, ms), swept=True), "reap", interval_ms=interval_ms)
                del lost[job]
            if not named:
                story.sweep(ms, interval_ms)
    if not lost:
        story.lapse("last", last + 1)
    assert story.causes(max(last, *lapses) + 2 * interval_ms - 1) == []
    assert story.causes(max(last, *lapses) + 2 * interval_ms + 2) == ["no_sweeper"]


def test_of_sweepers_with_several_intervals_the_longest_lives_longest() -> None:
    story = Story()
    for ms in range(0, 300_001, 30_000):
        story.sweep(ms, 30_000)
    story.sweep(300_000, 300_000)
    story.lapse("1", 300_001)
    assert story.causes(900_000) == []
    assert story.causes(900_002) == ["no_sweeper"]


def test_an_interval_that_nobody_names_any_more_is_forgotten() -> None:
    story = Story()
    story.sweep(0, 300_000)
    for ms in range(0, 630_001, 30_000):
        story.sweep(ms, 30_000)
    story.lapse("1", 630_001)
    assert story.causes(690_000) == []
    assert story.causes(690_002) == ["no_sweeper"]


@pytest.mark.parametrize(("interval_ms", "waited_ms"), [(200, 2_000), (1, 60_000)])
def test_a_very_short_interval_is_waited_for_longer_or_is_none(interval_ms: int, waited_ms: int) -> None:
    story = Story()
    story.sweep(0, interval_ms)
    story.lapse("1", 10)
    assert story.causes(waited_ms) == []
    assert story.causes(waited_ms + 11) == ["no_sweeper"]


def test_one_sweep_after_a_lapse_only_marks_so_that_another_is_waited_for() -> None:
    story = Story()
    story.take("1", 0)
    story.lapse("1", 2_003)
    story.sweep(30_000, 30_000)
    assert story.causes(89_999) == []
    (told,) = story.due(90_000)
    assert told.because.startswith("A job lost its lock 88.0 s before, and the last stalled sweep on its queue")


def test_a_job_that_sweeps_did_not_name_for_long_is_not_in_their_list() -> None:
    story = Story()
    story.take("1", 0)
    story.lapse("1", 2_003)
    for ms in range(30_000, 150_001, 30_000):
        story.sweep(ms, 30_000)
    assert story.causes(1_000_000) == []


def test_who_is_refused_for_want_of_a_lock_leaves_the_job_where_it_is() -> None:
    story = Story()
    story.take("1", 0)
    story.lapse("1", 2_003)
    story.tell(Absent(*story.about("1", 3_000)), "finish", "refused", code=-2)
    assert story.causes(62_004) == ["no_sweeper"]


def test_what_may_have_been_done_waits_for_no_sweep() -> None:
    for gone in (False, True):
        story = Story()
        story.take("1", 0)
        story.lapse("1", 2_003)
        about = story.about("1", 3_000)
        if gone:
            story.tell(NoProof(*about), "finish", "refused", code_name="JobNotExist")
        else:
            story.tell(Perhaps(*about, None), "finish", "unknown")
        assert story.causes(62_004) == [], gone


def test_a_sweep_after_the_word_allows_another_word() -> None:
    story = Story(Patience(usual_ms=500, quiet_ms_min=1_000))
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
