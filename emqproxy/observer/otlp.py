"""The way of spans out of here: provider, bounded queue, exporters, as the `OTEL_*` variables say.

Followed where the SDK's configurator would be (we wire it by hand): `OTEL_SDK_DISABLED`, `OTEL_TRACES_EXPORTER`
(`otlp`, `console`, `none`, a list), `OTEL_EXPORTER_OTLP[_TRACES]_PROTOCOL`, `OTEL_SERVICE_NAME`,
`OTEL_RESOURCE_ATTRIBUTES`; the SDK's classes read the others (endpoint, headers, time-out, compression, certificates,
limits). Queue and batch are ours unless `OTEL_BSP_*` is set.

With nothing set, spans go where the standard says, http://localhost:4318. Whether a collector is there is its matter.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from typing import Final, TextIO
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from emqproxy import logs
from emqproxy.observer.emitter import Emitter, SeededIds
from emqproxy.observer.sampling import sampler_from_environment
from emqproxy.observer.sdk_logs import SdkLogs
from emqproxy.records import Hello

SCOPE: Final = "emqproxy"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
_BATCH: Final = 128
_DELAY_MS: Final = 1000
_QUEUE: Final = 8192
_BUILT: Final = "http/protobuf"
_DEFAULT_ENDPOINT: Final = "http://localhost:4318"


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


class Telemetry:
    """The provider with its queues. `emitter` is None where spans are switched off."""

    def __init__(self, provider: TracerProvider | None, emitter: Emitter | None, queues: list[BoundedQueue]) -> None:
        self._provider = provider
        self.emitter = emitter
        self.queues = queues
        self._logs = SdkLogs()
        self._limit = logs.RateLimited(logs.get())
        self._told = 0
        self._logs.install()

    def look(self) -> None:
        """Call at each heartbeat: says, at most once a minute, that spans are being lost, and where to."""
        lost = sum(queue.tally.failed + queue.dropped for queue in self.queues)
        if lost == self._told or self._limit.admit("lost", time.monotonic_ns()) is None:
            return
        self._told = lost
        logs.get().warning("spans could not be delivered", **self._state())

    def shutdown(self) -> None:
        """Delivers what waits; takes up to 30 s where the collector is down. Call it in a thread that may be left."""
        if self._provider is not None:
            self._provider.shutdown()

    def release(self) -> None:
        """Gives the SDK's loggers back."""
        self._logs.remove()

    def farewell(self) -> None:
        """Call at the very end: says what no collector has."""
        if any(queue.undelivered for queue in self.queues):
            logs.get().warning("spans left undelivered at the end", **self._state())

    def _state(self) -> dict[str, str | int]:
        return {
            "endpoint": shown_endpoint(),
            "reason": self._logs.reason or "unknown",
            "exported": sum(queue.tally.exported for queue in self.queues),
            "failed": sum(queue.tally.failed for queue in self.queues),
            "dropped": sum(queue.dropped for queue in self.queues),
            "waiting": sum(queue.waiting for queue in self.queues),
            "hint": "set OTEL_EXPORTER_OTLP_ENDPOINT to a collector, or OTEL_TRACES_EXPORTER=none to switch spans off",
        }


def telemetry(hello: Hello, console: TextIO) -> Telemetry:
    """Wires it. Never raises on account of a variable: what cannot be followed is logged and left out."""
    queues = [] if _disabled() else [queue for queue in map(_maker(console), _exporters()) if queue is not None]
    if not queues:
        return Telemetry(None, None, [])
    seeds = SeededIds()
    provider = TracerProvider(
        sampler=ALWAYS_ON,  # the emitter has decided before
        resource=resource(hello),
        shutdown_on_exit=False,
        id_generator=seeds,
        span_limits=SpanLimits(),
    )
    for queue in queues:
        provider.add_span_processor(queue)
    tracer = provider.get_tracer(SCOPE, hello.version, schema_url=SCHEMA_URL)
    return Telemetry(provider, Emitter(tracer, seeds, sampler_from_environment()), queues)


def resource(hello: Hello) -> Resource:
    """Ours below the user's: `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` win."""
    ours = {
        "service.name": "emqproxy",
        "service.instance.id": hello.run,
        "service.version": hello.version,
        "host.name": platform.node(),
    }
    return Resource.create({**ours, **OTELResourceDetector().detect().attributes}, SCHEMA_URL)


def shown_endpoint() -> str:
    """Where spans go, without credentials or query."""
    variables = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    written = next(filter(None, (os.environ.get(name, "").strip() for name in variables)), _DEFAULT_ENDPOINT)
    try:
        parts = urlsplit(written)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
        host = f"[{host}]" if ":" in host else host
    except ValueError:
        return "(unreadable)"
    return f"{parts.scheme}://{host}{port}{parts.path}"


# ---------------------------------------------------------------------- private


def _disabled() -> bool:
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _exporters() -> list[str]:
    """The names in `OTEL_TRACES_EXPORTER`, those that are built."""
    names = [name.strip().lower() for name in os.environ.get("OTEL_TRACES_EXPORTER", "").split(",")]
    names = list(dict.fromkeys(filter(None, names))) or ["otlp"]
    if "none" in names:
        return []
    for name in names:
        if name not in ("otlp", "console"):
            logs.get().error(
                "trace exporter is not built", OTEL_TRACES_EXPORTER=name, hint="write otlp, console or none"
            )
    return [name for name in names if name in ("otlp", "console")]


def _maker(console: TextIO) -> Callable[[str], BoundedQueue | None]:
    def make(name: str) -> BoundedQueue | None:
        if name == "console":
            exporter: SpanExporter = ConsoleSpanExporter(out=console, formatter=lambda span: span.to_json(None) + "\n")
        elif not _protocol_is_built():
            return None
        else:
            try:
                exporter = OTLPSpanExporter()
            except (ValueError, OSError) as error:
                logs.get().error("spans are off: OTEL_EXPORTER_OTLP_*", reason=type(error).__name__)
                return None
        queue_max = _setting("OTEL_BSP_MAX_QUEUE_SIZE", _QUEUE)
        return BoundedQueue(
            name,
            exporter,
            queue=queue_max,
            batch=min(_setting("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", _BATCH), queue_max),
            delay_ms=_setting("OTEL_BSP_SCHEDULE_DELAY", _DELAY_MS),
        )

    return make


def _protocol_is_built() -> bool:
    variables = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    name = next((name for name in variables if os.environ.get(name, "").strip()), variables[1])
    wanted = os.environ.get(name, "").strip() or _BUILT
    if wanted != _BUILT:
        logs.get().error(
            "spans are off: protocol is not built",
            **{name: wanted},
            hint=f"write {name}={_BUILT} and the collector's HTTP port, usually 4318",
        )
    return wanted == _BUILT


def _setting(name: str, ours: int) -> int:
    written = os.environ.get(name, "").strip()
    if not written:
        return ours
    if written.isascii() and written.isdigit() and int(written) > 0:
        return int(written)
    logs.get().error("setting is not followed", **{name: written}, hint=f"a whole number above 0; using {ours}")
    return ours
