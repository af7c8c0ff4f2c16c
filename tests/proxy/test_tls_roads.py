"""A sidecar that speaks TLS to its clients and to its Redis, each with a certificate of its own: bytes as they were."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import LOOPBACK, EmqProxy, RedisServer, eventually, free_port, http_get
from tests.proxy.wires import exactly, send_all
from tests.session.talk import words
from tests.tls import Authority, dial_tls, talk_tls, tls_server, trusting

BIG = 100 * 1024 * 1024


class Road(NamedTuple):
    """Client ═TLS═▶ proxy ═TLS═▶ Redis; both servers ask for a certificate, and each side has its own authority."""

    proxy: EmqProxy
    port: int
    redis: RedisServer
    ours: Authority
    theirs: Authority
    context: ssl.SSLContext
    """A client's that gets through."""

    def dial(self) -> ssl.SSLSocket:
        return dial_tls(self.port, self.context)


@contextlib.contextmanager
def sidecar(upstream: str, port: int, ready: bool = True, **keys: object) -> Iterator[EmqProxy]:
    """`tls__cert_file="…"`: what stands in its environment."""
    env = {f"EMQPROXY_{key.upper()}": str(value) for key, value in keys.items()} | {"OTEL_SDK_DISABLED": "true"}
    with EmqProxy(upstream, "--listen", f"tls://{LOOPBACK}:{port}", env=env, ready=ready) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    folder = tmp_path_factory.mktemp("tls")
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    cert, key = ours.issue("proxy")
    shown, shown_key = theirs.issue("shown", "emqproxy")
    port = free_port()
    with (
        tls_server(theirs, clients=True) as (url, redis),
        sidecar(
            url,
            port,
            tls__cert_file=cert,
            tls__key_file=key,
            tls__client_ca_file=ours.file,
            upstream_tls__ca_file=theirs.file,
            upstream_tls__cert_file=shown,
            upstream_tls__key_file=shown_key,
        ) as proxy,
    ):
        yield Road(proxy, port, redis, ours, theirs, trusting(ours.file, ours.issue("worker", "worker")))


def test_a_value_of_100_mib_there_and_back(road: Road):
    value = bytes(range(256)) * (BIG // 256)
    with road.dial() as client:
        sender = send_all(client, [words("SET", "big", value), words("GET", "big"), words("DEL", "big")])
        assert exactly(client, 5) == b"+OK\r\n"
        head = b"$%d\r\n" % BIG
        assert exactly(client, len(head)) == head
        got = exactly(client, BIG)
        assert got == value
        assert exactly(client, 6) == b"\r\n:1\r\n"
        sender.join()


def test_a_long_pipeline_before_one_answer_is_read(road: Road):
    count = 100_000
    with road.dial() as client:
        client.sendall(words("PING") * count)
        assert exactly(client, 7 * count) == b"+PONG\r\n" * count


def test_who_sends_no_more_gets_all_answers(road: Road):
    assert talk_tls(road.port, road.context, words("PING") * 1000) == b"+PONG\r\n" * 1000


def test_what_was_said_before_the_end_is_done(road: Road):
    """Also where our own connection to Redis is not there yet."""
    for name in map(str, range(20)):
        with road.dial() as client:
            client.sendall(words("SET", f"said:{name}", name))
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_WR)
    eventually(lambda: road.redis.call("EXISTS", *(f"said:{n}" for n in range(20))) == b":20\r\n")


def test_a_blocked_client_that_goes_is_gone(road: Road):
    def blocked() -> bytes:
        return road.redis.call("INFO", "clients").partition(b"blocked_clients:")[2][:1]

    client = road.dial()
    client.sendall(words("BLPOP", "none", 0))
    eventually(lambda: blocked() == b"1")
    client.close()
    eventually(lambda: blocked() == b"0", 5)


