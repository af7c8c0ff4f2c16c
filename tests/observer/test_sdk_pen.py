"""Seeds are used once, and never leak into the next span."""

from __future__ import annotations

from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanKind, set_span_in_context

from emqproxy.observer.draft import Draft, context_of
from emqproxy.observer.sdk_pen import SeededIds
from tests.observer.drawing import memory


def draft(span_id: int, parent_id: int | None = None) -> Draft:
    return Draft("x", SpanKind.CLIENT, 5, span_id, 10, 20, (), parent_id=parent_id)


def test_a_seed_is_used_once() -> None:
    ids = SeededIds()
    ids.seed(5, 7)
    assert (ids.generate_trace_id(), ids.generate_span_id()) == (5, 7)
    assert 7 != ids.generate_span_id() != 0
    assert 5 != ids.generate_trace_id() != 0


def test_a_child_leaves_no_seed_behind() -> None:
    with memory() as (emitter, exporter):
        emitter.make(draft(7, parent_id=9))
        emitter.make(draft(8))
        child, root = exporter.get_finished_spans()
    assert (child.parent.span_id, child.context.trace_id, child.context.span_id) == (9, 5, 7)
    assert (root.parent, root.context.trace_id, root.context.span_id) == (None, 5, 8)


def test_a_context_that_is_current_is_not_inherited() -> None:
    token = context.attach(set_span_in_context(NonRecordingSpan(context_of(1, 2))))
    try:
        assert trace.get_current_span().get_span_context().trace_id == 1
        with memory() as (emitter, exporter):
            emitter.make(draft(7))
            (span,) = exporter.get_finished_spans()
    finally:
        context.detach(token)
    assert (span.context.trace_id, span.parent) == (5, None)


def test_a_span_never_ends_before_it_begins() -> None:
    with memory() as (emitter, exporter):
        emitter.make(Draft("x", SpanKind.CLIENT, 5, 7, 20, 10, ()))
        (span,) = exporter.get_finished_spans()
    assert (span.start_time, span.end_time) == (20, 20)


def test_our_ids_do_not_claim_to_be_random() -> None:
    assert SeededIds().is_trace_id_random() is False
