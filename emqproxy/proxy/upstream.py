"""Connections to the Redis behind us: resolved anew on each connect, bounded in time, kept alive."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol, TypeVar, cast

from emqproxy import logs
from emqproxy.config import Upstream, UpstreamTlsTable
from emqproxy.logs import RateLimited
from emqproxy.proxy import clock
from emqproxy.proxy.tls import client_context
from emqproxy.proxy.tls_files import TlsFiles

CONNECT_TIMEOUT_S: Final = 5.0
KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 15
KEEPALIVE_COUNT: Final = 4
"""A peer that vanished is noticed after two minutes; a blocking call may last for ever."""
UNREAD_BYTES: Final = 256 * 1024
BUFFER_BYTES_HIGH: Final = 256 * 1024
"""What may wait to be written to a slow peer before its sender is paused."""

P = TypeVar("P", bound=asyncio.Protocol)


class Connector:
    """Makes connections to one upstream. `connect` raises OSError: ssl.SSLError, TimeoutError and gaierror are such."""

    def __init__(
        self, upstream: Upstream, table: UpstreamTlsTable | None = None, log: RateLimited | None = None
    ) -> None:
        """`table`: of a `rediss://` upstream. Raises ConfigError where its files cannot be used."""
        self.upstream = upstream
        self._log = log or RateLimited(logs.get())
        self._tls = TlsFiles(table or UpstreamTlsTable(), client_context, self._log) if upstream.tls else None
        self._warn()

    def use(self, table: UpstreamTlsTable) -> None:
        """Another table, or its files anew, for the next connection; ConfigError, and all stays as it was."""
        if self._tls is not None:
            self._tls.use(table)
            self._warn()

    def _warn(self) -> None:
        if self._tls is not None and self._tls.table.insecure_skip_verify:
            words = "upstream_tls.insecure_skip_verify is true: whoever answers is believed to be Redis"
            self._log.warning(words, now=clock.now(), upstream=str(self.upstream))

    def tls_arguments(self) -> dict[str, Any]:
        """What asyncio is told of TLS for the next connection: `ssl` and `server_hostname`; nothing without it."""
        if self._tls is None:
            return {}
        name = self._tls.table.server_name or self.upstream.host
        return {"ssl": self._tls.context(clock.now()), "server_hostname": name}

    async def connect(self, factory: Callable[[], P]) -> P:
        """One connection, or OSError within CONNECT_TIMEOUT_S."""
        loop, upstream = asyncio.get_running_loop(), self.upstream
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if upstream.kind == "unix":
                transport, protocol = await loop.create_unix_connection(factory, upstream.path)
            else:
                transport, protocol = await loop.create_connection(
                    factory, upstream.host, upstream.port, **self.tls_arguments()
                )
        keep_alive(transport)
        return protocol


class Pair(Protocol):
    """What the connection to Redis needs of the pair it is half of."""

    def from_server(self, data: bytes, now: int) -> None: ...
    def server_takes(self, takes: bool) -> None: ...
    def server_lost(self, said: Iterable[bytes]) -> None: ...


class ServerSide(asyncio.Protocol):
    """The connection to Redis."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=BUFFER_BYTES_HIGH)

    def data_received(self, data: bytes) -> None:
        self._pair.from_server(data, clock.now())

    def eof_received(self) -> bool:
        return False  # what came is flushed to the client, and both are closed

    def pause_writing(self) -> None:
        self._pair.server_takes(False)

    def resume_writing(self) -> None:
        self._pair.server_takes(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pair.server_lost(unread(self.transport) if exc is not None and self.transport is not None else ())


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
