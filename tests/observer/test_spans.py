"""One job, one trace: which spans there are, under what, from when to when, and in whose words."""

from __future__ import annotations

import msgspec
import pytest
from opentelemetry.trace import SpanKind

from emqproxy.locks.events import NoProof, PerhapsGranted, Place
from emqproxy.locks.verdicts import End, Finding, Grade, Verdict
from emqproxy.observer import ids
from emqproxy.observer.board import Board
from emqproxy.observer.spans import Spans
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import AttemptOver, JobFields, Line, ObserverSettings, Record, Snapshot
from tests.observer.drawing import draw, error, memory, names, one, parent_id
from tests.observer.records_factory import ANCHOR, TOKEN, Numbers, Story, blind, call, hello, wall_ns, window


def test_a_healthy_job_is_one_tree() -> None:
    story = Story()
    spans = draw([story.acquire(0), story.renew(7_500), story.finish(9_000)])
    assert names(spans) == ["acquire orders", "renew orders", "complete orders", "process orders"]
    process = one(spans, "process orders")
    assert process.context.trace_id == ids.trace_id("", 0, b"emq:orders:42")
    assert process.context.span_id == ids.attempt_id("", 0, b"emq:orders:42", TOKEN, 0)
    assert process.parent is None
    assert process.kind is SpanKind.CONSUMER
    assert (process.start_time, process.end_time) == (wall_ns(0), wall_ns(9_000))
    for span in spans[:-1]:
        assert parent_id(span) == process.context.span_id
        assert span.context.trace_id == process.context.trace_id
        assert span.kind is SpanKind.CLIENT
        assert span.end_time - span.start_time == 400_000
    assert [error(span) for span in spans] == [None] * 4
    assert not any("emq.violation" in span.attributes for span in spans)


def test_a_span_in_the_conventions_words() -> None:
    story = Story(db=2, queue=b"bull:q:")
    job = JobFields(name="mail", attempts_made=1, attempts_started=2, stalled_count=1, timestamp=1_700_000_000_000)
    greeting = hello(ObserverSettings(namespace="prod"))
    spans = draw([story.acquire(0, job), story.finish(9_000, "failed")], greeting=greeting)
    acquire = dict(one(spans, "acquire q").attributes)
    assert acquire == {
        "messaging.system": "bullmq",
        "messaging.operation.name": "acquire",
        "messaging.operation.type": "receive",
        "messaging.destination.name": "q",
        "messaging.message.id": "42",
        "messaging.client.id": "emq:b3JkZXJz:w:one",
        "db.system.name": "redis",
        "db.operation.name": "EVALSHA",
        "db.stored_procedure.name": "moveToActive-11",
        "db.namespace": "2",
        "server.address": "redis.internal",
        "server.port": 6379,
        "emq.job.key": "bull:q:42",
        "emq.job.name": "mail",
        "emq.job.attempt": 2,
        "emq.job.timestamp": 1_700_000_000_000,
        "emq.stall.count": 1,
        "emq.script.sha1": "c35baf769e5dc3d9194b2bceca04ab59f7c510f7",
        "emq.script.version": "5.65.1-6.7.0",
        "emq.script.match": "catalogue",
        "emq.state.from": "wait",
        "emq.state.to": "active",
        "emq.lock.duration_ms": 30_000,
        "emq.lock.finding": "sound",
        "emq.lock.token": "86bba6abe26e9156",
        "emq.worker.fingerprint": "99b3f7cb85eb31ad",
        "emq.worker.fetch": 3,
    }
    fail, process = one(spans, "fail q"), one(spans, "process q")
    assert fail.attributes["messaging.operation.type"] == "settle"
    assert fail.attributes["emq.state.to"] == process.attributes["emq.state.to"] == "failed"
    assert process.attributes["emq.job.name"] == "mail"
    assert process.attributes["emq.attempt.end"] == "released"
    assert process.context.trace_id == ids.trace_id("prod", 2, b"bull:q:42")


def test_a_late_success_is_flagged_and_no_error() -> None:
    story = Story()
    spans = draw([story.acquire(0), story.renew(20_000, Grade.LATE), story.finish(21_000)])
    renew, process = one(spans, "renew orders"), one(spans, "process orders")
    assert (renew.attributes["emq.lock.grade"], renew.attributes["emq.violation"], error(renew)) == ("late", True, None)
    assert (renew.attributes["emq.lock.age_ms"], renew.attributes["emq.lock.remaining_ms"]) == (19_999.6, 10_000.4)
    assert (process.attributes["emq.violation"], error(process)) == (True, None)


