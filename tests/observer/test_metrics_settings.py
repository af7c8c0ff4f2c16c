"""The `OTEL_*` variables of metrics."""

from __future__ import annotations

import pytest
import structlog.testing

from emqproxy.observer import metrics_settings as settings
from tests.processes import environment


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, ["prometheus"]),
        ({"OTEL_METRICS_EXPORTER": ""}, ["prometheus"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ["prometheus"]),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, ["prometheus", "otlp"]),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, ["otlp"]),
        ({"OTEL_METRICS_EXPORTER": " OTLP , prometheus,otlp"}, ["otlp", "prometheus"]),
        ({"OTEL_METRICS_EXPORTER": "none"}, []),
        ({"OTEL_METRICS_EXPORTER": "otlp,none"}, []),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_METRICS_EXPORTER": "otlp"}, []),
        ({"OTEL_SDK_DISABLED": "false"}, ["prometheus"]),
    ],
)
def test_where_metrics_go(variables: dict[str, str], names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", environment(**variables))
    assert settings.exporters() == names


def test_what_is_not_built_is_one_line_and_the_rest_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "os.environ", environment(OTEL_METRICS_EXPORTER="console,otlp", OTEL_METRIC_EXPORT_INTERVAL="-1")
    )
    with structlog.testing.capture_logs() as said:
        assert settings.exporters() == ["otlp"]
        assert settings.whole("OTEL_METRIC_EXPORT_INTERVAL", 60_000) == 60_000
        assert settings.whole("OTEL_METRIC_EXPORT_TIMEOUT", 30_000) == 30_000
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        assert not settings.protocol_is_built()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf")
        assert settings.protocol_is_built()
    assert len(said) == 3
    for line, word in zip(said, ("console", "OTEL_METRIC_EXPORT_INTERVAL", "grpc"), strict=True):
        assert word in str(line)


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, "http://localhost:4318"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:secret@c:4318/p?key=secret"}, "http://c:4318/p"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://[::1]:9/m"},
            "http://[::1]:9/m",
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[secret"}, "(unreadable)"),
    ],
)
def test_the_endpoint_is_shown_without_secrets(
    variables: dict[str, str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", environment(**variables))
    assert settings.shown_endpoint() == shown


@pytest.mark.parametrize(
    ("written", "wants"), [("", False), ("cumulative", False), ("Delta", True), ("lowmemory", True)]
)
def test_differences_are_told_where_they_are_wanted(written: str, wants: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", environment(OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=written))
    assert settings.wants_delta() is wants
