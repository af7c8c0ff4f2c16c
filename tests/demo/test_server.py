"""The demo's server: the first on PATH, else the one in the wheel, else words on what to install."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from emqproxy.demo.children import CannotStartError, Children
from emqproxy.demo.server import answers_ping, find_server, free_ports, start_server
from tests.processes import valkey_binary


def test_a_server_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "redis-server"
    mine.symlink_to(valkey_binary())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == str(mine)


def test_the_server_in_the_wheel_starts_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("redis-server") is None
    (port,) = free_ports(1)
    with Children() as children:
        assert start_server(children, port, tmp_path) == "valkey-server"
        assert answers_ping(port)
    assert not answers_ping(port)


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with Children() as children:
        start_server(children, port, tmp_path)
        with Children() as others:
            other = others.start("server", [find_server(), "--port", str(port), "--bind", "127.0.0.1"])
            with pytest.raises(CannotStartError, match="ended with exit code 1"):
                others.wait_until(lambda: False, "server", 10)
            assert other.poll() == 1


def test_free_ports_are_all_different() -> None:
    assert len(set(free_ports(20))) == 20
