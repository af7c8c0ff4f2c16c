"""Connections to the Redis behind us: resolved anew on each connect, bounded in time, kept alive."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Final, TypeVar, cast

from emqproxy.config import Upstream

CONNECT_TIMEOUT_S: Final = 5.0
KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 15
KEEPALIVE_COUNT: Final = 4
"""A peer that vanished is noticed after two minutes; a blocking call may last for ever."""
UNREAD_BYTES: Final = 256 * 1024

P = TypeVar("P", bound=asyncio.Protocol)


class Connector:
    """Makes connections to one upstream. `connect` raises OSError: ssl.SSLError, TimeoutError and gaierror are such."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self._tls = ssl.create_default_context() if upstream.tls else None

    async def connect(self, factory: Callable[[], P]) -> P:
        """One connection, or OSError within CONNECT_TIMEOUT_S."""
        loop, upstream = asyncio.get_running_loop(), self.upstream
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if upstream.kind == "unix":
                transport, protocol = await loop.create_unix_connection(factory, upstream.path)
            else:
                transport, protocol = await loop.create_connection(
                    factory,
                    upstream.host,
                    upstream.port,
                    ssl=self._tls,
                    server_hostname=upstream.host if self._tls else None,
                )
        keep_alive(transport)
        return protocol


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Sets TCP keepalive; without effect on a unix socket."""
    sock = cast("socket.socket | None", transport.get_extra_info("socket"))
    if sock is None or sock.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_COUNT)
    except OSError:  # the peer is gone already
        return


def unread(transport: asyncio.Transport) -> Iterator[bytes]:
    """What came before the connection was lost, and still stands in the kernel. To be asked in `connection_lost`.

    Redis may refuse and close while more is on its way to it. A write that fails then ends the transport, and nobody
    would read why. Nothing over TLS.
    """
    sock = cast("socket.socket | None", transport.get_extra_info("socket"))
    if sock is None or transport.get_extra_info("ssl_object") is not None:
        return
    try:
        with sock.dup() as own:
            own.setblocking(False)
            while data := own.recv(UNREAD_BYTES):
                yield data
    except OSError:  # no more, or none
        return


def in_words(error: BaseException) -> str:
    """Why a connection could not be made, in one line."""
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_TIMEOUT_S:.0f} s"
    return " ".join(str(error).split()) or type(error).__name__
