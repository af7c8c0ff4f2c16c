"""Records drawn by the SDK into memory: the same wiring as the process's, less the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from emqproxy.observer.board import Board
from emqproxy.observer.emitter import Emitter
from emqproxy.observer.sdk_pen import SdkPen, SeededIds
from emqproxy.observer.spans import Spans
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import Hello, Message
from tests.observer.records_factory import ANCHOR, hello


@contextmanager
def memory(sampler: Sampler = ALWAYS_ON) -> Iterator[tuple[Emitter, InMemorySpanExporter]]:
    """An emitter, and where its spans go."""
    seeds, exporter = SeededIds(), InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_ON, id_generator=seeds, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Emitter([SdkPen(provider.get_tracer("emqproxy"), seeds)], sampler), exporter
    provider.shutdown()


def draw(
    batch: Sequence[Message], *, greeting: Hello | None = None, sampler: Sampler = ALWAYS_ON
) -> list[ReadableSpan]:
    """The spans of these messages, in the order in which they were made."""
    greeting = greeting or hello()
    timeline = Timeline()
    timeline.anchor(ANCHOR)
    settings = greeting.settings
    with memory(sampler) as (emitter, exporter):
        tokens = Tokens(settings.token, settings.token_key)
        spans = Spans(greeting, timeline, tokens, Board(timeline), emitter)
        for message in batch:
            spans.on(message)
        spans.close()
        return list(exporter.get_finished_spans())


def names(spans: Sequence[ReadableSpan]) -> list[str]:
    return [span.name for span in spans]


def one(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    """The only span of this name."""
    (found,) = [span for span in spans if span.name == name]
    return found


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def error(span: ReadableSpan) -> str | None:
    """`error.type`; it stands where, and only where, the status is an error."""
    kind = (span.attributes or {}).get("error.type")
    assert (kind is not None) is (span.status.status_code.name == "ERROR")
    assert kind is None or isinstance(kind, str)
    return kind
