"""The way of metrics out of here: OpenTelemetry's instruments, scraped from `/metrics`, pushed by OTLP where asked for.

`OTEL_METRICS_EXPORTER` names where to: `prometheus` (`/metrics` of `observer.admin`), `otlp`, both with a comma, or
`none`. Unset it is `prometheus` alone, unlike the standard's `otlp`: a collector that takes spans need not take
metrics, and nobody asked for them; `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` asks for them, and `otlp` is added then.
`OTEL_SDK_DISABLED` ends both. The SDK's classes read the other variables (endpoint, headers, interval, temporality).

Counters and gauges are observable instruments. Histograms are handed to the readers as they have been counted: the
SDK's own would cost about 10 µs for each of some 100,000 records that a busy minute brings.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter, ObservableGauge
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    CardinalityLimits,
    Histogram,
    HistogramDataPoint,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.metrics.export import Metric as SdkMetric
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from emqproxy import logs
from emqproxy.observer import metrics_settings as settings
from emqproxy.observer.metrics_reading import Labels, Points, Reader, Reading
from emqproxy.observer.metrics_table import METRICS, Metric
from emqproxy.observer.otlp import SCHEMA_URL, SCOPE, resource
from emqproxy.records import Hello

_POINTS_MAX: Final = 20_000
"""Of one metric; the SDK's own bound of 2,000 is less than 200 queues may come to."""
_LIMITS: Final[CardinalityLimits] = {ObservableCounter: _POINTS_MAX, ObservableGauge: _POINTS_MAX}
_CUMULATIVE, _DELTA = AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA


class Instruments:
    """All metrics of one provider, fed from readings."""

    def __init__(self, hello: Hello, reader: Reader) -> None:
        self._reader = reader
        self._reading = Reading()
        self._began_ns = time.time_ns()
        self._hello = hello

    def provide(self, readers: Sequence[MetricReader]) -> MeterProvider:
        """Makes the instruments; from here on the readers may collect."""
        provider = MeterProvider(readers, resource=resource(self._hello), shutdown_on_exit=False)
        meter = provider.get_meter(SCOPE, self._hello.version, SCHEMA_URL)
        numbers = [metric for metric in METRICS if metric.kind != "histogram"]
        for place, metric in enumerate(numbers):
            make = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
            # The SDK asks in the order of creation, one reader after the other: the first look serves all.
            make(metric.name, [self._asked(metric, anew=place == 0)], metric.unit, metric.text)
        return provider

    def _asked(self, metric: Metric, *, anew: bool) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            if anew:
                self._reading = self._reader.read()
            numbers = self._reading.numbers.get(metric, {})
            return [Observation(number, _named(metric, labels)) for labels, number in list(numbers.items())]

        return observe

    def with_histograms(self, collected: MetricsData, since: _Since | None = None) -> MetricsData:
        """What a reader has collected, and the histograms of the same look."""
        now_ns, made = time.time_ns(), []
        for metric, spreads in self._reading.spreads.items():
            points = [
                _point(metric, labels, spread, now_ns, self._began_ns, since) for labels, spread in spreads.items()
            ]
            data = Histogram(points, _CUMULATIVE if since is None else _DELTA)
            made.append(SdkMetric(metric.name, metric.text, metric.unit, data))
        if since is not None:
            since.at_ns = now_ns
        first, *others = collected.resource_metrics
        scope, *rest = first.scope_metrics
        scope = dataclasses.replace(scope, metrics=[*scope.metrics, *made])
        return MetricsData([dataclasses.replace(first, scope_metrics=[scope, *rest]), *others])


class _Since:
    """What one reader was told last, where it wants differences."""

    def __init__(self) -> None:
        self.at_ns = 0
        self.told: dict[tuple[Metric, Labels], Points] = {}


