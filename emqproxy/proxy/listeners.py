"""Listening sockets, TCP, TLS and unix. A stale socket file is removed; one that somebody listens on is not."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable
from typing import Final

from emqproxy.config import HostPort, Listen
from emqproxy.proxy.accepting import Acceptor, Room
from emqproxy.proxy.tls_door import Door

BACKLOG: Final = 1024
"""Workers reconnect all at once after a restart."""


class CannotStartError(Exception):
    """Something we need cannot be had; its message says what and why."""


class Listeners:
    """All listeners of one sidecar. Whoever makes room calls `resume`; a `tls://` one needs a `door`."""

    def __init__(self, room: Room, door: Door | None = None) -> None:
        self._room, self._door = room, door
        self._acceptors: list[Acceptor] = []
        self._paths: list[tuple[str, int]] = []
        """Socket files that are ours, with their inode: another's in the same place stays."""
        self.addresses: list[str] = []
        """As they came to be: a port 0 has become a real one."""

    async def open(self, listen: tuple[Listen, ...], factory: Callable[[], asyncio.Protocol]) -> None:
        """Opens all, or raises CannotStartError with none left open."""
        for one in listen:
            try:
                if one.kind == "unix":
                    sockets = [_unix_socket(one.path)]
                    self._paths.append((one.path, os.stat(one.path).st_ino))
                    self.addresses.append(str(one))
                else:
                    sockets = await tcp_sockets(one.host, one.port)
                    self.addresses.append(f"{one.kind}://{HostPort(one.host, sockets[0].getsockname()[1])}")
            except OSError as error:
                self.close()
                why = f"{error.strerror or error}; give --listen another"
                raise CannotStartError(f"cannot listen on {one}: {why}") from None
            door = self._door if one.kind == "tls" else None
            assert (door is not None) == (one.kind == "tls"), "without a door it would be open to all"
            self._acceptors += [Acceptor(sock, factory, self._room, door) for sock in sockets]
        self.resume()

    def resume(self) -> None:
        """There is room again."""
        for acceptor in self._acceptors:
            acceptor.resume()

    def close(self) -> None:
        """Stops accepting; connections that exist go on."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        for path, inode in self._paths:
            try:
                if os.stat(path).st_ino == inode:
                    os.unlink(path)
            except OSError:
                continue
        self._paths.clear()


async def tcp_sockets(host: str, port: int) -> list[socket.socket]:
    """A socket that listens on each address of this host; OSError, with none left open, where one cannot be had."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            sock = socket.socket(family, socket.SOCK_STREAM)
            made.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
    except OSError:
        for sock in made:
            sock.close()
        raise
    return made


def _unix_socket(path: str) -> socket.socket:
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


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
