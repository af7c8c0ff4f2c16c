"""What stands in config/, read as its consumers read it: YAML documents, PromQL expressions, command lines."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
CONFIG = ROOT / "config"
COMPOSE = CONFIG / "compose.yaml"
ALERTS = CONFIG / "prometheus" / "alerts.yaml"
ALERTS_TEST = CONFIG / "prometheus" / "alerts_test.yaml"
DASHBOARD = CONFIG / "grafana" / "emqproxy.json"
UNIT = CONFIG / "emqproxy.service"
KUBERNETES = sorted((CONFIG / "kubernetes").glob("*.yaml"))
VARIABLES = {"$__rate_interval": "5m", "$queue": ".*", "$instance": ".*"}
"""Of the dashboard, and what Grafana might put in their places."""


def documents(path: Path) -> list[Any]:
    """All of a YAML file."""
    return list(yaml.safe_load_all(path.read_text()))


def rules() -> list[dict[str, Any]]:
    """All alert rules."""
    return [rule for group in documents(ALERTS)[0]["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """All panels of the dashboard, rows too."""
    return list(json.loads(DASHBOARD.read_text())["panels"])


def dashboard_expressions() -> list[str]:
    """What the dashboard asks, its variables filled in."""
    found = [target["expr"] for panel in panels() for target in panel.get("targets", [])]
    for variable, value in VARIABLES.items():
        found = [expression.replace(variable, value) for expression in found]
    return found


def expressions() -> list[str]:
    """All PromQL there is."""
    return [*(rule["expr"] for rule in rules()), *dashboard_expressions()]


def _below(node: Any) -> Iterator[Any]:
    yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        if isinstance(child := getattr(node, name, None), promql.Expr):
            yield from _below(child)
    for child in getattr(node, "args", None) or ():
        yield from _below(child)


def selectors(expression: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The series that an expression reads: a name, and label and value of each of its matchers."""
    for node in _below(promql.parse(expression)):
        # A range's selector is met as its own child.
        if isinstance(node, promql.VectorSelector):
            yield node.name, [(one.name, one.value) for one in node.matchers.matchers]


def grouped(expression: str) -> Iterator[tuple[list[str], list[str]]]:
    """Of each `by (…)`: its labels, and the names of the series below it."""
    for node in _below(promql.parse(expression)):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            yield list(node.modifier.labels), [name for name, _ in selectors(node.expr.prettify())]


def tool(name: str) -> str:
    """The path of a program that `.ci/run` installs; where it is not there, the test is skipped and says so."""
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not on PATH")
    return path


def run(*command: str | Path) -> str:
    """What a program says; AssertionError where it does not end well."""
    code, said = _ended(command)
    assert code == 0, said
    return said


def refused(*command: str | Path) -> str:
    """What a program says that does not end well; AssertionError where it does."""
    code, said = _ended(command)
    assert code != 0, said
    return said


def _ended(command: tuple[str | Path, ...]) -> tuple[int, str]:
    ended = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return ended.returncode, ended.stdout.decode()


def commands() -> list[Any]:
    """Every way in which a manifest starts emqproxy: the words after `emqproxy`, and the environment."""
    service = documents(COMPOSE)[0]["services"]["emqproxy"]
    found = [pytest.param(service["command"], service["environment"], id="compose")]
    for path in KUBERNETES:
        for document in documents(path):
            pod = document["spec"].get("template", {}).get("spec", {})
            for container in [*pod.get("initContainers", []), *pod.get("containers", [])]:
                if container["name"] == "emqproxy":
                    variables = {one["name"]: one.get("value", "word") for one in container["env"]}
                    found.append(pytest.param(container["args"], variables, id=path.stem))
    dockerfile = (ROOT / "Dockerfile").read_text()
    default = re.search(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)
    assert default is not None
    variables = dict(re.findall(r"\b(EMQPROXY_\w+)=(\S+)", dockerfile.split("ENTRYPOINT")[0].rpartition("ENV ")[2]))
    started = re.search(r"^ExecStart=\S+ (.*)$", UNIT.read_text(), re.MULTILINE)
    assert started is not None
    words = [word.replace("/etc/emqproxy", str(CONFIG)) for word in started[1].split()]
    return [
        *found,
        pytest.param(json.loads(default[1]), variables, id="Dockerfile"),
        pytest.param(words, {}, id="systemd"),
    ]
