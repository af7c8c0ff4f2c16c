"""A TLS context that follows its files: renewed certificates serve the next handshake, without a restart.

Connections that exist keep what they began with. Files that cannot be used (a certificate without its key yet) leave
the last good context in force; that is told once a minute, and they are tried again.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from emqproxy.config import ConfigError
from emqproxy.locks.events import Instant
from emqproxy.logs import RateLimited
from emqproxy.proxy import tls

T = TypeVar("T", bound=tls.Table)

LOOK_NS: Final = 2_000_000_000
"""So often the files are looked at, if there are handshakes: three calls of `stat`."""


class TlsFiles(Generic[T]):
    """One road's context. Raises ConfigError where there is none to begin with."""

    def __init__(self, table: T, make: Callable[[T], ssl.SSLContext], log: RateLimited) -> None:
        self._make, self._log = make, log
        self._looked_at: Instant | None = None
        self.use(table)

    def use(self, table: T) -> None:
        """Another table from now on, or its files anew; ConfigError, and all stays, where it cannot be used."""
        signature = _signature(table)  # before they are read: what changes meanwhile is seen as a change
        self._context = self._make(table)
        self.table, self._signature = table, signature

    def context(self, now: Instant) -> ssl.SSLContext:
        """For the next handshake."""
        if self._looked_at is None or now - self._looked_at >= LOOK_NS:
            self._looked_at = now
            if _signature(self.table) != self._signature:
                self._renew(now)
        return self._context

    def _renew(self, now: Instant) -> None:
        try:
            self.use(self.table)
        except ConfigError as error:
            words = "renewed TLS files cannot be used yet: the certificate from before stays in force"
            self._log.error(words, now=now, key=("tls files", self.table.cert_file), reason=str(error))
        else:
            self._log.info("renewed TLS files are in force", now=now, files=[path for _, path in tls.paths(self.table)])


def _signature(table: tls.Table) -> list[tuple[int, ...]]:
    return [_stat(path) for _, path in tls.paths(table)]


def _stat(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