def test_a_lost_lock_in_full() -> None:
    """It lapses, is refused a renewal, is swept, and speaks once more after that."""
    story = Story()
    batch = [story.acquire(0), story.lapse(30_031), story.renew_refused(31_000), story.reap(40_000)]
    spans = draw([*batch, story.finish_refused(41_000)])
    process = one(spans, "process orders")
    assert error(process) == "LockLost"
    assert process.attributes["emq.attempt.end"] == "reaped"
    assert process.attributes["emq.attempt.renewals_refused"] == 1
    assert process.end_time == wall_ns(40_000)
    lapse = one(spans, "lapse orders")
    assert (lapse.kind, lapse.start_time, lapse.end_time) == (SpanKind.INTERNAL, wall_ns(30_031), wall_ns(30_031) + 1)
    assert error(lapse) == "LockLost"
    renew, finish = one(spans, "renew orders"), one(spans, "complete orders")
    assert error(renew) == "RenewRefused"
    assert (renew.attributes["emq.script.return_code"], renew.attributes["emq.lock.grade"]) == (0, "too_late")
    assert error(finish) == "JobLockMismatch"
    assert finish.attributes["emq.lock.finding"] == "straggler"
    for span in (lapse, renew, finish):
        assert parent_id(span) == process.context.span_id
    stall = one(spans, "stall orders")
    assert (stall.kind, stall.parent, error(stall)) == (SpanKind.INTERNAL, None, None)
    assert stall.context.trace_id == process.context.trace_id
    assert (stall.attributes["emq.state.from"], stall.attributes["emq.state.to"]) == ("active", "wait")


def test_a_takeover_stands_in_the_same_trace() -> None:
    numbers = Numbers()
    first, second = Story(numbers=numbers), Story(token=b"other:1", numbers=numbers)
    spans = draw([first.acquire(0), first.reap(40_000), second.acquire(41_000), second.finish(42_000)])
    one_attempt, other = [span for span in spans if span.name == "process orders"]
    assert one_attempt.context.trace_id == other.context.trace_id
    assert one_attempt.context.span_id != other.context.span_id


def test_the_same_token_on_the_same_job_twice_is_two_attempts() -> None:
    again = [Story(number=number) for number in (0, 1)]
    spans = draw([record for story in again for record in (story.acquire(0), story.finish(1))])
    assert len({span.context.span_id for span in spans if span.name == "process orders"}) == 2


def test_an_attempt_is_made_once() -> None:
    story = Story()
    batch = [story.acquire(0), story.finish(5)]
    assert story.attempt is not None
    spans = draw([*batch, AttemptOver(story.attempt), batch[-1]])
    assert names(spans).count("process orders") == 1


def test_a_verdict_that_waited_past_the_end_reopens_nothing() -> None:
    """The ledger may hold an accusing verdict until its explanations are settled; the attempt it speaks of is over."""
    story = Story()
    acquire, renew, finish = story.acquire(0), story.renew(5_000), story.finish(9_000)
    timeline = Timeline()
    timeline.anchor(ANCHOR)
    board = Board(timeline)
    with memory() as (emitter, exporter):
        spans = Spans(hello(), timeline, Tokens("off"), board, emitter)
        for record in (acquire, finish, renew):
            spans.on(record)
        made = exporter.get_finished_spans()
    assert len(board) == 0
    assert parent_id(one(made, "renew orders")) == one(made, "process orders").context.span_id


def test_an_attempt_that_ended_without_a_line() -> None:
    story = Story()
    acquire = story.acquire(0)
    over = msgspec.structs.replace(story._now(), end=End.LAPSED, ended=window(30_031), lapsed=True)
    process = one(draw([acquire, AttemptOver(over)]), "process orders")
    assert (process.end_time, error(process)) == (wall_ns(30_031), "LockLost")
    unsaid = msgspec.structs.replace(over, end=None, ended=None)
    assert one(draw([AttemptOver(unsaid)]), "process orders").end_time == wall_ns(30_000)


def test_what_the_grant_told_of_the_job_is_kept_for_the_attempts_span() -> None:
    carrier = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    story = Story()
    job = JobFields(name="mail", trace_context=carrier, parent_key="emq:flows:9")
    process = one(draw([story.acquire(0, job), story.renew(5_000), story.finish(9_000)]), "process orders")
    producer, parent = process.links
    assert f"{producer.context.trace_id:032x}-{producer.context.span_id:016x}" in carrier["traceparent"]
    assert producer.attributes == {"emq.link": "producer"}
    assert parent.context.trace_id == ids.trace_id("", 0, b"emq:flows:9")
    assert parent.attributes == {"emq.link": "parent", "emq.job.key": "emq:flows:9"}


