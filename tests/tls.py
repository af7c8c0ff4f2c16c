"""A Redis that speaks TLS, under a certificate authority that exists for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from tests.processes import RedisServer, free_port, server_binary


@contextmanager
def tls_redis(folder: Path) -> Iterator[tuple[str, Path]]:
    """Its `rediss://` URL, and the file to trust: `SSL_CERT_FILE` for what is to connect. Skips without TLS."""
    authority, own = folder / "authority.pem", folder / "own.pem"
    made = trustme.CA()
    made.cert_pem.write_to_path(authority)
    made.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(own)
    port = free_port()
    options = {"tls-port": str(port), "tls-cert-file": str(own), "tls-key-file": str(own), "tls-auth-clients": "no"}
    options["tls-ca-cert-file"] = str(authority)
    try:
        server = RedisServer(**options)
    except AssertionError as error:
        if "tls" in str(error).lower():
            pytest.skip(f"{server_binary()} was built without TLS")
        raise
    with server:
        yield f"rediss://127.0.0.1:{port}", authority
