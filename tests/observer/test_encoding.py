"""What we encode is, field for field, what the SDK's spans and its own encoder make of the same drafts."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanKind

from emqproxy.locks.verdicts import Grade
from emqproxy.observer.board import Board
from emqproxy.observer.draft import Draft, Group, context_of
from emqproxy.observer.emitter import Emitter
from emqproxy.observer.encoding import Encoder, Envelope
from emqproxy.observer.sdk_pen import SdkPen, SeededIds
from emqproxy.observer.spans import Spans
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import JobFields, Message
from tests.observer.records_factory import ANCHOR, Numbers, Story, hello

RESOURCE = Resource({"service.name": "emqproxy", "n": 3, "many": ["a", "b"]}, "https://schema/1")
SCOPE = InstrumentationScope("emqproxy", "0.1.0", "https://schema/2")
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class BothWays:
    """Draws each draft with the SDK and with our encoder."""

    def __init__(self) -> None:
        seeds = SeededIds()
        self._memory = InMemorySpanExporter()
        self._provider = TracerProvider(ALWAYS_ON, RESOURCE, shutdown_on_exit=False, id_generator=seeds)
        self._provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self._sdk = SdkPen(self._provider.get_tracer(SCOPE.name, SCOPE.version, schema_url=SCOPE.schema_url), seeds)
        self._encoder = Encoder()
        self._spans: list[bytes] = []

    def draw(self, draft: Draft) -> None:
        self._sdk.draw(draft)
        self._spans.append(self._encoder.span(draft))

    def requests(self) -> tuple[ExportTraceServiceRequest, ExportTraceServiceRequest]:
        """The SDK's and ours."""
        ours = ExportTraceServiceRequest.FromString(Envelope(RESOURCE, SCOPE).request(self._spans))
        printer = logging.getLogger("opentelemetry")
        printer.setLevel(logging.CRITICAL)  # the SDK prints what does not fit into 64 bits
        try:
            return encode_spans(self._memory.get_finished_spans()), ours
        finally:
            printer.setLevel(logging.NOTSET)


def told(batch: Sequence[Message]) -> BothWays:
    pens, timeline = BothWays(), Timeline()
    timeline.anchor(ANCHOR)
    spans = Spans(hello(), timeline, Tokens("fingerprint"), Board(timeline), Emitter([pens], ALWAYS_ON))
    for message in batch:
        spans.on(message)
    spans.close()
    return pens


def corpus() -> list[Message]:
    """Everything that is drawn: health and loss, links, sweeps, errors, and names that are no UTF-8."""
    numbers = Numbers()
    batch: list[Message] = []
    for n in range(3):  # the second and third time from what is kept
        job = JobFields(f"mail \u00e9 {n}", n, n + 1, n, 1_796_000_000_000, {"traceparent": TRACEPARENT}, "emq:flows:9")
        story = Story(job=b"%d" % n, numbers=numbers)
        batch += [story.acquire(n, job), story.renew(10, batch_size=3), story.renew(20_000, Grade.LATE)]
        batch += [story.finish(21_000, "completed" if n else "failed"), story.finish_refused(22_000)]
    lost = Story(job=b"\xff{x}", numbers=numbers)
    batch += [lost.acquire(0), lost.lapse(30_031), lost.renew_refused(31_000)]
    batch += [lost.reap(40_000, batch_size=2, request=5), Story(numbers=numbers).reap(40_000, batch_size=2, request=5)]
    return batch


def test_the_same_records_give_the_same_request() -> None:
    sdk, ours = told(corpus()).requests()
    spans = sdk.resource_spans[0].scope_spans[0].spans
    assert {span.name.split()[0] for span in spans} >= {"acquire", "renew", "fail", "process", "lapse", "sweep"}
    assert any(span.links for span in spans)
    assert ours == sdk


VALUES = st.one_of(
    st.text(max_size=200), st.integers(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans()
)
NAMES = st.sampled_from([f"emq.{name}" for name in "abcdefgh"])


@given(
    groups=st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=3),
    ids=st.tuples(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.none() | st.integers(1, 2**64 - 1)),
    times=st.tuples(st.integers(1, 2**63), st.integers(1, 2**63)),
    error=st.none() | st.sampled_from(["OOM", "LockLost"]),
    kind=st.sampled_from(SpanKind),
    name=st.text(min_size=1, max_size=300),
    linked=st.booleans(),
)
def test_whatever_a_draft_holds(groups, ids, times, error, kind, name, linked) -> None:
    links = (Link(context_of(ids[0], ids[1]), {"emq.link": "parent", "emq.job.key": name}),) if linked else ()
    distinct = [Group({f"{n}.{key}": value for key, value in cells.items()}) for n, cells in enumerate(groups)]
    pens = BothWays()
    for _ in range(2):  # from what was kept, too
        pens.draw(
            Draft(name, kind, ids[0], ids[1], *times, tuple(distinct), parent_id=ids[2], links=links, error=error)
        )
        pens.draw(Draft("bare", SpanKind.INTERNAL, 1, 2, 3, 4, ()))
    sdk, ours = pens.requests()
    assert ours == sdk


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 70_000])
def test_lengths_of_any_size_are_framed(size: int) -> None:
    pens = BothWays()
    pens.draw(Draft("x" * size, SpanKind.CLIENT, 1, 2, 3, 4, ()))
    _, ours = pens.requests()
    assert [len(span.name) for span in ours.resource_spans[0].scope_spans[0].spans] == [size]


def test_a_request_without_spans_is_still_one() -> None:
    request = ExportTraceServiceRequest.FromString(Envelope(RESOURCE, SCOPE).request([]))
    assert [len(scope.spans) for scope in request.resource_spans[0].scope_spans] == [0]


def test_kept_templates_are_bounded() -> None:
    encoder = Encoder()
    for n in range(2500):
        encoder.attributes({f"name {n}": n})
        encoder.span(Draft("x", SpanKind.CLIENT, 1, 2, 3, 4, (), error=f"error {n}"))
    assert len(encoder._templates) <= 1024
    assert len(encoder._errors) <= 1024
