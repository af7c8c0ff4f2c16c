"""A real OTLP receiver: takes `POST /v1/traces`, decodes protobuf, and keeps what came; of `/v1/metrics` the bytes.

    with OtlpReceiver() as receiver:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        ...
        spans = receiver.wait_for(lambda spans: len(spans) == 3, timeout_s=10)

It can be a bad one: `answer(503)`, `answer(429, retry_after_s=1)`, `hang()` (takes the request and never answers) and
`refuse()` (the port is closed).
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

_KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}
_TRACES = "/v1/traces"
_STATUS = {0: "UNSET", 1: "OK", 2: "ERROR"}


@dataclass(frozen=True)
class Link:
    """A link of a span."""

    trace_id: str
    span_id: str
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Span:
    """A span as a collector has it. Ids are hex; `parent_id` is empty for a root; times are Unix nanoseconds."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    status: str
    attributes: dict[str, Any]
    links: tuple[Link, ...]
    resource: dict[str, Any] = field(repr=False)
    scope: str = field(repr=False)
    schema_url: str = field(repr=False)


class OtlpReceiver:
    """A server on a free port of loopback."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._spans: list[Span] = []
        self._bodies: list[bytes] = []
        self._metrics: list[bytes] = []
        self.requests = 0
        """Those refused included."""
        self._status = 200
        self._headers: dict[str, str] = {}
        self._released = threading.Event()
        self._released.set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.receiver = self
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """For `OTEL_EXPORTER_OTLP_ENDPOINT`."""
        return f"http://127.0.0.1:{self.port}"

    def spans(self) -> list[Span]:
        """In the order in which they came."""
        with self._changed:
            return list(self._spans)

    def bodies(self) -> list[bytes]:
        """Every request as it came, decompressed: for searches."""
        with self._changed:
            return list(self._bodies)

    def metrics(self) -> list[bytes]:
        """Every request to /v1/metrics as it came."""
        with self._changed:
            return list(self._metrics)

    def wait_for(self, predicate: Callable[[Sequence[Span]], bool], timeout_s: float = 10.0) -> list[Span]:
        """Waits until the spans that came satisfy it. Fails with what came if they do not in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(self._spans), timeout_s):
                names = ", ".join(sorted(span.name for span in self._spans))
                raise AssertionError(f"not in {timeout_s} s; {len(self._spans)} spans came: {names}")
            return list(self._spans)

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> None:
        """Waits until so many requests came, answered in whatever way."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.requests >= count, timeout_s), f"{self.requests} requests came"

    # ------------------------------------------------------------------ how it answers

    def answer(self, status: int, *, retry_after_s: int | None = None) -> None:
        """From now on. Only what was answered with 200 is kept in `spans`; `bodies` has everything."""
        self._headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        self._status = status

    def hang(self) -> None:
        """From now on requests are read and not answered, until `go_on`."""
        self._released.clear()

    def go_on(self) -> None:
        """Answers what hangs."""
        self._released.set()

    def refuse(self) -> None:
        """Closes the port. For good."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(5)
        self._server.server_close()

    # ------------------------------------------------------------------ private

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.go_on()
        self.refuse()

    def _take(self, body: bytes, path: str) -> tuple[int, dict[str, str]]:
        traces = path == _TRACES
        with self._changed:
            self.requests += 1
            (self._bodies if traces else self._metrics).append(body)
            self._changed.notify_all()
        self._released.wait(60)
        status, headers = self._status, dict(self._headers)
        if status == 200 and traces:
            spans = decode(body)
            with self._changed:
                self._spans.extend(spans)
                self._changed.notify_all()
        return status, headers


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    receiver: OtlpReceiver

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away while we hung is no error of the test's."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        length = self.headers["Content-Length"]
        body = self._chunks() if length is None else self.rfile.read(int(length))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path not in (_TRACES, "/v1/metrics") or self.headers.get("Content-Type") != "application/x-protobuf":
            status, headers = 404, {}
        else:
            status, headers = self.server.receiver._take(body, self.path)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _chunks(self) -> bytes:
        """A body whose length nobody said before, as Node sends it."""
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Silent."""


def decode(body: bytes) -> list[Span]:
    """The spans of one export request."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        _span(span, _attributes(group.resource.attributes), scope.scope.name, scope.schema_url)
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _span(span: ProtoSpan, resource: dict[str, Any], scope: str, schema_url: str) -> Span:
    return Span(
        name=span.name,
        kind=_KINDS[span.kind],
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status=_STATUS[span.status.code],
        attributes=_attributes(span.attributes),
        links=tuple(Link(x.trace_id.hex(), x.span_id.hex(), _attributes(x.attributes)) for x in span.links),
        resource=resource,
        scope=scope,
        schema_url=schema_url,
    )


def _attributes(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


def by_name(spans: Sequence[Span]) -> dict[str, list[Span]]:
    """Spans under their first word: `acquire`, `renew`, `process`; in the order of their start."""
    found: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda span: span.start_ns):
        found.setdefault(span.name.split(" ", 1)[0], []).append(span)
    return found
