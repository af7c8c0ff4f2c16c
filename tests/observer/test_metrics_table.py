"""The table of metrics itself; `test_metrics_export` holds its Prometheus names against the exporter's."""

from __future__ import annotations

import re

from emqproxy.observer.metrics_table import METRICS, PROMETHEUS_NAMES


def test_each_name_stands_once_and_is_one_of_prometheus_own() -> None:
    assert len(set(PROMETHEUS_NAMES)) == len(PROMETHEUS_NAMES) == len({metric.name for metric in METRICS})
    for metric in METRICS:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", metric.prometheus), metric.name
        assert metric.prometheus.endswith("_total") == (metric.kind == "counter")


def test_histograms_alone_have_bounds_and_those_rise() -> None:
    for metric in METRICS:
        assert bool(metric.bounds) == (metric.kind == "histogram"), metric.name
        assert list(metric.bounds) == sorted(set(metric.bounds))


def test_no_label_is_named_for_what_must_not_stand_in_one() -> None:
    for metric in METRICS:
        assert not {"job", "token", "worker", "client", "conn", "key"} & set(metric.labels), metric.name
        assert metric.text.endswith(".")
