"""TLS contexts made of a configuration's files, for both roads. Knows no connection; what it says names a key.

TLS 1.2 at least. An error is a ConfigError whose line says which file is wrong and what to write instead.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from emqproxy.config import Config, ConfigError, TlsTable, UpstreamTlsTable

Table = TlsTable | UpstreamTlsTable
PATH_KEYS: Final = ("cert_file", "key_file", "client_ca_file", "ca_file")


class HalfOpen(ssl.SSLObject):
    """The server's end of a connection whose client may say that it sends no more, and go on reading.

    asyncio and uvloop take the client's close_notify for the end of both directions. Where `told_end` is set, it is
    called instead, and answers still go out.
    """

    told_end: Callable[[], object] | None = None

    def read(self, len: int = 1024, buffer: bytearray | None = None) -> bytes:  # type: ignore[override]  # noqa: A002
        """As SSLObject's, but that the end of what the client sends looks as if more were to come."""
        got = super().read(len, buffer)
        if got or not len or self.told_end is None:
            return got
        told_end, self.told_end = self.told_end, _nothing
        told_end()
        raise ssl.SSLWantReadError("the client sends no more")


def _nothing() -> None:
    """It was told."""


def check(config: Config) -> None:
    """Raises ConfigError where a file of either table cannot be used."""
    if config.tls.cert_file or config.tls.client_ca_file:
        server_context(config.tls)
    client_context(config.upstream_tls)


def paths(table: Table) -> Iterator[tuple[str, str]]:
    """The table's files that are set: key and path."""
    for key, value in table:
        if key in PATH_KEYS and value:
            yield key, value


def server_context(table: TlsTable) -> ssl.SSLContext:
    """For listeners. With `client_ca_file` a client must show a certificate of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = HalfOpen
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load(context, table, "tls", "client_ca_file")
    if table.client_ca_file:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(table: UpstreamTlsTable) -> ssl.SSLContext:
    """For the upstream. Without `ca_file` it trusts what the system trusts."""
    context = ssl.create_default_context() if not table.ca_file else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load(context, table, "upstream_tls", "ca_file")
    if table.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load(context: ssl.SSLContext, table: Table, name: str, ca_key: str) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    texts = {key: _read(f"{name}.{key}", path) for key, path in paths(table)}
    if ca_key in texts:
        try:
            context.load_verify_locations(cadata=texts[ca_key])
        except (ssl.SSLError, ValueError):
            raise _wrong(name, ca_key, table, "holds no PEM certificate", "of the authority's certificate") from None
    if table.cert_file:
        _load_identity(context, table, name, texts)


def _load_identity(context: ssl.SSLContext, table: Table, name: str, texts: dict[str, str]) -> None:
    password = table.key_password.get_secret_value()
    key_at = "key_file" if table.key_file else "cert_file"
    if "-----BEGIN CERTIFICATE" not in texts["cert_file"]:
        raise _wrong(name, "cert_file", table, "holds no PEM certificate", "of our own certificate")
    if "PRIVATE KEY-----" not in texts[key_at]:
        raise _wrong(name, key_at, table, "holds no PEM private key", "of the certificate's key as key_file")
    try:
        # A password always: without one OpenSSL would ask for it at the terminal.
        context.load_cert_chain(table.cert_file, table.key_file or None, password or " ")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _wrong(name, key_at, table, f"is not the key of {table.cert_file}", "of its key") from None
        if "ENCRYPTED" in texts[key_at]:
            why = "does not open the key" if password else "is missing: the key is encrypted"
            raise ConfigError(f"{name}.key_password: {why}; write the password of {getattr(table, key_at)}") from None
        said = (error.reason or "not understood").replace("_", " ").lower()
        raise _wrong(name, "cert_file", table, f"cannot be used ({said})", "of a certificate with its key") from None
    except OSError as error:  # it has gone since we read it
        raise _wrong(name, "cert_file", table, f"cannot be read ({error.strerror})", "of a readable file") from None


def _read(named: str, path: str) -> str:
    try:
        return Path(path).read_text("latin-1")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise ConfigError(f"{named}: cannot read {path} ({reason}); write the path of a readable PEM file") from None


def _wrong(name: str, key: str, table: Table, why: str, instead: str) -> ConfigError:
    return ConfigError(f"{name}.{key}: {getattr(table, key)} {why}; write the path of a PEM file {instead}")
