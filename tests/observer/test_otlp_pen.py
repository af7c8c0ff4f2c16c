"""Encoded spans arrive as others do; what only the SDK can do, the SDK does."""

from __future__ import annotations

import os
from io import StringIO

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.trace import SpanKind

from emqproxy.observer import otlp
from emqproxy.observer.draft import Draft, Group
from emqproxy.observer.otlp import telemetry
from emqproxy.observer.otlp_pen import OtlpPen, door
from tests.observer.records_factory import hello
from tests.otlp_receiver import OtlpReceiver, Span


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


def sent(monkeypatch: pytest.MonkeyPatch, **env: str) -> tuple[Span, bool]:
    """One span, as a collector has it, and whether we encoded it."""
    with OtlpReceiver() as receiver:
        for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **env}.items():
            monkeypatch.setenv(name, value)
        wired = telemetry(hello(), StringIO())
        try:
            assert wired.emitter is not None
            told = Group({"a": 1, "b": "some text"})
            wired.emitter.make(Draft("x", SpanKind.CLIENT, 5, 7, 10, 20, (told,), parent_id=9, error="OOM"))
        finally:
            wired.shutdown()
            wired.release()
        (span,) = receiver.wait_for(lambda spans: len(spans) == 1)
        assert wired.queues[0].undelivered == 0
        return span, isinstance(wired.emitter._pens[0], OtlpPen)


def test_a_span_is_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, encoded = sent(monkeypatch)
    assert encoded
    monkeypatch.setattr(otlp, "door", lambda *_: None)
    sdk, encoded = sent(monkeypatch)
    assert not encoded
    assert ours == sdk
    assert (ours.parent_id, ours.status, ours.attributes["error.type"]) == (f"{9:016x}", "ERROR", "OOM")


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_the_exporters_variables_are_followed(monkeypatch: pytest.MonkeyPatch, compression: str) -> None:
    span, encoded = sent(monkeypatch, OTEL_EXPORTER_OTLP_COMPRESSION=compression)
    assert encoded
    assert span.attributes["b"] == "some text"


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1", {"error.type": "OOM"}),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "4", {"a": 1, "b": "some", "error.type": "OOM"}),
        ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "4", {"a": 1, "b": "some", "error.type": "OOM"}),
    ],
)
def test_limits_are_the_sdks_matter(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: dict[str, object]
) -> None:
    span, encoded = sent(monkeypatch, **{variable: value})
    assert not encoded
    assert span.attributes == told


def test_an_exporter_without_a_door_is_not_broken_into() -> None:
    exporter = OTLPSpanExporter(endpoint="http://127.0.0.1:9")
    assert door(exporter, SpanLimits()) is not None
    exporter._client = object()
    assert door(exporter, SpanLimits()) is None
    del exporter._client
    assert door(exporter, SpanLimits()) is None


@pytest.mark.parametrize("limits", [SpanLimits(max_links=5), SpanLimits(max_link_attributes=1)])
def test_limits_on_links_close_the_door(limits: SpanLimits) -> None:
    assert door(OTLPSpanExporter(endpoint="http://127.0.0.1:9"), limits) is None
