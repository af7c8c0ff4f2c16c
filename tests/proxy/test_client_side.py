"""What is known of a client's connection: its address, and whether it speaks TLS and has said that it sends no more."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
import uvloop

from emqproxy.config import Listen, TlsTable
from emqproxy.logs import RateLimited
from emqproxy.proxy.accepting import Room
from emqproxy.proxy.client_side import address, over_tls
from emqproxy.proxy.listeners import Listeners
from emqproxy.proxy.tls_door import Door
from tests.processes import LOOPBACK
from tests.tls import Authority, talk_tls, trusting


@pytest.mark.parametrize(
    ("name", "shown"),
    [(("10.0.0.1", 7), "10.0.0.1:7"), (("::1", 7, 0, 0), "[::1]:7"), ("", None), (None, None)],
)
def test_an_address(name: object, shown: str | None):
    assert address(name) == shown


class Slow(asyncio.Protocol):
    """Answers what it was told only when the client has said that no more will come."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._told = bytearray()
        assert over_tls(transport, self._answer)

    def data_received(self, data: bytes) -> None:
        self._told += data

    def _answer(self) -> None:
        self._transport.write(bytes(self._told))
        self._transport.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_sends_no_more_still_reads(run: Any, version: ssl.TLSVersion, tmp_path: Path):
    authority = Authority(tmp_path)
    cert, key = authority.issue("own")
    context = trusting(authority.file)
    context.maximum_version = version
    said = b"x" * 1_000_000

    async def within() -> bytes:
        log = RateLimited(structlog.get_logger())
        door = Door(TlsTable(cert_file=str(cert), key_file=str(key)), log)
        listeners = Listeners(Room(lambda: 0, log), door)
        await listeners.open((Listen("tls", LOOPBACK, 0),), Slow)
        try:
            return await asyncio.to_thread(talk_tls, int(listeners.addresses[0].rpartition(":")[2]), context, said)
        finally:
            listeners.close()

    assert run(within()) == said
