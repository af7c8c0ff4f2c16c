"""`emqproxy healthcheck`: whom it asks, what it answers, and that it is quick because it imports little."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from emqproxy import healthcheck
from emqproxy.config import Config
from tests.processes import EmqProxy, RedisServer, environment, free_port


@pytest.mark.parametrize(
    ("arguments", "environ", "asked"),
    [
        ([], {}, ("127.0.0.1", 9464, "/readyz")),
        ([], {"EMQPROXY_HEALTH": "[::]:1"}, ("::1", 1, "/readyz")),
        (["--health", "h:2"], {"EMQPROXY_HEALTH": "x"}, ("h", 2, "/readyz")),
        (["--health=[::1]:3"], {}, ("::1", 3, "/readyz")),
        (["--url", "http://0.0.0.0:4/healthz"], {}, ("127.0.0.1", 4, "/healthz")),
        (["--url=http://h:5"], {}, ("h", 5, "/readyz")),
    ],
)
def test_whom_it_asks(arguments: list[str], environ: dict[str, str], asked: tuple[str, int, str]) -> None:
    assert healthcheck.target(arguments, environ) == asked


@pytest.mark.parametrize(
    ("arguments", "environ", "line"),
    [
        (["--helth", "x"], {}, "--helth: no such option; write --health HOST:PORT or --url URL"),
        (["--health"], {}, "--health: its value is missing; write --health HOST:PORT"),
        (["--url"], {}, "--url: its value is missing; write --url URL"),
        (["--health", "9464"], {}, "--health: write HOST:PORT with a port from 1 to 65535"),
        (["--url", "https://h:1/readyz"], {}, "--url: write http://HOST:PORT/readyz"),
        (["--url", "http://h/readyz"], {}, "--url: write HOST:PORT"),
        ([], {"EMQPROXY_HEALTH": "h:0"}, "EMQPROXY_HEALTH: write HOST:PORT"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], environ: dict[str, str], line: str) -> None:
    with pytest.raises(healthcheck.UsageError) as told:
        healthcheck.target(arguments, environ)
    assert str(told.value).startswith(line)


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that gives one connection one answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            conn, _ = server.accept()
            with conn:
                conn.recv(4096)
                conn.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n{}", 0, ""),
        (b'HTTP/1.1 503 Service Unavailable\r\n\r\n{"reason": "draining"}', 1, "503 from"),
        (b'HTTP/1.1 503 Service Unavailable\r\n\r\n{"reason": "draining"}', 1, '{"reason": "draining"}'),
        (b"-ERR unknown command\r\n", 1, "that is no HTTP server"),
        (b"", 1, "that is no HTTP server"),
    ],
)
def test_what_it_answers(answer: bytes, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(answer) as port:
        assert healthcheck.main(["--health", f"127.0.0.1:{port}"]) == code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == (1 if code else 0)


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert healthcheck.main(["--health", f"127.0.0.1:{free_port()}"]) == 1
    assert "no answer from 127.0.0.1:" in capsys.readouterr().err


def test_its_default_is_the_configuration_s() -> None:
    assert str(Config().health) == healthcheck.DEFAULT


def test_it_imports_nothing_large() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n") as port:
        code = (
            "import sys; from emqproxy.cli import main; "
            f"assert main(['healthcheck', '--health', '127.0.0.1:{port}']) == 0; "
            "print(*{name.partition('.')[0] for name in sys.modules})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=30
        )
    loaded = set(done.stdout.split())
    assert "emqproxy" in loaded, done.stderr
    assert not loaded & {"typer", "pydantic", "aiohttp", "opentelemetry", "structlog", "asyncio", "redis", "http"}


def test_a_real_sidecar_is_ready_until_it_ends(redis_server: RedisServer) -> None:
    with EmqProxy(redis_server.url) as proxy:
        address = f"127.0.0.1:{proxy.health_port}"
        assert healthcheck.main(["--health", address]) == 0
        assert healthcheck.main(["--url", f"http://{address}/healthz"]) == 0
    assert healthcheck.main(["--health", address]) == 1
