"""Alert rules and dashboard: Prometheus itself reads and plays them, and they ask for what emqproxy exports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from emqproxy.locks.policy import Action
from emqproxy.locks.verdicts import Finding, Grade
from emqproxy.observer.metrics_table import METRICS, PROMETHEUS_NAMES
from emqproxy.scripts.answers import CODE_NAMES, RENEW_REFUSED
from tests.config import manifests

OF_THE_SCRAPE = {"job", "instance"}
SERIES = {
    metric.prometheus + ending: {re.sub(r"\W", "_", label) for label in metric.labels} | more
    for metric in METRICS
    for ending, more in (
        [("_bucket", {"le"}), ("_sum", set()), ("_count", set())] if metric.kind == "histogram" else [("", set())]
    )
} | {"up": set()}
"""Every series that there is, with its labels."""


def unknown(expression: str) -> list[str]:
    """What it asks for and nobody exports."""
    found = []
    for name, matchers in manifests.selectors(expression):
        found += [name] if name not in SERIES else []
        found += [f"{name}{{{label}}}" for label, _ in matchers if label not in SERIES.get(name, set()) | OF_THE_SCRAPE]
    for labels, names in manifests.grouped(expression):
        found += [f"{n} by {x}" for n in names for x in labels if x not in SERIES.get(n, set()) | OF_THE_SCRAPE]
    return found


@pytest.mark.parametrize("expression", manifests.expressions())
def test_it_asks_for_what_is_exported(expression: str) -> None:
    assert list(manifests.selectors(expression))
    assert unknown(expression) == []


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("rate(emq_lock_renewal_total[5m])", ["emq_lock_renewal_total"]),
        ('emq_locks_held{grade="late"} > 1', ["emq_locks_held{grade}"]),
        ("sum by (side) (rate(emq_jobs_stalled_total[5m])) > 0 or up", ["emq_jobs_stalled_total by side"]),
        ("histogram_quantile(0.9, rate(emq_proxy_overhead_seconds[5m]))", ["emq_proxy_overhead_seconds"]),
        ("up unless last_over_time(nothing[1h] offset 5m)", ["nothing"]),
        ("(up + nothing) > 0 or topk(3, nothing)", ["nothing", "nothing"]),
    ],
)
def test_what_is_not_exported_is_seen(bad: str, told: list[str]) -> None:
    assert unknown(bad) == told


def test_every_metric_stands_on_the_dashboard() -> None:
    shown = {name for expression in manifests.dashboard_expressions() for name, _ in manifests.selectors(expression)}
    assert {name for name in PROMETHEUS_NAMES if not shown & {name, f"{name}_bucket"}} == set()


def test_the_values_that_rules_look_for_are_ones_that_occur() -> None:
    occurs = {
        "grade": {grade.value for grade in Grade},
        "kind": {"lapse", "refused", RENEW_REFUSED, *CODE_NAMES.values(), *(finding.word for finding in Finding)},
        "result": {"ok", "failed", "exported", "dropped", "shed"},
        "job": {"emqproxy"},
        "action": {action.value for action in Action},
    }
    for expression in manifests.expressions():
        for _, matchers in manifests.selectors(expression):
            for label, value in matchers:
                assert value == ".*" or set(value.split("|")) <= occurs[label], (label, value)


def test_every_finding_that_suspects_somebody_alerts() -> None:
    (rule,) = [rule for rule in manifests.rules() if rule["alert"] == "EmqproxyLockHeldTwice"]
    ((_, value),) = {matcher for _, matchers in manifests.selectors(rule["expr"]) for matcher in matchers}
    grave = {finding.word for finding in Finding if finding < Finding.DOUBTFUL}
    assert set(value.split("|")) == grave - {Finding.STRAGGLER.word}  # what a straggler said was refused


def test_prometheus_reads_rules_and_its_configuration() -> None:
    promtool = manifests.tool("promtool")
    manifests.run(promtool, "check", "config", "--lint-fatal", manifests.CONFIG / "prometheus" / "prometheus.yaml")


def test_prometheus_reads_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{n}", "expr": expr} for n, expr in enumerate(manifests.dashboard_expressions())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in manifests.run(manifests.tool("promtool"), "check", "rules", file)


def test_prometheus_plays_every_alert() -> None:
    played = {
        case["alertname"]
        for test in manifests.documents(manifests.ALERTS_TEST)[0]["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert played == {rule["alert"] for rule in manifests.rules()}
    manifests.run(manifests.tool("promtool"), "test", "rules", manifests.ALERTS_TEST)


@pytest.mark.parametrize(("right", "wrong"), [("> 0.05\n        for: 5m", "> 0.2"), ("offset 10m", "offset 1s")])
def test_the_play_notices_another_rule(right: str, wrong: str, tmp_path: Path) -> None:
    text = manifests.ALERTS.read_text()
    assert right in text
    (tmp_path / "alerts.yaml").write_text(text.replace(right, wrong))
    played = tmp_path / "alerts_test.yaml"
    played.write_text(manifests.ALERTS_TEST.read_text())
    assert "FAILED" in manifests.refused(manifests.tool("promtool"), "test", "rules", played)


def test_panels_stand_side_by_side() -> None:
    taken: set[tuple[int, int]] = set()
    numbers = set()
    for panel in manifests.panels():
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        numbers.add(panel["id"])
        for asks in [panel, *panel.get("targets", [])] if panel["type"] != "row" else []:
            assert asks["datasource"]["uid"] == "${datasource}", "a dashboard that one Grafana only can show"
    assert len(numbers) == len(manifests.panels())
