"""The SDK's queue of spans, with a bound that is ours, and an account of every span that was put into it."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class Tally(SpanExporter):
    """Passes batches on to an exporter and counts what became of them. Called by one thread at a time."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.taken = 0
        """Spans that left the queue."""
        self.exported = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            if result is SpanExportResult.SUCCESS:
                self.exported += len(spans)
            else:
                self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class BoundedQueue(BatchSpanProcessor):
    """The SDK's queue; what finds it full is dropped here, and counted. Fed by one thread."""

    def __init__(self, name: str, exporter: SpanExporter, *, queue: int, batch: int, delay_ms: float) -> None:
        self.name = name
        self.tally = Tally(exporter)
        self._queue_max = queue
        self._put = 0
        self.dropped = 0
        super().__init__(self.tally, queue, delay_ms, batch)

    @property
    def waiting(self) -> int:
        """Spans put in and not yet taken by the exporter."""
        return self._put - self.tally.taken

    @property
    def undelivered(self) -> int:
        """Spans that were put in, or were to be, and that no collector has."""
        return self._put - self.tally.exported + self.dropped

    def on_end(self, span: ReadableSpan) -> None:
        if self.waiting >= self._queue_max:
            self.dropped += 1
            return
        self._put += 1
        super().on_end(span)
