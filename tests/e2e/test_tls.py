"""Real workers that speak TLS to the sidecar, which speaks TLS to Redis: a job's whole life, its held lock renewed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.peers import Peer, produce
from tests.processes import LOOPBACK, EmqProxy, free_port
from tests.tls import Authority, tls_server

OPTIONS = {"lockDuration": 10_000, "lockRenewTime": 500, "stalledInterval": 5_000}


class Road(NamedTuple):
    """The sidecar, its TLS port, and the file to trust."""

    proxy: EmqProxy
    port: int
    ca: Path


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    folder = tmp_path_factory.mktemp("tls")
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    cert, key = ours.issue("proxy")
    port = free_port()
    env = {
        "OTEL_SDK_DISABLED": "true",
        "EMQPROXY_TLS__CERT_FILE": str(cert),
        "EMQPROXY_TLS__KEY_FILE": str(key),
        "EMQPROXY_UPSTREAM_TLS__CA_FILE": str(theirs.file),
    }
    with (
        tls_server(theirs) as (url, _),
        EmqProxy(url, "--listen", f"tls://{LOOPBACK}:{port}", env=env) as proxy,
    ):
        yield Road(proxy, port, ours.file)


@pytest.mark.parametrize("kind", ["python", "ioredis"])
def test_a_worker_over_tls(kind: str, road: Road) -> None:
    config: dict[str, Any] = {"port": road.port, "ca": str(road.ca), "prefix": "emq", "queue": f"tls-{kind}"}
    worker = Peer(kind, "worker", config | {"options": OPTIONS})
    try:
        assert produce(kind, config | {"jobs": [{"name": "hold", "data": {}, "opts": {"jobId": "held"}}]}) == ["held"]
        worker.wait(event="renewed", job="held", count=2)
        worker.tell(do="let", job="held")
        worker.wait(event="completed", job="held")
        worker.close()
        assert not worker.find(event="error")
    finally:
        worker.end()
    last = road.proxy.wait_journal(lambda line: line["queue"] == config["queue"] and line["op"] == "finish")
    lines = [line for line in road.proxy.journal() if line["queue"] == config["queue"] and line["job"] == "held"]
    assert [line["op"] for line in lines if line["op"] != "renew"] == ["add", "acquire", "finish"]
    assert {line["outcome"] for line in lines} == {"ok"}
    assert [line["grade"] for line in lines if line["op"] == "renew"].count("on_time") >= 2
    assert last["target"] == "completed"
