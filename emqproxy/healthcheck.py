"""`emqproxy healthcheck`: asks /readyz and exits 0 or 1. Standard library only: it is started every few seconds.

Stands outside the floors: it shares nothing with the sidecar but its address.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Final

TIMEOUT_S: Final = 3.0
DEFAULT: Final = "0.0.0.0:9464"
USAGE: Final = """Usage: emqproxy healthcheck [OPTIONS]

  Ask a running sidecar whether it is ready: exit code 0 if so, 1 if not.

Options:
  --health HOST:PORT  Where it answers health.  [default: EMQPROXY_HEALTH, else 0.0.0.0:9464]
  --url URL           Ask this URL instead, like http://127.0.0.1:9464/healthz.
  --help              Show this message and exit.
"""


class UsageError(Exception):
    """One line that names the option."""


def main(arguments: Sequence[str]) -> int:
    """0 ready, 1 not ready or not reached, 2 bad usage. Says why on standard error."""
    if "--help" in arguments:
        sys.stdout.write(USAGE)
        return 0
    try:
        host, port, path = target(arguments, os.environ)
    except UsageError as error:
        sys.stderr.write(f"emqproxy healthcheck: {error}\n")
        return 2
    try:
        status, body = get(host, port, path)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"emqproxy healthcheck: no answer from {host}:{port}{path}: {error}\n")
        return 1
    if status == 200:
        return 0
    sys.stderr.write(f"emqproxy healthcheck: {status} from {host}:{port}{path}: {body[:300]}\n")
    return 1


def target(arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[str, int, str]:
    """Host, port and path to ask. UsageError where they cannot be told."""
    given: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in ("--health", "--url"):
            raise UsageError(f"{name}: no such option; write --health HOST:PORT or --url URL")
        if not equals and not rest:
            raise UsageError(f"{name}: its value is missing; write {name} {'URL' if name == '--url' else 'HOST:PORT'}")
        given[name] = value if equals else rest.pop(0)
    if "--url" in given:
        return _from_url(given["--url"])
    named = "--health" if "--health" in given else "EMQPROXY_HEALTH"
    address = given.get("--health", environ.get("EMQPROXY_HEALTH", DEFAULT))
    host, port = _host_port(address, named)
    return host, port, "/readyz"


def get(host: str, port: int, path: str) -> tuple[int, str]:
    """Status and body of one GET. OSError where nobody answers, ValueError where it is no HTTP."""
    with socket.create_connection((host, port), TIMEOUT_S) as conn:
        conn.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while len(data) < 65_536 and (chunk := conn.recv(65_536)):
            data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not head.startswith(b"HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        raise ValueError("that is no HTTP server")
    return int(words[1]), body.decode("utf-8", "replace").strip()


def _from_url(url: str) -> tuple[str, int, str]:
    scheme, colon, rest = url.partition("://")
    if scheme != "http" or not colon:
        raise UsageError("--url: write http://HOST:PORT/readyz; health is served without TLS")
    netloc, slash, path = rest.partition("/")
    host, port = _host_port(netloc, "--url")
    return host, port, slash + path or "/readyz"


def _host_port(address: str, named: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65_536:
        raise UsageError(f"{named}: write HOST:PORT with a port from 1 to 65535, like 127.0.0.1:9464")
    host = host.removeprefix("[").removesuffix("]")
    # What a server listens on to be reached from everywhere is reached here on loopback.
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host), int(port)  # noqa: S104
