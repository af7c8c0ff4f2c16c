"""The wiring follows the standard's variables, loses spans rather than memory, and counts what it loses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
import structlog
from opentelemetry.trace import SpanKind

from emqproxy import logs
from emqproxy.observer.draft import Draft, Group
from emqproxy.observer.otlp import Telemetry, resource, shown_endpoint, telemetry
from tests.observer.records_factory import RUN, hello
from tests.otlp_receiver import OtlpReceiver


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[StringIO]:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    stream = StringIO()
    before = structlog.get_config()
    logs.configure("info", stream)
    yield stream
    structlog.configure(**before)


@pytest.fixture
def open_telemetry() -> Iterator[Any]:
    made: list[Telemetry] = []

    def make(console: StringIO | None = None) -> Telemetry:
        made.append(telemetry(hello(), console or StringIO()))
        return made[-1]

    yield make
    for one in made:
        one.shutdown()
        one.release()


def said(log: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def emit(wired: Telemetry, count: int = 1) -> None:
    assert wired.emitter is not None
    for number in range(count):
        wired.emitter.make(_draft(number))


def _draft(number: int) -> Draft:
    told = Group({"a": 1, "none": None})
    return Draft(
        name=f"x {number}",
        kind=SpanKind.CLIENT,
        trace_id=5,
        span_id=number + 1,
        start_ns=10,
        end_ns=20,
        attributes=(told,),
    )


def test_a_span_arrives_with_scope_schema_and_resource(monkeypatch: pytest.MonkeyPatch, open_telemetry: Any) -> None:
    with OtlpReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        wired = open_telemetry()
        emit(wired)
        wired.shutdown()
        (span,) = receiver.wait_for(lambda spans: len(spans) == 1)
    assert (span.name, span.attributes, span.scope) == ("x 0", {"a": 1}, "emqproxy")
    assert span.schema_url == "https://opentelemetry.io/schemas/1.44.0"
    assert span.resource["service.name"] == "emqproxy"
    assert span.resource["service.instance.id"] == RUN
    assert span.resource["service.version"] == "0.1.0"
    assert span.resource["host.name"]
    assert wired.queues[0].undelivered == 0


def test_the_users_resource_wins_over_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,service.instance.id=pod-1,k8s.pod.name=p")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-emqproxy")
    told = resource(hello()).attributes
    assert (told["service.name"], told["service.instance.id"]) == ("shop-emqproxy", "pod-1")
    assert (told["k8s.pod.name"], told["telemetry.sdk.language"]) == ("p", "python")


@pytest.mark.parametrize(
    "env", [{"OTEL_SDK_DISABLED": "TRUE"}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_EXPORTER": "otlp,none"}]
)
def test_spans_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch, open_telemetry: Any, log: StringIO, env: dict[str, str]
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert open_telemetry().emitter is None
    assert said(log) == []


def test_the_console_exporter_writes_a_line_a_span(monkeypatch: pytest.MonkeyPatch, open_telemetry: Any) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    console = StringIO()
    wired = open_telemetry(console)
    emit(wired, 2)
    wired.shutdown()
    assert [json.loads(line)["name"] for line in console.getvalue().splitlines()] == ["x 0", "x 1"]


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
def test_a_protocol_that_is_not_built_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, open_telemetry: Any, log: StringIO, name: str
) -> None:
    monkeypatch.setenv(name, "grpc")
    assert open_telemetry().emitter is None
    (line,) = said(log)
    assert line[name] == "grpc"
    assert f"write {name}=http/protobuf" in line["hint"]


def test_an_exporter_that_is_not_built_is_named_and_the_others_work(
    monkeypatch: pytest.MonkeyPatch, open_telemetry: Any, log: StringIO
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin, console")
    assert [queue.name for queue in open_telemetry().queues] == ["console"]
    (line,) = said(log)
    assert line["OTEL_TRACES_EXPORTER"] == "zipkin"


def test_queue_settings_follow_the_variables_and_survive_bad_ones(
    monkeypatch: pytest.MonkeyPatch, open_telemetry: Any, log: StringIO
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")  # below our own batch size
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "-5")
    assert open_telemetry().queues[0]._queue_max == 10
    (line,) = said(log)
    assert line["OTEL_BSP_SCHEDULE_DELAY"] == "-5"


@pytest.mark.parametrize(
    ("env", "shown"),
    [
        ({}, "http://localhost:4318"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://u:secret@c.example:4318/x?api-key=secret"},
            "https://c.example:4318/x",
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b/t"}, "http://b/t"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1]:4318"}, "http://[::1]:4318"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[secret"}, "(unreadable)"),
    ],
)
def test_the_endpoint_is_shown_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], shown: str
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert shown_endpoint() == shown


def test_a_collector_that_refuses_is_said_once_with_reason_and_remedy(
    monkeypatch: pytest.MonkeyPatch, open_telemetry: Any, log: StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    with OtlpReceiver() as receiver:
        receiver.answer(400)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        wired = open_telemetry()
        emit(wired, 3)
        wired.shutdown()
        for _ in range(3):
            wired.look()
        (line,) = said(log)
        assert (line["endpoint"], line["failed"], line["dropped"]) == (receiver.url, 3, 0)
        assert line["reason"] == "400 Bad Request"
        assert "OTEL_TRACES_EXPORTER=none" in line["hint"]
    assert capfd.readouterr() == ("", ""), "the SDK's own words stay inside"
