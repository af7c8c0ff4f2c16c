"""What a human should see is in the log as it happens, with its figures and without its token."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import msgspec
import pytest
import structlog

from emqproxy import logs
from emqproxy.locks.events import Nothing, Place, Queue
from emqproxy.locks.verdicts import Grade, Verdict
from emqproxy.observer.alerts import Alerts
from emqproxy.observer.ids import trace_id
from emqproxy.observer.tokens import Tokens
from emqproxy.records import CallSite, Line, Message, Record
from tests.observer.records_factory import TOKEN, Story, blind, decided, window


@pytest.fixture
def log() -> Iterator[StringIO]:
    stream = StringIO()
    before = structlog.get_config()
    logs.configure("info", stream)
    yield stream
    structlog.configure(**before)


def said(log: StringIO, *batch: Message) -> list[dict[str, Any]]:
    alerts = Alerts(Tokens("fingerprint"), "ns")
    for message in batch:
        alerts.on(message)
    return [json.loads(text) for text in log.getvalue().splitlines()]


def test_a_healthy_job_says_nothing(log: StringIO) -> None:
    story = Story()
    assert said(log, story.acquire(0), story.renew(7_500), story.finish(9_000), blind(story.numbers, 9)) == []


def test_late_critical_too_late_and_the_lapse_are_said_with_their_figures(log: StringIO) -> None:
    story = Story()
    batch = [story.acquire(0), story.renew(20_000, Grade.LATE), story.renew(45_500, Grade.CRITICAL)]
    lines = said(log, *batch, story.lapse(75_531), story.renew_refused(76_500))
    assert [line.get("grade") for line in lines] == ["late", "critical", None, "too_late"]
    assert [line["event"] for line in lines] == ["renew ok", "renew ok", "lock lapsed", "renew refused"]
    late = lines[0]
    assert (late["prefix"], late["queue"], late["job"], late["db"]) == ("emq", "orders", "42", 0)
    assert (late["age_ms"], late["remaining_ms"], late["ttl_ms"]) == (19_999.6, 10_000.4, 30_000)
    assert late["token"] == Tokens("fingerprint").name(TOKEN).token
    assert late["trace_id"] == f"{trace_id('ns', 0, b'emq:orders:42'):032x}"
    assert TOKEN.decode() not in log.getvalue()


def test_a_blocked_call_is_one_line_that_names_who_was_refused_what_and_why(log: StringIO) -> None:
    story = Story()
    story.acquire(0)
    first = story.finish_blocked(5)
    place = first.verdict.fact.place
    others = [
        msgspec.structs.replace(
            first, verdict=Verdict(msgspec.structs.replace(fact, place=place._replace(part=part)), None)
        )
        for part, fact in enumerate([first.verdict.fact] * 3, 1)
    ]
    (line,) = said(log, first, *others)  # as of a batch renewal
    assert (line["event"], line["action"], line["rule"]) == ("finish blocked", "blocked", "lapsed_holder")
    assert (line["client"], line["client_name"]) == ("127.0.0.1:51234", "emq:b3JkZXJz:w:one")
    assert (line["script"], line["queue"], line["job"]) == ("moveToFinished-14", "orders", "42")
    assert TOKEN.decode() not in log.getvalue()
    assert len(said(log, story.finish_blocked(6), story.finish_blocked(7))) == 3  # with the one before


def test_a_blocked_call_that_names_no_job_is_said_too(log: StringIO) -> None:
    line = Line("wipe", "blocked")
    call = CallSite("FLUSHALL", "FLUSHALL", "", "", "")
    fact = Nothing(Place(7, 1), window(5), Queue(3, b""))
    record = Record(1, line, Verdict(fact, None), Story().peer, call, action="blocked", rule="mass_delete")
    (told,) = said(log, record)
    assert (told["event"], told["rule"], told["script"], told["db"]) == ("wipe blocked", "mass_delete", "FLUSHALL", 3)
    assert "job" not in told


def test_what_would_be_blocked_is_a_line_only_where_it_is_a_violation(log: StringIO) -> None:
    story = Story()
    passed = decided(story.acquire(0), "would_block", "bad_duration")
    (line,) = said(log, passed, decided(story.renew_refused(5), "would_block", "lapsed_holder"))
    assert (line["event"], line["action"], line["rule"]) == ("renew refused", "would_block", "lapsed_holder")


def test_a_flood_is_cut_and_counted(log: StringIO) -> None:
    story = Story()
    story.acquire(0)
    lines = said(log, *[story.renew_refused(31_000) for _ in range(2_000)])
    assert 20 <= len(lines) <= 200
