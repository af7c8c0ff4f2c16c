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
from typing import Final, TextIO
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from emqproxy import logs
from emqproxy.observer.draft import Pen
from emqproxy.observer.emitter import Emitter
from emqproxy.observer.encoding import Envelope
from emqproxy.observer.metrics_settings import whole
from emqproxy.observer.otlp_pen import EncodedExporter, OtlpPen, door
from emqproxy.observer.sampling import sampler_from_environment
from emqproxy.observer.sdk_logs import SdkLogs
from emqproxy.observer.sdk_pen import SdkPen, SeededIds
from emqproxy.observer.span_queue import BoundedQueue
from emqproxy.records import Hello

SCOPE: Final = "emqproxy"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
_BATCH: Final = 512
"""A request takes the HTTP client about 2 ms, however much is in it."""
_DELAY_MS: Final = 1000
_QUEUE: Final = 32_768
"""What a collector may keep us waiting for: ten seconds at a thousand jobs a second, about 30 MB."""
_BUILT: Final = "http/protobuf"
_DEFAULT_ENDPOINT: Final = "http://localhost:4318"


class Telemetry:
    """The queues, and what fills them. `emitter` is None where spans are switched off."""

    def __init__(self, provider: TracerProvider | None, emitter: Emitter | None, queues: list[BoundedQueue]) -> None:
        self._provider = provider
        self.emitter = emitter
        self.queues = queues
        self._logs = SdkLogs()
        self._limit = logs.RateLimited(logs.get())
        self._told = self._shed = 0
        self._logs.install()

    @property
    def shed(self) -> int:
        """Spans that were not made because records came too fast."""
        return self.emitter.shed if self.emitter is not None else 0

    def look(self) -> None:
        """Call at each heartbeat: says, at most once a minute, that spans are being lost, and where to."""
        if self.shed != self._shed and self._limit.admit("shed", time.monotonic_ns()) is not None:
            self._shed = self.shed
            logs.get().warning("records came too fast: healthy spans were shed, no lines", shed=self._shed)
        lost = sum(queue.tally.failed + queue.dropped for queue in self.queues)
        if lost == self._told or self._limit.admit("lost", time.monotonic_ns()) is None:
            return
        self._told = lost
        logs.get().warning("spans could not be delivered", **self._state())

    def shutdown(self) -> None:
        """Delivers what waits; takes up to 30 s where the collector is down. Call it in a thread that may be left."""
        for queue in sorted(self.queues, key=lambda queue: queue.name):  # the console waits for no collector
            queue.shutdown()  # type: ignore[no-untyped-call]
        if self._provider is not None:
            self._provider.shutdown()

    def release(self) -> None:
        """Gives the SDK's loggers back."""
        self._logs.remove()

    def farewell(self) -> None:
        """Call at the very end: says what no collector has."""
        if self.shed or any(queue.undelivered for queue in self.queues):
            logs.get().warning("spans left undelivered at the end", **self._state())

    def _state(self) -> dict[str, str | int]:
        return {
            "endpoint": shown_endpoint(),
            "reason": self._logs.reason or "unknown",
            "exported": sum(queue.tally.exported for queue in self.queues),
            "failed": sum(queue.tally.failed for queue in self.queues),
            "dropped": sum(queue.dropped for queue in self.queues),
            "shed": self.shed,
            "waiting": sum(queue.waiting for queue in self.queues),
            "hint": "set OTEL_EXPORTER_OTLP_ENDPOINT to a collector, or OTEL_TRACES_EXPORTER=none to switch spans off",
        }


def telemetry(hello: Hello, console: TextIO) -> Telemetry:
    """Wires it. Never raises on account of a variable: what cannot be followed is logged and left out."""
    wires = _Wires(hello, console)
    for name in [] if _disabled() else _exporters():
        wires.add(name)
    if not wires.pens:
        return Telemetry(None, None, [])
    return Telemetry(wires.provider, Emitter(wires.pens, sampler_from_environment()), wires.queues)


class _Wires:
    """Each exporter with its queue, and a pen that fills it."""

    def __init__(self, hello: Hello, console: TextIO) -> None:
        self.pens: list[Pen] = []
        self.queues: list[BoundedQueue] = []
        self.provider: TracerProvider | None = None
        """For what the SDK makes itself."""
        self._hello, self._console = hello, console
        self._limits = SpanLimits()
        self._resource = resource(hello)

    def add(self, name: str) -> None:
        """By its name in `OTEL_TRACES_EXPORTER`."""
        if name == "console":
            console = ConsoleSpanExporter(out=self._console, formatter=lambda span: span.to_json(None) + "\n")
            self._by_the_sdk(name, console)
            return
        exporter = _otlp_exporter()
        if exporter is None:
            return
        post = door(exporter, self._limits)
        if post is None:
            self._by_the_sdk(name, exporter)
            return
        scope = InstrumentationScope(SCOPE, self._hello.version, SCHEMA_URL)
        queue = self._queue(name, EncodedExporter(exporter, Envelope(self._resource, scope), post))
        self.pens.append(OtlpPen(queue))

    def _by_the_sdk(self, name: str, exporter: SpanExporter) -> None:
        if self.provider is None:
            seeds = SeededIds()
            self.provider = TracerProvider(
                sampler=ALWAYS_ON,  # the emitter has decided before
                resource=self._resource,
                shutdown_on_exit=False,
                id_generator=seeds,
                span_limits=self._limits,
            )
            self.pens.append(SdkPen(self.provider.get_tracer(SCOPE, self._hello.version, schema_url=SCHEMA_URL), seeds))
        self.provider.add_span_processor(self._queue(name, exporter))

    def _queue(self, name: str, exporter: SpanExporter) -> BoundedQueue:
        queue_max = whole("OTEL_BSP_MAX_QUEUE_SIZE", _QUEUE)
        queue = BoundedQueue(
            name,
            exporter,
            queue=queue_max,
            batch=min(whole("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", _BATCH), queue_max),
            delay_ms=whole("OTEL_BSP_SCHEDULE_DELAY", _DELAY_MS),
        )
        self.queues.append(queue)
        return queue


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


def _otlp_exporter() -> OTLPSpanExporter | None:
    if not _protocol_is_built():
        return None
    try:
        return OTLPSpanExporter()
    except (ValueError, OSError) as error:
        logs.get().error("spans are off: OTEL_EXPORTER_OTLP_*", reason=type(error).__name__)
        return None


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
