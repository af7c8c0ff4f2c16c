"""A collector that only counts, in a process of its own, so cheap that it takes next to nothing from what is measured.

`python receiver.py PORT`: POST /v1/traces takes spans, GET / answers how many came, as JSON by the first word of their
names. It reads the protobuf's fields itself as far as a span's name, about a microsecond a span: for what is in them
there is `tests/otlp_receiver.py`.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_RESOURCE_SPANS, _SCOPE_SPANS, _SPANS, _NAME = 1, 2, 2, 5
"""Numbers of fields, in ExportTraceServiceRequest, ResourceSpans, ScopeSpans and Span."""


def names(body: bytes) -> Iterator[bytes]:
    """The names of the spans in an export request, in order."""
    for group in _fields(body, 0, len(body), _RESOURCE_SPANS):
        for scope in _fields(body, *group, _SCOPE_SPANS):
            for span in _fields(body, *scope, _SPANS):
                at, end = next(_fields(body, *span, _NAME), (0, 0))
                yield body[at:end]


def _fields(body: bytes, at: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Where the contents of a message's field lie, as often as it stands there."""
    while at < end:
        tag, at = _varint(body, at)
        kind = tag & 7
        if kind == _BYTES:
            length, at = _varint(body, at)
            if tag >> 3 == wanted:
                yield at, at + length
            at += length
        elif kind == _VARINT:
            _, at = _varint(body, at)
        elif kind in {_FIXED64, _FIXED32}:
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"no protobuf: wire type {kind}")


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    byte = body[at]
    if byte < 128:
        return byte, at + 1
    value, shift = byte & 127, 7
    while True:
        at += 1
        byte = body[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.lock = threading.Lock()
        self.counts: Counter[str] = Counter()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        came = Counter(name.split(b" ", 1)[0].decode() for name in names(body))
        with self.server.lock:
            self.server.counts += came
        self._answer(b"", "application/x-protobuf")

    def do_GET(self) -> None:
        with self.server.lock:
            counts = dict(self.server.counts)
        self._answer(json.dumps(counts).encode(), "application/json")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Silent."""


if __name__ == "__main__":
    _Server(int(sys.argv[1])).serve_forever()
