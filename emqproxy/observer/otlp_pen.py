"""Spans to an OTLP collector without the SDK's span objects: encoded as they are drawn, put together as they are sent.

Queue, batches, timing and end are the SDK's BatchSpanProcessor; the way to the collector, with endpoint, headers,
time-out, compression, certificates and retries, is the SDK's OTLP exporter. What is left out is the making of a span
object and its encoding (`encoding` says why). The exporter has no public door for bytes; where the one that is used
here is missing, `door` says so and spans go the SDK's whole way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, TraceFlags

from emqproxy.observer.draft import Draft
from emqproxy.observer.encoding import Encoder, Envelope

_ATTRIBUTES_MAX: Final = 64
"""More than any span of ours has."""
_LINKS_MAX: Final = 128
"""As many as any span of ours has."""
_SAMPLED: Final = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


class EncodedSpan(ReadableSpan):
    """What the SDK's queue takes for a span. Only `encoded` may be asked for."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded

    @property
    def context(self) -> SpanContext:
        """The queue asks whether the span was sampled."""
        return _SAMPLED


class EncodedExporter(SpanExporter):
    """Sends encoded spans through the SDK's exporter."""

    def __init__(self, exporter: OTLPSpanExporter, envelope: Envelope, post: Callable[[bytes], Any]) -> None:
        self._exporter, self._envelope, self._post = exporter, envelope, post

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        body = self._envelope.request(span.encoded for span in spans if isinstance(span, EncodedSpan))
        return SpanExportResult.SUCCESS if self._post(body).success else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class OtlpPen:
    """One queue of encoded spans."""

    def __init__(self, queue: SpanProcessor) -> None:
        self._queue = queue
        self._encoder = Encoder()

    def draw(self, draft: Draft) -> None:
        """Encodes it and puts it into the queue."""
        self._queue.on_end(EncodedSpan(self._encoder.span(draft)))


def door(exporter: OTLPSpanExporter, limits: SpanLimits) -> Callable[[bytes], Any] | None:
    """Where bytes of a request can be handed in. None where this release of the exporter has no such place, or where
    `OTEL_*_LIMIT` variables ask for cuts that only the SDK makes."""
    counts = (
        (limits.max_span_attributes, _ATTRIBUTES_MAX),
        (limits.max_link_attributes, _ATTRIBUTES_MAX),
        (limits.max_links, _LINKS_MAX),
    )
    if limits.max_span_attribute_length is not None or limits.max_attribute_length is not None:
        return None
    if any(limit is not None and limit < needed for limit, needed in counts):
        return None
    post = getattr(getattr(exporter, "_client", None), "export", None)
    return post if callable(post) else None
