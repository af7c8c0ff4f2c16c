"""Seeds are used once, and never leak into the next span."""

from __future__ import annotations

from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanKind, set_span_in_context

from emqproxy.observer.emitter import Draft, SeededIds, context_of
from tests.observer.drawing import memory


def draft(**fields: object) -> Draft:
    return Draft(name="x", kind=SpanKind.CLIENT, trace_id=5, start_ns=10, end_ns=20, attributes={}, **fields)


def test_a_root_gets_its_ids_and_the_next_one_others() -> None:
    with memory() as (emitter, exporter):
        emitter.emit(draft(span_id=7))
        emitter.emit(draft())
        first, second = exporter.get_finished_spans()
    assert (first.context.trace_id, first.context.span_id, first.parent) == (5, 7, None)
    assert second.context.trace_id == 5
    assert second.context.span_id not in (0, 7)


def test_a_child_leaves_no_seed_behind() -> None:
    ids = SeededIds()
    ids.seed(5, 7)
    assert ids.generate_span_id() == 7
    assert ids.generate_span_id() != 7
    with memory() as (emitter, exporter):
        emitter.emit(draft(parent_id=9))
        emitter.emit(draft(span_id=8))
        child, root = exporter.get_finished_spans()
    assert (child.parent.span_id, child.context.trace_id) == (9, 5)
    assert root.parent is None


def test_a_context_that_is_current_is_not_inherited() -> None:
    token = context.attach(set_span_in_context(NonRecordingSpan(context_of(1, 2))))
    try:
        assert trace.get_current_span().get_span_context().trace_id == 1
        with memory() as (emitter, exporter):
            emitter.emit(draft())
            (span,) = exporter.get_finished_spans()
    finally:
        context.detach(token)
    assert (span.context.trace_id, span.parent) == (5, None)


def test_a_span_never_ends_before_it_begins() -> None:
    with memory() as (emitter, exporter):
        emitter.emit(Draft(name="x", kind=SpanKind.CLIENT, trace_id=5, start_ns=20, end_ns=10, attributes={}))
        (span,) = exporter.get_finished_spans()
    assert (span.start_time, span.end_time) == (20, 20)


def test_our_ids_do_not_claim_to_be_random() -> None:
    assert SeededIds().is_trace_id_random() is False
