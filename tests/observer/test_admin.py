"""The admin listener by itself, over real sockets: what it answers, and whom."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
import structlog.testing

from emqproxy.observer import admin as admin_module
from emqproxy.observer.admin import SILENT_S_MAX, Admin, Ready
from tests.observer.scrape import get
from tests.processes import LOOPBACK, free_port

PAGE = b"emq_page 1\n"


class Told:
    """What the observer knows."""

    def __init__(self) -> None:
        self.page: tuple[bytes, str] | None = (PAGE, "text/plain; version=0.0.4; charset=utf-8")
        self.accepted: list[str] = []
        self.jobs: dict[tuple[str, int], bytes] = {}
        self.ready: Ready | None = Ready(0.5, True, '{"ready": true}')

    def metrics(self, accept: str) -> tuple[bytes, str] | None:
        self.accepted.append(accept)
        return self.page

    def listener(self, host: str = LOOPBACK, port: int = 0) -> Admin:
        made = Admin(host, port, self.metrics, lambda: self.ready, lambda key, db: self.jobs.get((key, db)))
        made.start()
        return made


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def port(told: Told) -> Iterator[int]:
    listener = told.listener()
    assert listener.listens(10)
    yield listener.port
    listener.close()


def test_the_page_is_given_with_its_type_and_to_head_without_its_body(told: Told, port: int) -> None:
    status, body, headers = get(port, "/metrics", Accept="text/plain;version=1.0.0")
    assert (status, body, headers["content-type"]) == (200, PAGE, "text/plain; version=0.0.4; charset=utf-8")
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert told.accepted == ["text/plain;version=1.0.0"]
    assert get(port, "/metrics", "HEAD")[:2] == (200, b"")


def test_metrics_that_are_off_are_said_to_be(told: Told, port: int) -> None:
    told.page = None
    status, body, _ = get(port, "/metrics")
    assert status == 404
    assert b"OTEL_METRICS_EXPORTER" in body


def test_a_job_s_lines_are_given_by_its_key_and_its_database(told: Told, port: int) -> None:
    told.jobs = {("emq:orders:4 2", 3): b'{"v":1}'}
    status, body, headers = get(port, "/api/jobs?key=emq%3Aorders:4+2&db=3")
    assert (status, body, headers["content-type"]) == (200, b'{"v":1}\n', "application/json")
    assert get(port, "/api/jobs?key=emq:orders:4+2")[0] == 404


@pytest.mark.parametrize("query", ["", "?db=1", "?key=", "?key=a:b:c&db=x", "?key=a:b:c&db=-1", "?key=a&db=999999999"])
def test_what_asks_for_no_job(port: int, query: str) -> None:
    status, body, _ = get(port, f"/api/jobs{query}")
    assert (status, list(json.loads(body))) == (400, ["error"])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/nowhere"])
def test_it_reads_only(port: int, method: str, path: str) -> None:
    status, _, headers = get(port, path, method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9465", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:1", "@"]
)
@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/nowhere"])
def test_on_loopback_other_names_are_refused(port: int, host: str, path: str) -> None:
    status, body, _ = get(port, path, Host=host)
    assert status == 403
    assert PAGE not in body


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9465", "LOCALHOST.", "127.0.0.1", "127.0.0.2:1", "[::1]", "[::1]:9"]
)
def test_names_of_loopback_are_answered(port: int, host: str) -> None:
    assert get(port, "/metrics", Host=host)[0] == 200


def test_elsewhere_any_name_is_answered(told: Told) -> None:
    listener = told.listener("0.0.0.0")
    try:
        assert listener.listens(10)
        assert get(listener.port, "/metrics", Host="emqproxy.prod.svc")[0] == 200
    finally:
        listener.close()


def test_what_is_no_http_is_refused_and_leaves_no_word(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    for garbage in (
        b"SMUGGLE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ):
        with socket.create_connection((LOOPBACK, port), timeout=10) as sock:
            sock.sendall(garbage)
            assert sock.recv(4096).startswith(b"HTTP/1.0 400")
    assert get(port, "/metrics")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_page_that_cannot_be_made_is_one_line_and_the_listener_goes_on(
    told: Told, port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    told.accepted = None  # type: ignore[assignment]
    with structlog.testing.capture_logs() as logged:
        assert get(port, "/metrics")[0] == 500
        assert get(port, "/healthz")[0] == 200
    said, err = str(logged), capfd.readouterr().err
    assert said.count("observer consumer failed") == 1
    assert err == ""


def test_no_other_origin_may_read(port: int) -> None:
    _, _, headers = get(port, "/metrics", Origin="http://evil.example")
    assert not [name for name in headers if name.startswith("access-control")]


def test_health_and_readiness_as_the_data_plane_told_them(told: Told, port: int) -> None:
    assert get(port, "/healthz")[:2] == (200, b'{"alive": true}\n')
    assert get(port, "/readyz")[:2] == (200, b'{"ready": true}\n')
    told.ready = Ready(0.5, False, '{"ready": false, "reason": "draining"}')
    assert get(port, "/readyz")[:2] == (503, b'{"ready": false, "reason": "draining"}\n')
    for silent in (None, Ready(SILENT_S_MAX + 1, True, '{"ready": true}')):
        told.ready = silent
        status, body, _ = get(port, "/readyz")
        assert (status, json.loads(body)["ready"]) == (503, False)
        assert "the data plane has told nothing" in json.loads(body)["reason"]


def test_what_is_not_there_says_what_is(port: int) -> None:
    status, body, _ = get(port, "/")
    assert status == 404
    assert b"/metrics" in body


def test_a_port_that_is_taken_is_tried_again(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module, "RETRY_S", 0.05)
    port = free_port()
    with socket.create_server((LOOPBACK, port)):
        listener = told.listener(port=port)
        assert not listener.listens(0.3)
    try:
        assert listener.listens(10)
        assert get(port, "/metrics")[0] == 200
    finally:
        listener.close()


def test_one_that_never_listened_ends_all_the_same(told: Told) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        listener = told.listener(port=taken.getsockname()[1])
        listener.close()
        assert not listener._thread.is_alive()
