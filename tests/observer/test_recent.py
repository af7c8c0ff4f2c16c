"""The last lines of jobs, in memory: what is kept, and what goes first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emqproxy.locks.events import Nothing, Place, Queue, Wiped
from emqproxy.locks.verdicts import Grade, Verdict
from emqproxy.observer import recent as recent_module
from emqproxy.observer.journal_entry import Entries
from emqproxy.observer.recent import INTERVAL_MS, LINES_MAX, WIDE_MAX, Recent
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import Line, Record
from tests.observer.records_factory import ANCHOR, RUN, Story, blind, window


@pytest.fixture
def recent() -> Recent:
    timeline = Timeline()
    timeline.anchor(ANCHOR)
    return Recent(Entries(RUN, timeline, Tokens("fingerprint")))


def page(recent: Recent, key: str, db: int = 0) -> dict[str, Any]:
    body = recent.page(key, db)
    assert body is not None
    read: dict[str, Any] = json.loads(body)
    return read


def test_a_job_s_lines_are_the_journal_s(recent: Recent) -> None:
    story = Story(db=3)
    for message in (ANCHOR, story.acquire(0), story.renew(5_000), blind(story.numbers, 6_000)):
        recent.on(message)
    told = page(recent, "emq:orders:42", 3)
    assert (told["v"], told["key"], told["db"], told["left_out"]) == (1, "emq:orders:42", 3, 0)
    assert [(line["op"], line["effect"], line["run"]) for line in told["lines"]] == [
        ("acquire", "granted", RUN),
        ("renew", "renewed", RUN),
    ]
    assert recent.page("emq:orders:42", 0) is None


def wipe(seq: int, at_ms: float, prefix: bytes = b"", db: int | None = None) -> Record:
    return Record(seq, Line("wipe", "ok"), Verdict(Wiped(Place(9, seq), window(at_ms), db, prefix), None), None, None)


def test_a_wipe_that_reached_a_job_in_its_time_is_among_its_lines(recent: Recent) -> None:
    story = Story(db=3)
    recent.on(wipe(1, -5_000))
    recent.on(story.acquire(0))
    for number, (prefix, db) in enumerate([(b"", None), (b"emq:mails:", 3), (b"", 0), (b"emq:orders:", 3), (b"", 3)]):
        recent.on(wipe(100 + number, 1_000 + number, prefix, db))
    told = page(recent, "emq:orders:42", 3)["lines"]
    assert [(line["op"], line["seq"]) for line in told[1:]] == [("wipe", 100), ("wipe", 103), ("wipe", 104)]


def test_of_a_long_job_renewals_in_good_time_go_first(recent: Recent) -> None:
    story = Story()
    recent.on(story.acquire(0))
    recent.on(story.renew(1, Grade.LATE))
    for at in range(LINES_MAX + 10):
        recent.on(story.renew(at + 2))
    recent.on(story.finish(100_000))
    told = page(recent, "emq:orders:42")
    assert (len(told["lines"]), told["left_out"]) == (LINES_MAX, 13)
    assert [line["op"] for line in told["lines"][:2]] == ["acquire", "renew"]
    assert told["lines"][1]["grade"] == "late"
    assert told["lines"][-1]["op"] == "finish"


def test_jobs_and_lines_in_all_are_bounded(recent: Recent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_module, "JOBS_MAX", 3)
    monkeypatch.setattr(recent_module, "TOTAL_MAX", 5)
    for job in b"abcd":
        recent.on(Story(job=bytes([job])).acquire(0))
    assert recent.page("emq:orders:a", 0) is None
    story = Story(job=b"d")
    for message in (story.acquire(1), story.renew(2), story.renew(3)):
        recent.on(message)
    assert recent.page("emq:orders:b", 0) is None
    assert len(page(recent, "emq:orders:d")["lines"]) == 4


def test_a_key_that_is_no_utf8_is_asked_for_as_it_is_told(recent: Recent) -> None:
    recent.on(Story(job=b"\xff").acquire(0))
    assert page(recent, "emq:orders:\\xff")["lines"][0]["job"] == "\\xff"


def of_queue(seq: int, at_ms: float, line: Line, queue: bytes = b"emq:orders:", db: int = 0) -> Record:
    """A line that names no job."""
    return Record(seq, line, Verdict(Nothing(Place(9, seq), window(at_ms), Queue(db, queue)), None), None, None)


def sweep(seq: int, at_ms: float, queue: bytes = b"emq:orders:", interval_ms: int | None = None) -> Record:
    return of_queue(seq, at_ms, Line("sweep", "ok", interval_ms=interval_ms), queue)


def test_a_hand_on_a_whole_list_of_its_queue_is_among_a_job_s_lines(recent: Recent) -> None:
    recent.on(Story().acquire(0))
    for number, (queue, db) in enumerate([(b"emq:mails:", 0), (b"emq:orders:", 3), (b"emq:orders:", 0)]):
        recent.on(of_queue(100 + number, 1_000, Line("raw", "ok", target="active", code=1), queue, db))
    told = page(recent, "emq:orders:42")["lines"]
    assert [(line["op"], line["target"], line["seq"]) for line in told[1:]] == [("raw", "active", 102)]


def test_hands_push_no_wipe_out(recent: Recent) -> None:
    recent.on(Story().acquire(0))
    recent.on(wipe(100, 1_000))
    for number in range(WIDE_MAX + 1):
        recent.on(of_queue(101 + number, 2_000, Line("raw", "ok", target="active")))
    told = page(recent, "emq:orders:42")["lines"]
    assert told[1]["op"] == "wipe"
    assert len(told) == 2 + WIDE_MAX


def test_the_last_sweep_before_a_job_s_last_line_is_among_its_lines(recent: Recent) -> None:
    story = Story()
    recent.on(story.acquire(0))
    recent.on(sweep(100, 1_000))
    recent.on(sweep(101, 2_000))
    assert [line["op"] for line in page(recent, "emq:orders:42")["lines"]] == ["acquire"], "none was before it"
    recent.on(story.renew(3_000))
    recent.on(sweep(102, 4_000))
    recent.on(sweep(103, 4_000, b"emq:mails:"))
    told = page(recent, "emq:orders:42")["lines"]
    assert sorted(line["seq"] for line in told if line["op"] == "sweep") == [101]
    recent.on(story.renew(5_000))
    assert [line["seq"] for line in page(recent, "emq:orders:42")["lines"] if line["op"] == "sweep"] == [102]


@pytest.mark.parametrize(("interval_ms", "before_ms"), [(None, 2 * INTERVAL_MS), (5_000, 10_000)])
def test_a_sweep_long_before_a_job_tells_nothing_of_its_time(
    recent: Recent, interval_ms: int | None, before_ms: int
) -> None:
    recent.on(sweep(100, -before_ms - 1, interval_ms=interval_ms))
    recent.on(Story().acquire(0))
    assert [line["op"] for line in page(recent, "emq:orders:42")["lines"]] == ["acquire"]
    recent.on(sweep(101, -before_ms + 1, interval_ms=interval_ms))
    recent.on(Story(job=b"43").acquire(0))
    assert {line["op"] for line in page(recent, "emq:orders:43")["lines"]} == {"acquire", "sweep"}


def test_sweeps_of_so_many_queues_are_kept(recent: Recent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_module, "QUEUES_MAX", 2)
    for number, queue in enumerate([b"emq:a:", b"emq:b:", b"emq:a:", b"emq:c:"]):
        recent.on(sweep(100 + number, 1_000 + number, queue))
    for queue in (b"emq:a:", b"emq:b:", b"emq:c:"):
        recent.on(Story(queue=queue).acquire(2_000))
    swept = {q: [line["op"] for line in page(recent, f"emq:{q}:42")["lines"]].count("sweep") for q in "abc"}
    assert swept == {"a": 1, "b": 0, "c": 1}
