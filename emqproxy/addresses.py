"""Addresses as they are written in a configuration, and as values.

Knows URLs; opens nothing and resolves nothing. Every `parse` raises ValueError with one sentence that says what to
write instead and repeats nothing of what was given: a URL may hold a password.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

REDIS_PORT: Final = 6379
SOCKET_PATH_BYTES_MAX: Final = 107
"""What `sockaddr_un` holds on Linux, less its closing zero."""

LISTEN_FORMS: Final = "tcp://HOST:PORT, tls://HOST:PORT or unix:///PATH"
IPV6_FORM: Final = "write an IPv6 host in brackets, as in tcp://[::1]:6380"
UPSTREAM_FORMS: Final = "redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH"


@dataclass(frozen=True)
class HostPort:
    """A host, without brackets, and a port; 0 is any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> HostPort:
        split = _split("//" + text)
        if split.path or split.query or "@" in split.netloc:
            raise ValueError("write HOST:PORT, like 0.0.0.0:9464")
        return cls(_host(split), _port(split))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Listen:
    """Where clients connect: `path` of a "unix" one, else `host` and `port` (0 is any free port)."""

    kind: Literal["tcp", "tls", "unix"]
    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Listen:
        """From `tcp://HOST:PORT`, `HOST:PORT`, `tls://HOST:PORT` or `unix:///PATH`."""
        scheme, colon, _ = text.lower().partition("://")
        if not colon:
            text, scheme = f"tcp://{text}", "tcp"
        split = _split(text)
        if split.query or split.fragment or "@" in split.netloc:
            raise ValueError(f"write {LISTEN_FORMS}, without a user, a query or a fragment")
        if scheme == "unix":
            return cls("unix", path=_path(split))
        if scheme not in ("tcp", "tls"):
            raise ValueError(f"unknown scheme {scheme}://; write {LISTEN_FORMS}")
        if split.path:
            raise ValueError(f"write {scheme}://HOST:PORT, without a path")
        return cls("tls" if scheme == "tls" else "tcp", _host(split), _port(split))

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.kind == "unix" else f"{self.kind}://{HostPort(self.host, self.port)}"


@dataclass(frozen=True)
class Upstream:
    """The Redis behind us. User, password and database serve our own probes only: clients bring their own."""

    kind: Literal["tcp", "unix"]
    host: str = ""
    port: int = REDIS_PORT
    path: str = ""
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0

    @classmethod
    def parse(cls, text: str) -> Upstream:
        """From `redis[s]://[[USER]:PASSWORD@]HOST[:PORT][/DB]` or `unix://[[USER]:PASSWORD@]/PATH[?db=N]`."""
        split = _split(text)
        if split.scheme not in ("redis", "rediss", "unix"):
            raise ValueError(f"write {UPSTREAM_FORMS}")
        if split.fragment:
            raise ValueError("a # in the password must be written %23")
        unix = split.scheme == "unix"
        username, password = _credentials(split)
        return cls(
            kind="unix" if unix else "tcp",
            host="" if unix else _host(split),
            port=0 if unix else _port(split, REDIS_PORT),
            path=_path(split) if unix else "",
            tls=split.scheme == "rediss",
            username=username,
            password=password,
            db=_db(split, in_path=not unix),
        )

    def __str__(self) -> str:
        """As a URL, without user and password: fit for logs."""
        if self.kind == "unix":
            return f"unix://{self.path}" + (f"?db={self.db}" if self.db else "")
        return f"redis{'s' * self.tls}://{HostPort(self.host, self.port)}" + (f"/{self.db}" if self.db else "")


# ---------------------------------------------------------------- parts of a URL


def _split(text: str) -> SplitResult:
    if text != text.strip() or not text:
        raise ValueError("write an address without blanks around it")
    _free_of_controls(text)  # `urlsplit` takes some of them away without a word
    try:
        split = urlsplit(text)
    except ValueError:  # what it says may repeat a password
        raise ValueError(f"this is no URL; {IPV6_FORM}") from None
    host = split.netloc.rpartition("@")[2]
    if host.count(":") > 1 and not host.startswith("["):
        raise ValueError(IPV6_FORM)
    return split


def _free_of_controls(text: str) -> None:
    if any(character < " " or character == "\x7f" for character in text):
        raise ValueError("a control character stands in it; write the address without it")


def _host(split: SplitResult) -> str:
    if not split.hostname:
        raise ValueError("the host is missing; write HOST:PORT, like 127.0.0.1:6380")
    return split.hostname


def _port(split: SplitResult, default: int | None = None) -> int:
    """Of a listener, 0 to 65535; where there is a default (an upstream), 1 to 65535."""
    try:
        port = split.port
    except ValueError:
        if default is None:
            raise ValueError("the port is no number from 0 to 65535; write HOST:PORT, like 127.0.0.1:6380") from None
        # The usual cause is a password with a slash in it.
        raise ValueError("the port is no number from 1 to 65535; in a password write / as %2F and @ as %40") from None
    if port is None:
        if default is None:
            raise ValueError("the port is missing; write HOST:PORT, like 127.0.0.1:6380")
        return default
    if port == 0 and default is not None:
        raise ValueError("port 0 cannot be connected to; write a port from 1 to 65535")
    return port


def _path(split: SplitResult) -> str:
    path = unquote(split.path)
    if split.netloc.rpartition("@")[2] or not path.startswith("/") or path == "/":
        raise ValueError("write a whole path with three slashes: unix:///run/emqproxy.sock")
    _free_of_controls(path)
    if len(path.encode("utf-8", "surrogateescape")) > SOCKET_PATH_BYTES_MAX:
        raise ValueError(f"a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes; write a shorter one")
    return path


def _credentials(split: SplitResult) -> tuple[str | None, str | None]:
    username = unquote(split.username) if split.username else None
    password = unquote(split.password) if split.password else None
    if username and not password:
        raise ValueError("a user without a password; write redis://USER:PASSWORD@HOST, or redis://:PASSWORD@HOST")
    return username, password


def _db(split: SplitResult, *, in_path: bool) -> int:
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    text = query.pop("db", None)
    if query:
        raise ValueError("the query may hold db only; options of the client library are not read")
    if in_path and split.path.strip("/"):
        text = split.path.strip("/")
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise ValueError("the database is a number: redis://HOST:PORT/0, or unix:///PATH?db=0")
    return int(text)