def test_a_renewed_certificate_is_shown_to_the_next_client_and_the_others_live_on(road: Road):
    with road.dial() as old:
        before = old.getpeercert(binary_form=True)
        road.ours.issue("proxy")

        def renewed() -> bool:
            with road.dial() as new:
                new.sendall(words("PING"))
                assert exactly(new, 7) == b"+PONG\r\n"
                return new.getpeercert(binary_form=True) != before

        eventually(renewed)
        old.sendall(words("PING"))
        assert exactly(old, 7) == b"+PONG\r\n"
    road.proxy.wait_log(lambda line: line["event"] == "renewed TLS files are in force")


def test_who_speaks_tls_to_a_listener_without_it_is_told_of_once(road: Road):
    for _ in range(2):
        with socket.create_connection((LOOPBACK, road.proxy.port), timeout=20) as plain:
            plain.sendall(bytes.fromhex("1603010200010001fc0303"))  # as a hello begins: Redis waits for more
    line = road.proxy.wait_log(lambda line: line["event"].startswith("a client speaks TLS to a listener that does not"))
    assert line["client"].startswith(LOOPBACK)
    with road.dial() as client:
        client.sendall(words("PING"))
        assert exactly(client, 7) == b"+PONG\r\n"
    assert sum("speaks TLS to a listener" in raw for raw in road.proxy.raw) == 1


# ---------------------------------------------------------------- an upstream that is not to be believed


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs"))


@pytest.fixture(scope="module")
def url(theirs: Authority) -> Iterator[str]:
    with tls_server(theirs) as (url, _):
        yield url


def plain(upstream: str, ready: bool = False, **keys: object) -> EmqProxy:
    env = {f"EMQPROXY_UPSTREAM_TLS__{key.upper()}": str(value) for key, value in keys.items()}
    return EmqProxy(upstream, env={"OTEL_SDK_DISABLED": "true"} | env, ready=ready)


@pytest.mark.parametrize(
    ("name", "why"),
    [("", "certificate verify failed"), ("redis.wrong", "Hostname mismatch")],
)
def test_an_upstream_that_proves_nothing_is_not_spoken_to(
    name: str, why: str, url: str, theirs: Authority, tmp_path: Path
):
    trusted = theirs.file if name else Authority(tmp_path).file
    with plain(url, ca_file=trusted, server_name=name) as proxy:
        line = proxy.wait_log(lambda line: line["event"] == "upstream does not answer", 20)
        assert why in line["reason"]
        with socket.create_connection((LOOPBACK, proxy.port), timeout=20) as client:
            client.sendall(words("PING"))
            assert client.recv(100) == b""
        assert why in proxy.wait_log(lambda line: "upstream cannot be reached" in line["event"])["error"]
        assert http_get(proxy.health_port, "/readyz")[0] == 503


def test_an_upstream_that_asks_for_a_certificate_and_gets_none(road: Road):
    asking = f"rediss://{LOOPBACK}:{road.redis.options['tls-port']}"
    with plain(asking, ca_file=road.theirs.file) as proxy:
        line = proxy.wait_log(lambda line: line["event"] == "upstream does not answer", 20)
        assert "certificate required" in line["reason"]
        with socket.create_connection((LOOPBACK, proxy.port), timeout=20) as client:
            client.sendall(words("PING"))
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(100) == b""


def test_the_name_that_is_asked_for_may_be_another_than_the_host(url: str, theirs: Authority):
    with plain(url, ready=True, ca_file=theirs.file, server_name="redis.test") as proxy:
        proxy.end()
        assert not [raw for raw in proxy.raw if "insecure" in raw]


def test_who_believes_anybody_is_warned(url: str, tmp_path: Path):
    with plain(url, ready=True, insecure_skip_verify="true") as proxy:
        line = proxy.wait_log(lambda line: "insecure_skip_verify" in line["event"])
        assert (line["level"], line["upstream"]) == ("warning", url)
        with socket.create_connection((LOOPBACK, proxy.port), timeout=20) as client:
            client.sendall(words("PING"))
            assert exactly(client, 7) == b"+PONG\r\n"