def test_after_a_restart_open_attempts_end_as_attempts() -> None:
    story = Story()
    story.acquire(0)
    story.renew(7_500)
    snapshot = Snapshot((story._now(),))
    spans = draw([snapshot, story.finish(9_000)])
    assert names(spans) == ["complete orders", "process orders"]
    process = one(spans, "process orders")
    assert (process.start_time, process.attributes["emq.attempt.renewals"]) == (wall_ns(0), 1)
    assert process.context.span_id == parent_id(one(spans, "complete orders"))


def test_healthy_renewals_are_drawn_up_to_the_limit_flagged_ones_always() -> None:
    story = Story()
    batch = [story.acquire(0)]
    batch += [story.renew(5_000 * (n + 1), Grade.LATE if n == 6 else Grade.ON_TIME) for n in range(9)]
    batch += [story.renew_refused(60_000), story.finish(61_000)]
    spans = draw(batch, greeting=hello(ObserverSettings(renewals_per_attempt=3)))
    seqs = [span.attributes.get("emq.lock.seq") for span in spans if span.name == "renew orders"]
    assert seqs == [1, 2, 3, 7, None]
    assert one(spans, "process orders").attributes["emq.attempt.renewals"] == 9
    first_only = draw(batch[:3], greeting=hello(ObserverSettings(renewals_per_attempt=0)))
    assert names(first_only) == ["acquire orders", "renew orders"]


def test_a_batch_renewal_is_a_span_a_job() -> None:
    stories = [Story(job=job) for job in (b"1", b"2")]
    spans = draw([story.acquire(0) for story in stories] + [story.renew(9, batch_size=2) for story in stories])
    renewals = [span for span in spans if span.name == "renew orders"]
    assert [span.attributes["emq.batch.size"] for span in renewals] == [2, 2]
    assert renewals[0].context.trace_id != renewals[1].context.trace_id


@pytest.mark.parametrize(
    ("op", "name", "state"),
    [
        ("delay", "delay orders", "delayed"),
        ("retry", "retry orders", "wait"),
        ("wait", "wait orders", "wait"),
        ("wait_children", "wait_children orders", "waiting-children"),
        ("release", "release orders", None),
    ],
)
def test_the_other_ways_to_let_go(op: str, name: str, state: str | None) -> None:
    story = Story()
    batch = [story.acquire(0), story.finish(5)]
    line = Line(op, "ok", code=0, delay_ms=1_000 if op == "delay" else None)
    spans = draw([batch[0], msgspec.structs.replace(batch[1], line=line)])
    span = one(spans, name)
    assert (span.kind, span.attributes["messaging.operation.type"]) == (SpanKind.CLIENT, "settle")
    assert span.attributes.get("emq.state.to") == state
    assert span.attributes.get("emq.retry.delay_ms") == line.delay_ms
    assert one(spans, "process orders").attributes.get("emq.state.to") == state


def test_an_error_of_redis_is_told_by_its_prefix() -> None:
    story = Story()
    acquire = story.acquire(0)
    fact = NoProof(Place(7, 2), window(5), story.lock, story.queue, TOKEN)
    line = Line("finish", "error", target="completed", code_name="READONLY")
    spans = draw([acquire, story.record(fact, line, "moveToFinished-14", finding=Finding.SOUND)])
    span = one(spans, "complete orders")
    assert (error(span), span.attributes["db.response.status_code"]) == ("READONLY", "READONLY")
    assert "emq.script.return_name" not in span.attributes


def test_an_answer_that_never_came_is_no_error_of_anybody() -> None:
    story = Story()
    acquire = story.acquire(0)
    fact = NoProof(Place(7, 2), window(5), story.lock, story.queue, TOKEN)
    spans = draw(
        [acquire, story.record(fact, Line("finish", "unknown", target="completed"), "moveToFinished-14", finding=None)]
    )
    assert (error(spans[-1]), spans[-1].attributes["emq.outcome"]) == (None, "unknown")


def test_what_is_of_no_job_makes_no_span() -> None:
    story = Story()
    fact = PerhapsGranted(Place(7, 1), window(0), story.queue, TOKEN, 30_000)
    record = Record(1, Line("acquire", "error", code_name="OOM"), Verdict(fact, None), None, call("moveToActive-11"))
    assert draw([record, blind(story.numbers, 5)]) == []


def test_a_straggler_without_an_attempt_is_a_root_of_the_jobs_trace() -> None:
    story = Story()
    record = story.finish_refused(5)
    span = one(draw([record]), "complete orders")
    assert span.parent is None
    assert span.context.trace_id == ids.trace_id("", 0, b"emq:orders:42")
