"""The door of `tls://` listeners: with which certificate, how long a handshake may take, and what is said where one
comes to nothing: words that name what to change, once a minute of each kind. Knows the errors of `ssl`, and no socket.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from emqproxy.config import Config, TlsTable
from emqproxy.logs import RateLimited
from emqproxy.proxy import clock
from emqproxy.proxy.client_side import address
from emqproxy.proxy.tls import server_context
from emqproxy.proxy.tls_files import TlsFiles

NO_TLS: Final = "it speaks no TLS; write rediss:// (or tls) in the client, or send it to a tcp:// listener"
GONE: Final = "it went away"
OLD: Final = "it speaks TLS older than 1.2, or no cipher that we know; renew its TLS library"

_CLIENTS: Final[Mapping[str, str]] = {
    "WRONG_VERSION_NUMBER": NO_TLS,
    "HTTP_REQUEST": "it speaks HTTP without TLS; send it elsewhere",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP without TLS; send it elsewhere",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and tls.client_ca_file asks for one",
    "UNSUPPORTED_PROTOCOL": OLD,
    "VERSION_TOO_LOW": OLD,
    "NO_SHARED_CIPHER": OLD,
}


class Door:
    """What an acceptor needs of TLS. Raises ConfigError where the table's files cannot be used."""

    def __init__(self, table: TlsTable, log: RateLimited) -> None:
        self._files = TlsFiles(table, server_context, log)
        self._log = log

    @classmethod
    def of(cls, config: Config, log: RateLimited) -> Door | None:
        """None where no listener is a `tls://` one."""
        return cls(config.tls, log) if any(one.kind == "tls" for one in config.listen) else None

    def use(self, table: TlsTable) -> None:
        """Another table, or its files anew, for the next client; ConfigError, and all stays as it was."""
        self._files.use(table)

    @property
    def timeout_s(self) -> float:
        """How long a handshake may take."""
        return self._files.table.handshake_timeout

    def context(self) -> ssl.SSLContext:
        """For the next client."""
        return self._files.context(clock.now())

    def failed(self, error: BaseException, peername: object) -> None:
        """A client did not get through; it has been closed. One that went away by itself is worth no warning."""
        reason = client_failed(error, self.timeout_s)
        say = self._log.info if reason == GONE else self._log.warning
        say(
            "a client's TLS handshake failed: it is closed",
            now=clock.now(),
            key=("handshake", reason),
            reason=reason,
            client=address(peername),
        )


def client_failed(error: BaseException, timeout_s: float) -> str:
    """Why a client of ours did not finish its handshake within `timeout_s`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if reason in _CLIENTS:
            return _CLIENTS[reason]
        if "_ALERT_" in reason:
            alert = _plain(reason.partition("_ALERT_")[2])
            return f"it broke off: {alert}; does it trust the authority of our certificate, and know us by its name?"
        return _plain(reason) or "no TLS that is understood"
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return f"it did not finish within {timeout_s:g} s"
    return GONE


def _plain(reason: str) -> str:
    return reason.replace("_", " ").lower()
