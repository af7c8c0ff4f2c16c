"""Sockets to listen on: taken ports, stale and living socket files, what is left at the end."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import structlog
import uvloop

from emqproxy.config import Listen
from emqproxy.logs import RateLimited
from emqproxy.proxy.accepting import Room
from emqproxy.proxy.listeners import CannotStartError, Listeners


class Greeter(asyncio.Protocol):
    """Says hello and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.WriteTransport", transport)
        stream.write(b"hello")
        stream.close()


def unix(path: Path) -> Listen:
    return Listen.parse(f"unix://{path}")


def greeting(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        return client.recv(10)


def opened(*listen: Listen, look: Callable[[Listeners], None] = lambda _: None) -> None:
    async def run() -> None:
        listeners = Listeners(Room(lambda: 0, RateLimited(structlog.get_logger())))
        await listeners.open(listen, Greeter)
        try:
            await asyncio.to_thread(look, listeners)
        finally:
            listeners.close()

    uvloop.run(run())


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "sock"


def test_port_0_becomes_a_real_one_and_ipv6_is_in_brackets():
    def look(listeners: Listeners) -> None:
        first, second = listeners.addresses
        assert first.startswith("tcp://127.0.0.1:")
        assert second.startswith("tcp://[::1]:")
        port = int(first.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            assert client.recv(10) == b"hello"

    opened(Listen("tcp", "127.0.0.1", 0), Listen("tcp", "::1", 0), look=look)


def test_a_socket_file_is_made_and_removed(path: Path):
    def look(listeners: Listeners) -> None:
        assert listeners.addresses == [f"unix://{path}"]
        assert greeting(path) == b"hello"

    opened(unix(path), look=look)
    assert not path.exists()


def test_a_stale_socket_file_is_replaced(path: Path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.is_socket()
    opened(unix(path), look=lambda _: greeting(path) == b"hello" or pytest.fail("not ours"))


@pytest.mark.parametrize("busy", [False, True])
def test_a_living_socket_is_left_alone(path: Path, busy: bool):
    with socket.socket(socket.AF_UNIX) as living, socket.socket(socket.AF_UNIX) as waiting:
        living.bind(str(path))
        living.listen(0 if busy else 4)
        if busy:  # its backlog is full
            waiting.connect(str(path))
        with pytest.raises(CannotStartError, match="ddress already in use; give --listen another"):
            opened(unix(path))
        assert path.is_socket()
        if not busy:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                living.accept()[0].close()  # our own look at it
                living.accept()[0].close()


def test_what_is_no_socket_is_left_alone(path: Path):
    path.write_text("precious")
    with pytest.raises(CannotStartError, match=f"cannot listen on unix://{path}: "):
        opened(unix(path))
    assert path.read_text() == "precious"


def test_a_file_that_another_put_in_our_place_stays(path: Path):
    def look(_: Listeners) -> None:
        path.unlink()
        path.write_text("another's")

    opened(unix(path), look=look)
    assert path.read_text() == "another's"


def test_none_is_left_open_where_one_cannot_be_had(path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(CannotStartError):
            opened(unix(path), Listen("tcp", "127.0.0.1", taken.getsockname()[1]))
        assert not path.exists()


def test_a_folder_that_is_not_there(tmp_path: Path):
    with pytest.raises(CannotStartError, match="No such file or directory") as told:
        opened(unix(tmp_path / "none" / "sock"))
    assert "\n" not in str(told.value)
    assert not os.path.lexists(tmp_path / "none")
