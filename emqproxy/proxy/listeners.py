"""Listening sockets, TCP and unix. A stale socket file is removed; one that somebody listens on is not."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable
from typing import Final

from emqproxy.config import HostPort, Listen

BACKLOG: Final = 1024
"""Workers reconnect all at once after a restart."""


class CannotStartError(Exception):
    """Something we need cannot be had; its message says what and why."""


class Listeners:
    """All listeners of one sidecar."""

    def __init__(self) -> None:
        self._servers: list[asyncio.AbstractServer] = []
        self._paths: list[tuple[str, int]] = []
        """Socket files that are ours, with their inode: another's in the same place stays."""
        self.addresses: list[str] = []
        """As they came to be: a port 0 has become a real one."""

    async def open(self, listen: tuple[Listen, ...], factory: Callable[[], asyncio.Protocol]) -> None:
        """Opens all, or raises CannotStartError with none left open."""
        loop = asyncio.get_running_loop()
        for one in listen:
            try:
                if one.kind == "unix":
                    _remove_stale(one.path)
                    server: asyncio.AbstractServer = await loop.create_unix_server(factory, one.path, backlog=BACKLOG)
                    self._paths.append((one.path, os.stat(one.path).st_ino))
                    self.addresses.append(str(one))
                else:
                    server = await loop.create_server(factory, one.host, one.port, backlog=BACKLOG)
                    port = server.sockets[0].getsockname()[1]
                    self.addresses.append(f"tcp://{HostPort(one.host, port)}")
            except OSError as error:
                self.close()
                why = f"{error.strerror or error}; give --listen another"
                raise CannotStartError(f"cannot listen on {one}: {why}") from None
            self._servers.append(server)

    def close(self) -> None:
        """Stops accepting; connections that exist go on."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for path, inode in self._paths:
            try:
                if os.stat(path).st_ino == inode:
                    os.unlink(path)
            except OSError:
                continue
        self._paths.clear()


def _remove_stale(path: str) -> None:
    """Raises OSError where a living socket is in the way: the loop itself would remove it without asking."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return  # not ours to remove: binding will say so
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a peer with a full backlog lives, too
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
