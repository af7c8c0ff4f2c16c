"""Makes a span with the OpenTelemetry SDK, in one go, after the fact: with given ids and given times.

The ids are seeded into the SDK's id generator and used once; a root is started in an empty context, so that it is a
true root with our trace id. The console is served in this way, and OTLP where `otlp_pen` cannot.
"""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, Status, StatusCode, Tracer, set_span_in_context

from emqproxy.observer.draft import Draft, context_of


class SeededIds(IdGenerator):
    """Random ids, but for the next span whatever was seeded. For one thread."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self._trace_id: int | None = None
        self._span_id: int | None = None

    def seed(self, trace_id: int, span_id: int) -> None:
        """The next root gets this trace; the next span gets this id."""
        self._trace_id, self._span_id = trace_id, span_id

    def generate_trace_id(self) -> int:
        trace_id, self._trace_id = self._trace_id, None
        return self._random.generate_trace_id() if trace_id is None else trace_id

    def generate_span_id(self) -> int:
        span_id, self._span_id = self._span_id, None
        return self._random.generate_span_id() if span_id is None else span_id


class SdkPen:
    """`tracer` must sample everything that it is given."""

    def __init__(self, tracer: Tracer, ids: SeededIds) -> None:
        self._tracer = tracer
        self._ids = ids

    def draw(self, draft: Draft) -> None:
        """Makes the span; the provider's processors are told."""
        attributes = {name: value for group in draft.attributes for name, value in group.cells.items()}
        if draft.error is not None:
            attributes["error.type"] = draft.error
        self._ids.seed(draft.trace_id, draft.span_id)
        span = self._tracer.start_span(
            draft.name,
            context=_under(draft.trace_id, draft.parent_id),
            kind=draft.kind,
            attributes=attributes,
            links=draft.links,
            start_time=draft.start_ns,
        )
        if draft.error is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end(max(draft.start_ns, draft.end_ns))


def _under(trace_id: int, parent_id: int | None) -> Context:
    if parent_id is None:
        return Context()
    return set_span_in_context(NonRecordingSpan(context_of(trace_id, parent_id)), Context())
