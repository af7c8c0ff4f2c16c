"""Certificates of an authority that exists for one test, a Redis that speaks TLS under it, and clients that do."""

from __future__ import annotations

import datetime as dt
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from tests.processes import LOOPBACK, RedisServer, free_port, server_binary

LONG_AGO = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)


class Authority:
    """One authority and what it issues, as files in a folder. `file` is the one to trust."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self._made = trustme.CA()
        self.file = folder / f"{name}.pem"
        self._made.cert_pem.write_to_path(self.file)

    def issue(self, name: str, *identities: str, expired: bool = False) -> tuple[Path, Path]:
        """Certificate and key for `identities` (127.0.0.1): files that are replaced whole, as those who renew do."""
        ends = LONG_AGO + dt.timedelta(days=1) if expired else None
        begins = LONG_AGO if expired else None
        leaf = self._made.issue_cert(*(identities or (LOOPBACK,)), not_before=begins, not_after=ends)
        chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        return self._put(f"{name}.crt", chain), self._put(f"{name}.key", leaf.private_key_pem.bytes())

    def _put(self, name: str, data: bytes) -> Path:
        path, scratch = self._folder / name, self._folder / f"{name}.new"
        scratch.write_bytes(data)
        os.replace(scratch, path)
        return path


@contextmanager
def tls_server(authority: Authority, *, clients: bool = False) -> Iterator[tuple[str, RedisServer]]:
    """A Redis with a TLS port: its `rediss://` URL. `clients`: they must show a certificate. Skips without TLS."""
    certificate, key = authority.issue("redis", LOOPBACK, "redis.test")
    port = free_port()
    options = {"tls-port": str(port), "tls-cert-file": str(certificate), "tls-key-file": str(key)}
    options |= {"tls-ca-cert-file": str(authority.file), "tls-auth-clients": "yes" if clients else "no"}
    try:
        server = RedisServer(**options)
    except AssertionError as error:
        if "tls" in str(error).lower():
            pytest.skip(f"{server_binary()} was built without TLS")
        raise
    with server:
        yield f"rediss://{LOOPBACK}:{port}", server


@contextmanager
def tls_redis(folder: Path) -> Iterator[tuple[str, Path]]:
    """Its `rediss://` URL, and the file to trust: `SSL_CERT_FILE` for what is to connect. Skips without TLS."""
    authority = Authority(folder)
    with tls_server(authority) as (url, _):
        yield url, authority.file


def trusting(authority: Path, identity: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """A client's context."""
    context = ssl.create_default_context(cafile=str(authority))
    if identity is not None:
        context.load_cert_chain(*identity)
    return context


def dial_tls(port: int, context: ssl.SSLContext, name: str = LOOPBACK) -> ssl.SSLSocket:
    """A client's connection to loopback, its handshake done (in TLS 1.3 the server may still refuse)."""
    plain = socket.create_connection((LOOPBACK, port), timeout=20)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        return context.wrap_socket(plain, server_hostname=name)
    except BaseException:
        plain.close()
        raise


def talk_tls(port: int, context: ssl.SSLContext, data: bytes) -> bytes:
    """Sends, says that it sends no more (a close_notify, and no FIN), and reads to the end."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=LOOPBACK)
    got, said = bytearray(), False
    with socket.create_connection((LOOPBACK, port), timeout=20) as plain:
        while True:
            try:
                if not said:
                    client.do_handshake()
                    client.write(data)
                    said = True
                    client.unwrap()
                got += client.read(1 << 20)
            except ssl.SSLZeroReturnError:
                return bytes(got)
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(1 << 20)) or incoming.write_eof()
