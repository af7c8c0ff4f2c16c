"""Who does not get through the door of a `tls://` listener, and what is said of it; on both loops that there are."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
import uvloop
from structlog.testing import capture_logs

from emqproxy.config import Listen, TlsTable
from emqproxy.logs import RateLimited
from emqproxy.proxy.accepting import Room
from emqproxy.proxy.listeners import Listeners
from emqproxy.proxy.tls_door import Door
from tests.processes import LOOPBACK
from tests.proxy.wires import until
from tests.tls import Authority, dial_tls, trusting

Lines = list[dict[str, Any]]
Client = Callable[[int], None]
TIMEOUT_S = 20


class Greeter(asyncio.Protocol):
    """Says hello and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.WriteTransport", transport)
        stream.write(b"hello")
        stream.close()


def on_uvloop(coroutine: Coroutine[Any, Any, None]) -> None:
    uvloop.run(coroutine)


@pytest.fixture(params=[asyncio.run, on_uvloop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


class Place:
    """Our certificate, an authority for clients, and one that nobody trusts."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.stranger = Authority(folder), Authority(folder, "stranger")
        self.cert, self.key = self.authority.issue("own")
        self.client = self.authority.issue("client", "worker")
        self.expired = self.authority.issue("expired", "worker", expired=True)
        self.strange = self.stranger.issue("strange", "worker")

    def table(self, **keys: Any) -> TlsTable:
        return TlsTable.model_validate({"cert_file": str(self.cert), "key_file": str(self.key)} | keys)

    @property
    def mutual(self) -> TlsTable:
        return self.table(client_ca_file=str(self.authority.file))

    def greeted(self, port: int, identity: tuple[Path, Path] | None = None) -> bytes:
        with dial_tls(port, trusting(self.authority.file, identity)) as client:
            return client.recv(10)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("door"))


@contextlib.asynccontextmanager
async def _open(table: TlsTable) -> Any:
    log = RateLimited(structlog.get_logger())
    listeners = Listeners(Room(lambda: 0, log), Door(table, log))
    await listeners.open((Listen("tls", LOOPBACK, 0),), Greeter)
    try:
        yield int(listeners.addresses[0].rpartition(":")[2])
    finally:
        listeners.close()


def knocking(run: Any, table: TlsTable, *clients: Client) -> Lines:
    """The log after these clients have come, one after the other, and each was told of or served."""

    async def within() -> None:
        async with _open(table) as port:
            for client in clients:
                await asyncio.to_thread(client, port)
            await settled()

    with capture_logs() as lines:
        run(within())
    return cast("Lines", lines)


async def settled() -> None:
    """Whoever was let in is through, or was refused."""
    await until(lambda: not [task for task in asyncio.all_tasks() if "_let_in" in repr(task.get_coro())])


def says(data: bytes) -> Client:
    """A client without TLS, which is closed."""

    def client(port: int) -> None:
        with socket.create_connection((LOOPBACK, port), timeout=TIMEOUT_S) as plain, contextlib.suppress(OSError):
            plain.sendall(data)
            while plain.recv(100):  # an alert, perhaps
                pass

    return client


def refused(place: Place, identity: tuple[Path, Path] | None = None, trusted: Path | None = None) -> Client:
    """A client with TLS, which gets nothing."""

    def client(port: int) -> None:
        got = b""
        context = trusting(trusted or place.authority.file, identity)
        with contextlib.suppress(OSError), dial_tls(port, context) as sock:  # ssl.SSLError, or a reset
            got = sock.recv(10)
        assert got == b""

    return client


REASONS: list[tuple[Callable[[Place], tuple[TlsTable, Client]], str]] = [
    (lambda p: (p.table(), says(b"*1\r\n$4\r\nPING\r\n")), "it speaks no TLS; write rediss://"),
    (lambda p: (p.table(), says(b"PING\r\n")), "it speaks no TLS; write rediss://"),
    (lambda p: (p.table(), says(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")), "it speaks HTTP without TLS"),
    (lambda p: (p.table(), refused(p, trusted=p.stranger.file)), "it broke off: unknown ca; does it trust"),
    (lambda p: (p.mutual, refused(p)), "it shows no certificate, and tls.client_ca_file asks for one"),
    (lambda p: (p.mutual, refused(p, p.expired)), "its certificate is refused: certificate has expired"),
    (lambda p: (p.mutual, refused(p, p.strange)), "its certificate is refused: unable to get local issuer"),
]


@pytest.mark.parametrize(("case", "reason"), REASONS)
def test_who_does_not_get_through_is_told_once(
    case: Callable[[Place], tuple[TlsTable, Client]], reason: str, place: Place, run: Any
):
    table, client = case(place)
    good = place.client if table.client_ca_file else None

    def served(port: int) -> None:
        assert place.greeted(port, good) == b"hello"

    (line,) = knocking(run, table, client, client, served)
    assert (line["log_level"], line["event"]) == ("warning", "a client's TLS handshake failed: it is closed")
    assert line["reason"].startswith(reason)
    assert line["client"].startswith("127.0.0.1:")


def test_who_comes_and_goes_is_worth_no_warning(place: Place, run: Any):
    """A port scan, a load balancer's look."""

    def client(port: int) -> None:
        socket.create_connection((LOOPBACK, port), timeout=TIMEOUT_S).close()

    async def within() -> None:
        async with _open(place.table()) as port:
            await asyncio.to_thread(client, port)
            await until(lambda: lines)

    with capture_logs() as lines:
        run(within())
    assert [(line["log_level"], line["reason"]) for line in lines] == [("info", "it went away")]


def test_who_stands_still_in_the_door_is_closed_and_in_nobody_s_way(place: Place, run: Any):
    async def within() -> None:
        async with _open(place.table(handshake_timeout=0.3)) as port:
            with socket.create_connection((LOOPBACK, port), timeout=TIMEOUT_S) as silent:
                assert await asyncio.to_thread(place.greeted, port) == b"hello"
                assert await asyncio.to_thread(silent.recv, 10) == b""
            await settled()

    with capture_logs() as lines:
        run(within())
    assert [line["reason"] for line in lines] == ["it did not finish within 0.3 s"]


def test_what_is_shown_is_what_stands_in_the_file(place: Place, run: Any):
    def client(port: int) -> None:
        with dial_tls(port, trusting(place.authority.file)) as sock:
            shown = sock.getpeercert(binary_form=True)
            assert shown == ssl.PEM_cert_to_DER_cert(place.cert.read_text())

    assert knocking(run, place.table(), client) == []
