"""Makes a span in one go, after the fact: with a given trace, a given span id where it has one, and given times.

The ids are seeded into the SDK's id generator and used once; a root is started in an empty context, so that it is a
true root with our trace id. What is kept is decided here, before the SDK is asked, because children are made before
their attempt's span: the configured sampler looks at the trace id alone, and violations and errors are always kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

Value: TypeAlias = str | int | float | bool
Attributes: TypeAlias = Mapping[str, Value | None]
"""None: not known, not told."""


class Draft(msgspec.Struct, frozen=True):
    """A span, as it is to be."""

    name: str
    kind: SpanKind
    trace_id: int
    start_ns: int
    """Unix nanoseconds, as is `end_ns`."""
    end_ns: int
    attributes: Attributes
    parent_id: int | None = None
    """The attempt it belongs to; None for a root."""
    span_id: int | None = None
    """None: a random one."""
    links: Sequence[Link] = ()
    error: str | None = None
    """`error.type`; None leaves the status unset."""
    keep: bool = False
    """Whatever the sampler says."""


class SeededIds(IdGenerator):
    """Random ids, but for the next span whatever was seeded. For one thread."""

    def __init__(self) -> None:
        self.random = RandomIdGenerator()
        self._trace_id: int | None = None
        self._span_id: int | None = None

    def seed(self, trace_id: int, span_id: int | None) -> None:
        """The next root gets this trace; the next span gets this id, if any."""
        self._trace_id, self._span_id = trace_id, span_id

    def generate_trace_id(self) -> int:
        trace_id, self._trace_id = self._trace_id, None
        return self.random.generate_trace_id() if trace_id is None else trace_id

    def generate_span_id(self) -> int:
        span_id, self._span_id = self._span_id, None
        return self.random.generate_span_id() if span_id is None else span_id


class Emitter:
    """The door to the SDK. `tracer` must sample everything that it is given."""

    def __init__(self, tracer: Tracer, ids: SeededIds, sampler: Sampler) -> None:
        self._tracer = tracer
        self._ids = ids
        self._sampler = sampler
        self.made = 0

    def random_trace(self) -> int:
        """For what belongs to no job."""
        return self._ids.random.generate_trace_id()

    def random_span(self) -> int:
        """For a span whose id must be known after it was made."""
        return self._ids.random.generate_span_id()

    def samples(self, trace_id: int) -> bool:
        """The same answer for one trace id, whoever asks and whenever."""
        decided = self._sampler.should_sample(Context(), trace_id, "process", SpanKind.CONSUMER)
        return decided.decision is Decision.RECORD_AND_SAMPLE

    def emit(self, draft: Draft) -> bool:
        """Makes the span if it is to be kept; whether it was."""
        if not (draft.keep or draft.error is not None or self.samples(draft.trace_id)):
            return False
        attributes = {name: value for name, value in draft.attributes.items() if value is not None}
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
        self.made += 1
        return True


def context_of(trace_id: int, span_id: int) -> SpanContext:
    """Of a span made here or elsewhere, for a parent or a link."""
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _under(trace_id: int, parent_id: int | None) -> Context:
    if parent_id is None:
        return Context()
    return set_span_in_context(NonRecordingSpan(context_of(trace_id, parent_id)), Context())