def _point(
    metric: Metric, labels: Labels, spread: Points, now_ns: int, began_ns: int, since: _Since | None
) -> HistogramDataPoint:
    counts, total = spread
    if since is not None:
        before = since.told.get((metric, labels))
        since.told[metric, labels] = spread
        began_ns = since.at_ns or began_ns
        if before is not None:
            counts = tuple(now - then for now, then in zip(counts, before.counts, strict=True))
            total -= before.total
    return HistogramDataPoint(
        attributes=_named(metric, labels),
        start_time_unix_nano=began_ns,
        time_unix_nano=now_ns,
        count=sum(counts),
        sum=total,
        bucket_counts=counts,
        explicit_bounds=metric.bounds,
        # The least and the greatest are not kept; these two stand for "not known" in OTLP's encoder.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )


def _named(metric: Metric, labels: Labels) -> dict[str, str]:
    """Attributes; what does not apply is left out."""
    return {name: value for name, value in zip(metric.labels, labels, strict=True) if value}


# ---------------------------------------------------------------------- readers


class _Scrape(PrometheusMetricReader):
    """What /metrics is made of."""

    def __init__(self, instruments: Instruments, registry: CollectorRegistry) -> None:
        super().__init__(scope_info_enabled=False, registry=registry, cardinality_limits=_LIMITS)
        self._instruments = instruments

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: object) -> None:
        super()._receive_metrics(self._instruments.with_histograms(metrics_data), timeout_millis)


class _Counted(OTLPMetricExporter):
    """The SDK's exporter, and how often it failed."""

    failed = 0

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **_: object
    ) -> MetricExportResult:
        result = MetricExportResult.FAILURE
        try:
            result = super().export(metrics_data, timeout_millis)
        finally:
            self.failed += result is not MetricExportResult.SUCCESS
        return result


class _Push(PeriodicExportingMetricReader):
    """Pushes by OTLP, each minute unless told otherwise."""

    def __init__(self, instruments: Instruments, exporter: _Counted) -> None:
        self._instruments = instruments
        self._since = _Since() if settings.wants_delta() else None
        self.exporter = exporter
        interval_ms = settings.whole("OTEL_METRIC_EXPORT_INTERVAL", 60_000)
        timeout_ms = settings.whole("OTEL_METRIC_EXPORT_TIMEOUT", 30_000)
        super().__init__(exporter, interval_ms, timeout_ms, cardinality_limits=_LIMITS)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: object) -> None:
        super()._receive_metrics(self._instruments.with_histograms(metrics_data, self._since), timeout_millis)


class MetricsExport:
    """Where metrics go. `text` for /metrics, `look` at each heartbeat, `shutdown` at the end."""

    def __init__(self, hello: Hello, reader: Reader, *, scraped: bool) -> None:
        """`scraped`: there is a listener to be asked."""
        self._log = logs.RateLimited(logs.get())
        self._registry: CollectorRegistry | None = None
        self._push: _Push | None = None
        self._provider: MeterProvider | None = None
        self._failed = 0
        names, instruments = settings.exporters(), Instruments(hello, reader)
        readers: list[MetricReader] = []
        if "prometheus" in names and scraped:
            self._registry = CollectorRegistry(auto_describe=False)
            readers.append(_Scrape(instruments, self._registry))
        if "otlp" in names and (exporter := _exporter()) is not None:
            self._push = _Push(instruments, exporter)
            readers.append(self._push)
        if readers:
            self._provider = instruments.provide(readers)

    @property
    def on(self) -> bool:
        """Somebody may want figures."""
        return self._provider is not None

    def text(self, accept: str) -> tuple[bytes, str] | None:
        """The page that Prometheus reads, in the form that it accepts, and its type; None where it is switched off."""
        if self._registry is None:
            return None
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def look(self, now: int) -> None:
        """Says, at most once a minute, that a push failed."""
        if self._push is None or self._push.exporter.failed == self._failed:
            return
        failed = self._push.exporter.failed
        endpoint, hint = settings.shown_endpoint(), "write OTEL_METRICS_EXPORTER=prometheus or none where none is there"
        if self._log.warning("metrics could not be pushed", now=now, endpoint=endpoint, failed=failed, hint=hint):
            self._failed = failed

    def shutdown(self) -> None:
        """Pushes a last time; may take long where the collector is down. Call it in a thread that may be left."""
        if self._provider is not None:
            self._provider.shutdown()


def _exporter() -> _Counted | None:
    if not settings.protocol_is_built():
        return None
    try:
        return _Counted()
    except (ValueError, OSError) as error:
        logs.get().error("metrics are not pushed: OTEL_EXPORTER_OTLP_*", reason=type(error).__name__)
        return None
