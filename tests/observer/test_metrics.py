"""The counting itself: what is bounded, and what becomes of locks whose end is never told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from emqproxy.locks.verdicts import Grade
from emqproxy.observer import metrics as metrics_module
from emqproxy.observer.metrics import Metrics, QueueFigures
from emqproxy.observer.metrics_table import OTHER, QUEUES_MAX, SCRIPTS_MAX
from emqproxy.records import Anchor, AttemptOver, CallSite, Record, Snapshot
from tests.observer.records_factory import ANCHOR, BOOT_NS, MS, TTL_MS, WALL_NS, Numbers, Story, blind


def anchor(at_ms: float, dropped: int = 0) -> Anchor:
    return Anchor(BOOT_NS + int(at_ms * MS), WALL_NS + int(at_ms * MS), dropped, 0)


def counting(*messages: Any) -> Metrics:
    metrics = Metrics()
    for message in (ANCHOR, *messages):
        metrics.on(message)
    return metrics


def of(metrics: Metrics, queue: str = "orders") -> QueueFigures:
    return metrics.queues["emq", queue]


def held(metrics: Metrics) -> int:
    return sum(metrics.held()[0].values())


def test_a_record_is_counted_once_under_its_words() -> None:
    story = Story()
    metrics = counting(story.acquire(0), story.renew(5), story.renew(6), story.renew(7, Grade.LATE), story.finish(8))
    counts = {(words[0], words[5]): told.count for words, told in of(metrics).told.items()}
    assert counts == {
        ("acquire", None): 1, ("renew", Grade.ON_TIME): 2, ("renew", Grade.LATE): 1, ("finish", None): 1,
    }  # fmt: skip
    assert metrics.records == 5
    assert sum(of(metrics).kept.counts) == 1
    assert of(metrics).kept.total == 8 * MS


def test_queues_beyond_the_bound_are_others_and_none_is_lost() -> None:
    numbers = Numbers()
    metrics = Metrics()
    for number in range(QUEUES_MAX + 50):
        for _ in range(2):
            metrics.on(Story(queue=b"emq:queue-%d:" % number, numbers=numbers).acquire(0))
    assert len(metrics.queues) == QUEUES_MAX + 1
    told = {name: sum(told.count for told in figures.told.values()) for (_, name), figures in metrics.queues.items()}
    assert told.pop(OTHER) == 100
    assert set(told.values()) == {2}


def test_scripts_beyond_the_bound_are_others() -> None:
    metrics, story = Metrics(), Story()
    record = story.acquire(0)
    for number in range(SCRIPTS_MAX + 20):
        metrics.on(scripted(record, f"script-{number}"))
        metrics.on(scripted(record, f"script-{number}"))
    scripts = {words[-1]: told.count for words, told in of(metrics).told.items()}
    assert len(scripts) == SCRIPTS_MAX + 1
    assert scripts[OTHER] == 40


def scripted(record: Record, script: str) -> Record:
    assert record.call is not None
    call: CallSite = msgspec.structs.replace(record.call, script=script)
    return msgspec.structs.replace(record, call=call)


def test_a_count_that_a_script_answers_is_no_code() -> None:
    metrics, story = Metrics(), Story()
    record = story.finish_refused(0)
    for code in range(2, 500):
        line = msgspec.structs.replace(record.line, code=code)
        metrics.on(msgspec.structs.replace(record, line=line))
    assert len(of(metrics).told) == 1


def test_what_belongs_to_no_queue_is_counted_beside_them() -> None:
    metrics = counting(blind(Numbers(), 1))
    assert metrics.queues == {}
    assert [words[0] for words in metrics.nowhere.told] == ["blind"]


@pytest.mark.parametrize("how", ["finish", "reap", "lapse", "told later", "time"])
def test_a_lock_is_held_until(how: str) -> None:
    story = Story()
    metrics = counting(story.acquire(0), story.renew(10))
    assert held(metrics) == 1
    match how:
        case "finish":
            metrics.on(story.finish(20))
        case "reap":
            metrics.on(story.reap(20))
        case "lapse":
            metrics.on(anchor(31_000))
            metrics.on(story.lapse(30_900))
        case "told later":
            story.finish(20)
            assert story.attempt is not None
            metrics.on(AttemptOver(story.attempt))
        case "time":
            metrics.on(anchor(10 + TTL_MS + 1))
    assert held(metrics) == 0


def test_the_oldest_is_as_old_as_its_pickup_however_often_it_was_renewed() -> None:
    numbers = Numbers()
    old, young = Story(job=b"1", numbers=numbers), Story(job=b"2", numbers=numbers)
    metrics = counting(old.acquire(0), young.acquire(9_000), old.renew(9_500), anchor(10_000))
    counts, oldest_s = metrics.held()
    assert list(counts.values()) == [2]
    assert oldest_s == pytest.approx(10, abs=1)
    metrics.on(old.finish(10_000))
    assert metrics.held()[1] == pytest.approx(1, abs=1)


def test_open_attempts_that_are_told_at_the_start_are_held() -> None:
    story = Story()
    story.acquire(0)
    assert story.attempt is not None
    metrics = counting(Snapshot((story.attempt,)))
    assert held(metrics) == 1
    metrics.on(story.finish(5))
    assert held(metrics) == 0


def test_a_lock_whose_end_is_never_told_is_forgotten() -> None:
    metrics = counting(Story().acquire(0), anchor(TTL_MS + 60_000))
    assert len(metrics._held) == 1
    metrics.on(anchor(TTL_MS + 200_000))
    assert metrics._held == {}


def test_no_more_locks_are_remembered_than_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "_HELD_MAX", 10)
    numbers = Numbers()
    stories = [Story(job=b"%d" % number, numbers=numbers) for number in range(20)]
    metrics = counting(*(story.acquire(0) for story in stories), *(story.finish(5) for story in stories))
    assert metrics._held == {}
    assert sum(of(metrics).kept.counts) == 20


def test_switched_off_it_takes_what_the_data_plane_says_of_itself_alone() -> None:
    metrics = Metrics()
    assert metrics.silent_s is None
    for message in (ANCHOR, Story().acquire(0), anchor(1_000, dropped=7)):
        metrics.on_gauges(message)
    assert (metrics.records, metrics.queues, metrics.dropped) == (0, {}, 7)
    assert metrics.silent_s is None
