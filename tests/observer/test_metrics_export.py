"""Readings on their two ways out, as Prometheus and a collector take them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec
import pytest
import structlog.testing
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from emqproxy.observer.metrics import Metrics
from emqproxy.observer.metrics_export import MetricsExport
from emqproxy.observer.metrics_reading import Reader
from emqproxy.observer.metrics_table import METRICS, PROMETHEUS_NAMES
from emqproxy.records import Calls, Spread
from tests.observer.records_factory import ANCHOR, TOKEN, Numbers, Story, hello
from tests.observer.scrape import Page
from tests.observer.test_metrics_reading import gauges
from tests.otlp_receiver import OtlpReceiver
from tests.processes import environment

SPREAD = Spread((1, 1) + (0,) * 8, 5_000)
TOLD = gauges(
    overhead=Spread((1, 1) + (0,) * 9, 5_000), loop_lag=Spread((1, 1) + (0,) * 9, 5_000),
    calls=(Calls("EVALSHA", "moveToActive-11", "", SPREAD),),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _sdk_logs() -> Iterator[None]:
    """As in the observer: what the SDK says is no test's concern."""
    logger = logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    yield
    logger.propagate = True


class Made:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, scraped: bool = True, **variables: str) -> None:
        monkeypatch.setattr("os.environ", environment(**variables))
        self.metrics, self.numbers = Metrics("enforce"), Numbers()
        self.metrics.on(ANCHOR)
        reader = Reader(hello(), self.metrics, lambda: {"exported": 1}, lambda: 0)
        self.export = MetricsExport(hello(), reader, scraped=scraped)

    def play(self, job: bytes = b"42") -> None:
        """One job that is taken over, one that is done."""
        lost, done = Story(job=job, numbers=self.numbers), Story(job=job + b"0", numbers=self.numbers)
        messages = [lost.acquire(0), lost.renew(100), lost.lapse(60_000), lost.reap(60_001), done.acquire(0)]
        for message in [*messages, lost.finish_refused(60_002), done.renew(9), done.finish(10), TOLD]:
            self.metrics.on(message)

    def page(self, accept: str = "") -> str:
        told = self.export.text(accept)
        assert told is not None
        return told[0].decode()


def test_every_metric_has_the_name_that_the_table_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    made.play()
    made.metrics.on(Story(numbers=made.numbers, job=b"held").acquire(0))
    page = Page(made.page())
    declared = {f"{line.split()[2]}" for line in page.text.splitlines() if line.startswith("# TYPE")}
    not_yet = {"messaging_client_sent_messages_total", "emq_lock_causes_total"}
    assert declared - {"target_info"} == set(PROMETHEUS_NAMES) - not_yet
    for metric in METRICS:
        if metric.kind == "histogram":
            bounds = sorted({float(bound) for (bound,) in page.by(f"{metric.prometheus}_bucket", "le")})
            assert bounds[-1] == float("inf")
            assert set(bounds[:-1]) <= set(metric.bounds)
            assert page.one(f"{metric.prometheus}_count") > 0, metric.name


def test_openmetrics_is_given_to_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    made.play()
    told = made.export.text("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert told is not None
    page, content_type = told
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name for family in text_string_to_metric_families(page.decode())}
    assert {"emq_lock_renewals", "emq_lock_remaining_seconds", "emq_locks_held"} <= families


def test_each_look_tells_how_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    made.play()
    first = Page(made.page())
    made.play(b"43")
    second = Page(made.page())
    for name in (
        "emq_lock_renewals_total",
        "emq_lock_remaining_seconds_count",
        "messaging_process_duration_seconds_count",
    ):
        assert 0 < 2 * first.one(name) == second.one(name), name


def test_more_points_than_the_sdk_takes_of_itself_are_all_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own bound is 2,000 of one metric; 200 queues have more kinds of violations than ten."""
    made = Made(monkeypatch)
    for number in range(200):
        record = Story(queue=b"emq:q%d:" % number, numbers=made.numbers).finish_refused(0)
        for kind in range(11):
            line = msgspec.structs.replace(record.line, op="write", target=None, code_name=f"Code{kind}")
            made.metrics.on(msgspec.structs.replace(record, line=line))
    page = made.page()
    assert "overflow" not in page
    assert page.count("\nemq_lock_violations_total{") == 200 * 11 + 200, "a straggler each, besides"


@pytest.mark.parametrize("variables", [{"OTEL_METRICS_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}])
def test_switched_off_there_is_no_page(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, **variables)
    assert not made.export.on
    assert made.export.text("") is None
    made.export.shutdown()


def test_without_a_listener_nothing_is_made_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Made(monkeypatch, scraped=False).export.on


def sums(bodies: list[bytes]) -> list[dict[str, Metric]]:
    pushed = []
    for body in bodies:
        request = ExportMetricsServiceRequest.FromString(body)
        (resource,) = request.resource_metrics
        pushed.append({metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics})
    return pushed


@pytest.mark.parametrize("preference", ["cumulative", "delta"])
def test_what_is_pushed_is_what_is_scraped(preference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpReceiver() as receiver:
        made = Made(
            monkeypatch, OTEL_METRICS_EXPORTER="otlp,prometheus", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=preference,
        )  # fmt: skip
        assert made.export._push is not None
        made.play()
        assert made.export._push.force_flush()
        made.play(b"43")
        page = Page(made.page())
        made.export.shutdown()
        first, last = sums(receiver.metrics())
    whole = preference == "cumulative"
    renewals = sum(point.as_int for point in last["emq.lock.renewals"].sum.data_points)
    assert renewals == page.one("emq_lock_renewals_total") / (1 if whole else 2) > 0
    remaining = last["emq.lock.remaining"].histogram
    counted = sum(point.count for point in remaining.data_points)
    assert counted == page.one("emq_lock_remaining_seconds_count") / (1 if whole else 2) > 0
    assert sum(sum(point.bucket_counts) for point in remaining.data_points) == counted
    kind = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE if whole else 1
    assert remaining.aggregation_temporality == last["emq.lock.renewals"].sum.aggregation_temporality == kind
    begun = [metrics["emq.lock.remaining"].histogram.data_points[0].start_time_unix_nano for metrics in (first, last)]
    assert (begun[0] == begun[1]) is whole
    assert not any(TOKEN in body for body in receiver.metrics())


def test_a_collector_that_is_not_there_is_said_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpReceiver() as receiver, structlog.testing.capture_logs() as logged:
        receiver.answer(400)
        made = Made(monkeypatch, OTEL_METRICS_EXPORTER="otlp", OTEL_EXPORTER_OTLP_ENDPOINT=f"{receiver.url}?key=secret")
        assert made.export._push is not None
        for second in range(3):
            made.export._push.force_flush()
            made.export.look(second * 10**9)
        made.export.shutdown()
    said = str(logged)
    assert said.count("metrics could not be pushed") == 1
    assert "secret" not in said
