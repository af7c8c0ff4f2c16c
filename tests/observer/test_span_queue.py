"""A full queue loses spans rather than memory, and every span is accounted for."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from emqproxy.observer.otlp_pen import EncodedSpan
from emqproxy.observer.span_queue import BoundedQueue


class Gate(SpanExporter):
    """An exporter that holds its first batch until it is let go, then answers as it is told."""

    def __init__(self, result: SpanExportResult) -> None:
        self.result = result
        self.entered, self.go = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        assert spans
        self.entered.set()
        assert self.go.wait(10)
        return self.result


@pytest.mark.parametrize("result", list(SpanExportResult))
def test_a_full_queue_drops_and_every_span_is_accounted_for(result: SpanExportResult) -> None:
    gate = Gate(result)
    queue = BoundedQueue("gate", gate, queue=8, batch=4, delay_ms=60_000)
    spans = [EncodedSpan(b"%d" % number) for number in range(30)]
    for span in spans[:4]:
        queue.on_end(span)
    assert gate.entered.wait(10)
    for span in spans[4:]:
        queue.on_end(span)
    assert (queue.waiting, queue.dropped) == (8, 18)
    gate.go.set()
    queue.shutdown()
    delivered = result is SpanExportResult.SUCCESS
    assert (queue.tally.exported, queue.tally.failed) == ((12, 0) if delivered else (0, 12))
    assert queue.undelivered == (18 if delivered else 30)
