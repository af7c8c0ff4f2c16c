"""Compose, Kubernetes and systemd: each manifest is read by its own validator, and emqproxy takes what it is told."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from emqproxy import __version__, cli
from emqproxy.config import Config
from emqproxy.proxy import server
from tests.config import manifests
from tests.config.manifests import COMPOSE, CONFIG, KUBERNETES, UNIT, documents, refused, run, tool

STYLE = (
    "{extends: default, rules: {line-length: {max: 120}, document-start: disable, "
    "comments: {min-spaces-from-content: 1}, braces: {max-spaces-inside: 1}}}"
)
PORTS = {6380, 9464, 9465}


def test_yaml_is_plain() -> None:
    run(tool("yamllint"), "--strict", "-d", STYLE, CONFIG)


def test_compose_is_what_the_specification_says(tmp_path: Path) -> None:
    check = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    run(*check, COMPOSE)
    bad = tmp_path / "compose.yaml"
    bad.write_text(COMPOSE.read_text().replace("cap_drop", "drop_cap"))
    assert "drop_cap" in refused(*check, bad)


def test_kubernetes_knows_every_field(tmp_path: Path) -> None:
    check = [tool("kubernetes-validate"), "--strict", "--no-warn"]
    run(*check, *KUBERNETES)
    bad = tmp_path / "bad.yaml"
    bad.write_text(KUBERNETES[0].read_text().replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"))
    assert "readOnlyRootFileSystem" in refused(*check, bad)


def test_systemd_knows_every_directive(tmp_path: Path) -> None:
    check, unit = tool("systemd-analyze"), tmp_path / "emqproxy.service"
    text = UNIT.read_text().replace("/opt/emqproxy/bin/emqproxy", tool("emqproxy"))
    unit.write_text(text)
    assert "emqproxy.service" not in run(check, "verify", unit)
    unit.write_text(text.replace("PrivateTmp", "PrivateTemp"))
    assert "PrivateTemp" in run(check, "verify", unit)


def test_the_unit_is_hardened(tmp_path: Path) -> None:
    check = tool("systemd-analyze")
    version = re.search(r"^systemd (\d+)", run(check, "--version"), re.MULTILINE)
    if version is None or int(version[1]) < 250:
        pytest.skip("systemd-analyze is older than its rating of files")
    rate = [check, "security", "--offline=yes"]
    run(*rate, "--threshold=15", UNIT)  # of 100: 1.5 of 10
    bare = tmp_path / "emqproxy.service"
    bare.write_text(UNIT.read_text().replace("NoNewPrivileges=yes", "").replace("PrivateUsers=yes", ""))
    refused(*rate, "--threshold=13", bare)


def test_a_reload_is_a_sighup_and_nobody_is_cut_off_at_once() -> None:
    said = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match(r"\w+=", line))
    assert said["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert said["KillMode"] == "mixed"


@pytest.mark.parametrize(("words", "variables"), manifests.commands())
def test_emqproxy_takes_the_command(
    words: list[str], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Config] = []
    for name in [name for name in os.environ if name.startswith("EMQPROXY_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(server, "run", lambda config, *_: taken.append(config) or 0)  # before it would listen
    assert cli.main(words) == 0
    (config,) = taken
    assert [one.port for one in config.listen] == [6380]
    assert config.health is not None
    assert config.observer.admin is not None
    assert (config.health.port, config.observer.admin.port) == (9464, 9465)
    assert config.upstream.port == 6379


def test_no_manifest_has_a_command_that_was_not_tried() -> None:
    tried = {param.id for param in manifests.commands()}
    assert tried == {"compose", "deployment", "sidecar", "Dockerfile", "systemd"}


def test_the_worker_waits_until_the_sidecar_is_ready() -> None:
    services = documents(COMPOSE)[0]["services"]
    assert services["worker"]["depends_on"] == {"emqproxy": {"condition": "service_healthy"}}
    assert services["emqproxy"]["healthcheck"]["test"][1:] == ["emqproxy", "healthcheck"]
    assert services["jaeger"]["image"].startswith("jaegertracing/jaeger:2.")
    assert services["worker"]["environment"]["REDIS_URL"] == "redis://emqproxy:6380"


def container(path: Path) -> dict[str, Any]:
    """emqproxy's, with its pod's specification under `pod`."""
    pod = documents(path)[0]["spec"]["template"]["spec"]
    (found,) = [one for one in pod.get("initContainers", []) + pod["containers"] if one["name"] == "emqproxy"]
    return {**found, "pod": pod}


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.stem)
def test_probes_ask_the_health_port(path: Path) -> None:
    one = container(path)
    ports = {port["name"]: port["containerPort"] for port in one["ports"]}
    assert ports["health"] == 9464
    assert set(ports.values()) <= PORTS
    asked = {probe: (one[probe]["httpGet"]["path"], one[probe]["httpGet"]["port"]) for probe in one if "Probe" in probe}
    assert asked == {
        "startupProbe": ("/readyz", "health"),
        "readinessProbe": ("/readyz", "health"),
        "livenessProbe": ("/healthz", "health"),
    }


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.stem)
def test_a_pod_may_do_nothing(path: Path) -> None:
    one = container(path)
    assert one["securityContext"] == {
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert one["pod"]["automountServiceAccountToken"] is False
    assert one["pod"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_sidecar_is_a_native_one_and_the_worker_speaks_to_it() -> None:
    one = container(CONFIG / "kubernetes" / "sidecar.yaml")
    assert one["restartPolicy"] == "Always"
    assert one in [{**first, "pod": one["pod"]} for first in one["pod"]["initContainers"]]
    assert "--listen=tcp://127.0.0.1:6380" in one["args"], "a sidecar is for its own pod"
    (worker,) = one["pod"]["containers"]
    assert worker["env"] == [{"name": "REDIS_URL", "value": "redis://127.0.0.1:6380"}]


def test_a_deployment_is_drained_before_it_is_killed() -> None:
    one = container(CONFIG / "kubernetes" / "deployment.yaml")
    (drain,) = [int(variable["value"]) for variable in one["env"] if variable["name"] == "EMQPROXY_DRAIN__TIMEOUT"]
    assert drain + 3 < one["pod"]["terminationGracePeriodSeconds"]
    service = documents(CONFIG / "kubernetes" / "deployment.yaml")[1]
    pods = documents(CONFIG / "kubernetes" / "deployment.yaml")[0]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == pods
    assert service["spec"]["ports"] == [{"name": "redis", "port": 6380, "targetPort": "redis"}]


def test_every_file_here_is_tried() -> None:
    """A new example comes with a test."""
    here = {path.relative_to(CONFIG).as_posix() for path in CONFIG.rglob("*") if path.is_file()}
    tried = {
        "compose.yaml", "emqproxy.service", "kubernetes/deployment.yaml", "kubernetes/sidecar.yaml",  # here
        "prometheus/prometheus.yaml", "prometheus/alerts.yaml", "prometheus/alerts_test.yaml",  # test_queries
        "grafana/emqproxy.json", "image/cut_lock.py", "worker/worker.py", "worker/Dockerfile",  # test_image
        "emqproxy.toml",  # tests/test_config.py
    }  # fmt: skip
    assert {name for name in here if "__pycache__" not in name} == tried


def test_the_images_version_is_the_projects() -> None:
    for path in KUBERNETES:
        assert container(path)["image"] == f"emqproxy:{__version__}"
    assert f"ARG VERSION={__version__}\n" in (manifests.ROOT / "Dockerfile").read_text()
    assert tomllib.loads((manifests.ROOT / "pyproject.toml").read_text())["project"]["license"] == "MIT"
