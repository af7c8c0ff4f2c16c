"""What others than its holder do to a job: adds, writes, removals and hands on its lock's key."""

from __future__ import annotations

import msgspec
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from emqproxy.locks.events import Deleted, Overwritten, Place, Untouched
from emqproxy.locks.verdicts import End, Finding, Verdict
from emqproxy.observer import ids
from emqproxy.records import CallSite, JobFields, Line, Record
from tests.observer.drawing import draw, one
from tests.observer.records_factory import Story, call, decided, window


def told_by(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def untouched(story: Story, line: Line, script: str) -> Record:
    fact = Untouched(Place(8, 1), window(5), story.lock, story.queue, b"")
    return Record(1, line, Verdict(fact, None), story.peer, call(script))


def test_an_add_is_a_root_of_the_jobs_trace_with_a_link_to_its_producer() -> None:
    job = JobFields(name="resize", timestamp=17, trace_context={"traceparent": TRACEPARENT})
    record = untouched(Story(), Line("add", "ok", job=job), "addStandardJob-9")
    (span,) = draw([record])
    assert (span.name, span.kind, span.parent) == ("add orders", SpanKind.PRODUCER, None)
    assert span.context.trace_id == ids.trace_id("", 0, b"emq:orders:42")
    told = told_by(span)
    assert (told["messaging.operation.type"], told["emq.job.name"]) == ("send", "resize")
    assert "emq.lock.token" not in told
    (link,) = span.links
    assert f"{link.context.trace_id:032x}" in TRACEPARENT


def test_a_hand_on_the_locks_key_is_a_root_and_ends_the_attempt() -> None:
    story = Story()
    acquired = story.acquire(0)
    assert story.attempt is not None
    over = msgspec.structs.replace(story.attempt, end=End.WIPED, ended=window(5))
    fact = Deleted(Place(8, 1), window(5), story.lock, story.queue, b"")
    verdict = Verdict(fact, Finding.UNWITNESSED, over=(over,))
    by_hand = CallSite("DEL", "DEL", "", "", "")
    spans = draw([acquired, Record(2, Line("raw", "ok", code=1), verdict, None, by_hand)])
    raw, process = one(spans, "raw orders"), one(spans, "process orders")
    assert raw.parent is None
    told = told_by(raw)
    assert told["db.operation.name"] == "DEL"
    assert not {"db.stored_procedure.name", "emq.script.sha1", "emq.script.match", "emq.violation"} & set(told)
    assert told_by(process)["emq.attempt.end"] == "wiped"


def test_writes_make_no_span_and_refused_removals_are_errors() -> None:
    story = Story()
    assert draw([untouched(story, Line("write", "ok", code=0), "updateProgress-3")]) == []
    (span,) = draw([untouched(story, Line("remove", "refused", code=0, code_name="JobLocked"), "removeJob-2")])
    assert (span.name, span.status.status_code, told_by(span)["error.type"]) == (
        "remove orders",
        StatusCode.ERROR,
        "JobLocked",
    )


def test_a_write_that_breaks_a_rule_is_told_whether_it_passed_or_not() -> None:
    story = Story()
    write = untouched(story, Line("write", "ok", code=0), "updateProgress-3")
    (shadowed,) = draw([decided(write, "would_block", "zombie_write")], sampler=ALWAYS_OFF)
    told = told_by(shadowed)
    assert (shadowed.name, shadowed.parent, shadowed.status.status_code) == ("write orders", None, StatusCode.UNSET)
    assert (told["emq.enforcement.action"], told["emq.enforcement.rule"]) == ("would_block", "zombie_write")
    assert "emq.violation" not in told
    refused = untouched(story, Line("write", "blocked"), "updateProgress-3")
    (blocked,) = draw([decided(refused, "blocked", "zombie_write")], sampler=ALWAYS_OFF)
    told = told_by(blocked)
    assert (blocked.status.status_code, told["error.type"]) == (StatusCode.ERROR, "enforcement_blocked")
    assert (told["emq.enforcement.action"], told["emq.violation"], told["emq.outcome"]) == ("blocked", True, "blocked")
    assert draw([decided(write, "passed")]) == []


def test_an_unknown_script_is_named_by_its_sha() -> None:
    story = Story()
    fact = Overwritten(Place(8, 1), window(5), story.lock, story.queue, b"")
    unknown = CallSite("EVALSHA", "", "f" * 40, "", "")
    (span,) = draw([Record(1, Line("raw", "ok"), Verdict(fact, Finding.UNWITNESSED), None, unknown)])
    assert told_by(span)["db.stored_procedure.name"] == "f" * 40
