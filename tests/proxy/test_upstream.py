"""Every kind of upstream there is, through the real sidecar; a name is resolved anew; keepalive is on."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from emqproxy.config import TlsTable, Upstream, UpstreamTlsTable
from emqproxy.proxy.tls import server_context
from emqproxy.proxy.upstream import KEEPALIVE_IDLE_S, Connector, in_words
from tests.processes import LOOPBACK, EmqProxy, RedisServer, eventually
from tests.proxy.wires import ask, dial, drain, exactly, half_close, sidecar, talk
from tests.session.talk import words
from tests.tls import Authority, tls_redis

BIG = 8_000_000


def both_ways(proxy: EmqProxy) -> None:
    """A large value there and back, in order behind small ones."""
    value = b"v" * BIG
    with dial(proxy.port) as client:
        ask(client, "SET", "k", value, answer=b"+OK\r\n")
        client.sendall(words("PING") + words("GET", "k") + words("PING"))
        expected = b"+PONG\r\n$%d\r\n%s\r\n+PONG\r\n" % (BIG, value)
        assert exactly(client, len(expected)) == expected
        ask(client, "DEL", "k", answer=b":1\r\n")


def test_a_unix_socket_upstream_and_a_unix_listener(redis_session: RedisServer, tmp_path: Path):
    path = tmp_path / "s"
    with sidecar(f"unix://{redis_session.socket_path}", "--listen", f"unix://{path}") as proxy:
        both_ways(proxy)
        assert talk(path, [words("PING")]) == b"+PONG\r\n"
        with dial(path) as client:  # a blocked client that goes is noticed here, too
            client.sendall(words("BLPOP", "none", 0))
            eventually(lambda: b"blocked_clients:1" in redis_session.call("INFO", "clients"))
        eventually(lambda: b"blocked_clients:0" in redis_session.call("INFO", "clients"), 2)
    assert not path.exists()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    with tls_redis(tmp_path_factory.mktemp("tls")) as made:
        yield made


@pytest.fixture(scope="module")
def tls_proxy(tls: tuple[str, Path]) -> Iterator[EmqProxy]:
    url, authority = tls
    with EmqProxy(url, env={"SSL_CERT_FILE": str(authority), "OTEL_SDK_DISABLED": "true"}) as proxy:
        yield proxy


def test_tls_both_ways(tls_proxy: EmqProxy):
    both_ways(tls_proxy)


def test_tls_a_long_pipeline_before_one_answer_is_read(tls_proxy: EmqProxy):
    count = 200_000
    with dial(tls_proxy.port) as client:
        client.sendall(words("PING") * count)
        assert exactly(client, 7 * count) == b"+PONG\r\n" * count


def test_tls_a_client_that_half_closes_gets_its_answers(tls_proxy: EmqProxy):
    assert talk(tls_proxy.port, [words("PING") * 1000]) == b"+PONG\r\n" * 1000


def test_tls_a_blocked_client_that_goes_is_gone_within_the_grace(tls_proxy: EmqProxy):
    def blocked() -> bytes:
        with dial(tls_proxy.port) as asker:
            asker.sendall(words("INFO", "clients"))
            half_close(asker)
            return drain(asker)

    client = dial(tls_proxy.port)
    client.sendall(words("BLPOP", "jobs", 0))
    eventually(lambda: b"blocked_clients:1" in blocked())
    client.close()
    eventually(lambda: b"blocked_clients:0" in blocked(), 3)


def test_tls_that_is_not_trusted_closes_clients_and_says_why(tls: tuple[str, Path]):
    with EmqProxy(tls[0], env={"OTEL_SDK_DISABLED": "true"}, ready=False) as proxy:
        proxy.wait_log(lambda line: line["event"] == "listening", 20)
        assert talk(proxy.port, [words("PING")]) == b""
        line = proxy.wait_log(lambda line: "upstream cannot be reached" in line["event"])
        assert "certificate verify failed" in line["error"]


# ---------------------------------------------------------------- the connector alone


def test_a_connection_is_kept_alive_and_its_name_resolved_anew(redis_session: RedisServer):
    async def run() -> None:
        connector = Connector(Upstream.parse(f"redis://localhost:{redis_session.port}"))
        for _ in range(2):
            protocol = await connector.connect(Kept)
            sock = protocol.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_S
            protocol.transport.close()

    asyncio.run(run())


class Kept(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)


def test_a_tls_peer_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("emqproxy.proxy.upstream.CONNECT_TIMEOUT_S", 0.3)

    async def run(port: int) -> None:
        with pytest.raises(OSError) as told:  # noqa: PT011  TimeoutError is one
            await Connector(Upstream.parse(f"rediss://127.0.0.1:{port}")).connect(Kept)
        assert "no connection within" in in_words(told.value)

    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts for it
        asyncio.run(run(silent.getsockname()[1]))
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(("name", "expired", "error"), [("redis.test", False, ""), ("", True, "has expired")])
def test_the_server_is_asked_for_by_name_and_its_days_are_counted(
    run: Any, name: str, expired: bool, error: str, tmp_path: Path
):
    authority = Authority(tmp_path)
    cert, key = authority.issue("own", "redis.test", LOOPBACK, expired=expired)
    context, asked = server_context(TlsTable(cert_file=str(cert), key_file=str(key))), []
    context.sni_callback = lambda _, name, __: asked.append(name)

    async def within() -> None:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, LOOPBACK, 0, ssl=context)
        table = UpstreamTlsTable(ca_file=str(authority.file), server_name=name)
        connector = Connector(Upstream.parse(f"rediss://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"), table)
        said = ""
        try:
            (await connector.connect(Kept)).transport.close()
        except OSError as refused:
            said = in_words(refused)
        server.close()
        assert error in said
        assert bool(error) == bool(said)

    run(within())
    assert asked == [name or None], "an address is no name"


def test_words_for_every_error():
    assert in_words(OSError(111, "Connection refused")) == "[Errno 111] Connection refused"
    assert in_words(OSError("a\nb")) == "a b"
    assert in_words(OSError()) == "OSError"
