"""What a client's connection is and says of itself: its address, TLS or not, its end. Knows no relay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from emqproxy.logs import RateLimited
from emqproxy.proxy import clock
from emqproxy.proxy.tls import HalfOpen

HELLO: Final = b"\x16\x03"
"""How a TLS client begins; no Redis command does."""


def peer(transport: asyncio.BaseTransport, number: int) -> str:
    """A client's address; of a unix socket, which has none, our number for the connection."""
    return address(transport.get_extra_info("peername")) or f"unix:{number}"


def address(name: object) -> str | None:
    """A peer's name as it is written; None where it has no host and port."""
    if isinstance(name, tuple) and len(name) >= 2:
        return f"[{name[0]}]:{name[1]}" if ":" in str(name[0]) else f"{name[0]}:{name[1]}"
    return None


def over_tls(transport: asyncio.BaseTransport, sends_no_more: Callable[[], None]) -> bool:
    """Whether it is a TLS connection. If so, `sends_no_more` is called when the client says that, and still reads."""
    ssl_object = transport.get_extra_info("ssl_object")
    if isinstance(ssl_object, HalfOpen):
        loop = asyncio.get_running_loop()
        # Later: what it said before stands in the same read, and is handed on after it.
        ssl_object.told_end = lambda: loop.call_soon(sends_no_more)
    return ssl_object is not None


def speaks_tls(limited: RateLimited, client: str) -> None:
    """A client began with a TLS hello where none is expected."""
    words = "a client speaks TLS to a listener that does not: write redis:// in it, or give it a tls:// listener"
    limited.warning(words, now=clock.now(), client=client)
