"""Drafts as bytes of OTLP: an `opentelemetry.proto` Span each, and the request around them.

With the SDK's spans and encoder the observer takes 400 to 600 µs a record (four spans in three records, two cores full
of other work): less than the 3,000 a second that a thousand jobs make. In this way it takes 70, of which a span's bytes
are about 10 (`tests/bench/observer_cost.py`). Every field is still written by the protobuf runtime: a
message is kept and filled anew for each span, since making messages is what costs. What is ours is concatenation, which
protobuf defines: bytes of two messages of one type, put together, are the message with the fields of both. So a
group's attributes are encoded once and stand on every span that tells them, and resource and scope are the SDK's own
encoding, made once. For one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, SpanFlags, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind

from emqproxy.observer.draft import Draft, Group, Value

_KINDS: Final = {id(kind): ProtoSpan.SpanKind.Value(f"SPAN_KIND_{kind.name}") for kind in SpanKind}
"""By identity: an enum's own hash is a function of Python's."""
_LOCAL: Final = int(SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
_REMOTE: Final = _LOCAL | int(SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
_UNSET, _ERROR = Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR
_TEMPLATES_MAX: Final = 1024
"""Sets of names that go together; there are some dozens."""
_SPANS: Final = b"\x12"
"""The tag of `ScopeSpans.spans`, and of `ResourceSpans.scope_spans`."""
_RESOURCE_SPANS: Final = b"\x0a"
"""The tag of `ExportTraceServiceRequest.resource_spans`."""


class _Template:
    """A span with nothing but these attributes, whose values are filled in anew each time."""

    def __init__(self, names: Iterable[str]) -> None:
        self._message = ProtoSpan(attributes=[KeyValue(key=name) for name in names])
        self.values: list[AnyValue] = [pair.value for pair in self._message.attributes]
        self.bytes: Callable[[], bytes] = self._message.SerializeToString


class Encoder:
    """Encodes drafts."""

    def __init__(self) -> None:
        self._templates: dict[tuple[str, ...], _Template] = {}
        self._errors: dict[str, Group] = {}
        self._head = ProtoSpan(status=Status())
        """All of a span but its attributes and links."""
        self._status = self._head.status

    def span(self, draft: Draft) -> bytes:
        """The bytes of one Span message."""
        head, error = self._head, draft.error
        head.trace_id = draft.trace_id.to_bytes(16, "big")
        head.span_id = draft.span_id.to_bytes(8, "big")
        if draft.parent_id is None:
            head.parent_span_id, head.flags = b"", _LOCAL
        else:
            head.parent_span_id, head.flags = draft.parent_id.to_bytes(8, "big"), _REMOTE
        head.name = draft.name
        head.kind = _KINDS[id(draft.kind)]
        head.start_time_unix_nano = draft.start_ns
        head.end_time_unix_nano = max(draft.start_ns, draft.end_ns)
        self._status.code = _UNSET if error is None else _ERROR
        parts = [head.SerializeToString()]
        parts += [group.encoded or self._encoded(group) for group in draft.attributes]
        if error is not None:
            parts.append(self._error(error))
        if draft.links:
            parts.append(self._links(draft.links))
        return b"".join(parts)

    def attributes(self, cells: dict[str, Value]) -> bytes:
        """As they stand in a Span. What OTLP cannot hold (an integer past 64 bits) is left out, as the SDK does."""
        names = tuple(cells)
        if not names:
            return b""
        template = self._templates.get(names)
        if template is None:
            if len(self._templates) >= _TEMPLATES_MAX:
                self._templates.clear()
            template = self._templates[names] = _Template(names)
        try:
            for place, value in zip(template.values, cells.values(), strict=True):
                kind = type(value)
                if kind is str:
                    place.string_value = value  # type: ignore[assignment]
                elif kind is int:
                    place.int_value = value  # type: ignore[assignment]
                elif kind is float:
                    place.double_value = value  # type: ignore[assignment]
                else:
                    place.bool_value = value  # type: ignore[assignment]
        except ValueError:
            if len(cells) == 1:
                return b""
            return b"".join(self.attributes({name: value}) for name, value in cells.items())
        return template.bytes()

    # ------------------------------------------------------------------ private

    def _encoded(self, group: Group) -> bytes:
        group.encoded = self.attributes(group.cells)
        return group.encoded

    def _error(self, kind: str) -> bytes:
        found = self._errors.get(kind)
        if found is None:
            if len(self._errors) >= _TEMPLATES_MAX:
                self._errors.clear()
            found = self._errors[kind] = Group({"error.type": kind})
        return found.encoded or self._encoded(found)

    def _links(self, links: Sequence[Link]) -> bytes:
        written: bytes = ProtoSpan(links=[self._link(link) for link in links]).SerializeToString()
        return written

    def _link(self, link: Link) -> ProtoSpan.Link:
        told: dict[str, Value] = {n: v for n, v in (link.attributes or {}).items() if isinstance(v, str)}
        return ProtoSpan.Link(
            trace_id=link.context.trace_id.to_bytes(16, "big"),
            span_id=link.context.span_id.to_bytes(8, "big"),
            attributes=ProtoSpan.FromString(self.attributes(told)).attributes,
            flags=_REMOTE if link.context.is_remote else _LOCAL,
        )


class Envelope:
    """The request around encoded spans: one resource, one scope."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        sample = ReadableSpan("", SpanContext(1, 1, is_remote=False), resource=resource, instrumentation_scope=scope)
        (about,) = encode_spans([sample]).resource_spans
        (within,) = about.scope_spans
        self._scope = ScopeSpans(scope=within.scope, schema_url=within.schema_url).SerializeToString()
        self._resource = ResourceSpans(resource=about.resource, schema_url=about.schema_url).SerializeToString()

    def request(self, spans: Iterable[bytes]) -> bytes:
        """The bytes of an ExportTraceServiceRequest."""
        parts = [self._scope]
        for span in spans:
            parts += (_SPANS, _varint(len(span)), span)
        scope = b"".join(parts)
        about = b"".join((self._resource, _SPANS, _varint(len(scope)), scope))
        return b"".join((_RESOURCE_SPANS, _varint(len(about)), about))


def _varint(number: int) -> bytes:
    """A length as protobuf writes it: seven bits a byte, the lowest first."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
