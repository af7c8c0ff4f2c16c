"""The last lines of jobs, in memory: what is kept, and what goes first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emqproxy.locks.events import Place, Wiped
from emqproxy.locks.verdicts import Grade, Verdict
from emqproxy.observer import recent as recent_module
from emqproxy.observer.journal_entry import Entries
from emqproxy.observer.recent import LINES_MAX, Recent
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
