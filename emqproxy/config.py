"""The configuration: one frozen value, made once. Flags over `EMQPROXY_*` over the TOML file over the defaults.

`Config` says what there is to set, with its unit and its default; `load` makes one of all its sources, or raises a
`ConfigError` whose one line names the flag, variable or key and says what to write instead.

`OTEL_*` stands between `EMQPROXY_*` and the file. The observer reads those variables from its own environment, as
users of OpenTelemetry expect; no key here means the same as one of them yet, so nothing is merged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from emqproxy import config_values as values
from emqproxy.addresses import HostPort, Listen, Upstream
from emqproxy.config_sources import ConfigError, KeyValueError, load_into, printable
from emqproxy.config_tables import (
    DrainTable,
    LatenessTable,
    LimitsTable,
    ObserverTable,
    RulesTable,
    ScriptsTable,
    Table,
    TlsTable,
    TraceTable,
    UpstreamTlsTable,
)
from emqproxy.config_values import StanceName

__all__ = [
    "Config", "ConfigError", "HostPort", "LimitsTable", "Listen", "ObserverTable", "RulesTable", "ScriptsTable",
    "TlsTable", "Upstream", "UpstreamTlsTable", "load", "printable",
]  # fmt: skip


class Config(Table):
    """All there is to set. Parts of the house receive fields of it, not the whole."""

    listen: Annotated[tuple[Listen, ...], BeforeValidator(values.listens)] = Field(
        default=(Listen("tcp", "127.0.0.1", 6380),), min_length=1, description='a list like ["tcp://127.0.0.1:6380"]'
    )
    upstream: Annotated[Upstream, BeforeValidator(values.upstream)] = Field(
        default=Upstream("tcp", "127.0.0.1", 6379), description="a URL like redis://127.0.0.1:6379"
    )
    mode: StanceName = "observe"
    sole_path: bool = Field(default=False, description="true or false")
    prefixes: Annotated[tuple[str, ...], BeforeValidator(values.listed)] = Field(
        default=("emq", "bull"), min_length=1, description='a list like ["emq", "bull"]'
    )
    health: Annotated[HostPort | None, BeforeValidator(values.host_port)] = Field(
        default=HostPort("0.0.0.0", 9464),  # noqa: S104  the kubelet probes the pod's address
        description='HOST:PORT, like 0.0.0.0:9464, or "" for none',
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )
    require_upstream: bool = Field(default=False, description="true or false")
    lateness: LatenessTable = Field(default=LatenessTable(), description="a table [lateness]")
    rules: RulesTable = Field(default=RulesTable(), description="a table [rules]")
    trace: TraceTable = Field(default=TraceTable(), description="a table [trace]")
    observer: ObserverTable = Field(default=ObserverTable(), description="a table [observer]")
    scripts: ScriptsTable = Field(default=ScriptsTable(), description="a table [scripts]")
    limits: LimitsTable = Field(default=LimitsTable(), description="a table [limits]")
    drain: DrainTable = Field(default=DrainTable(), description="a table [drain]")
    tls: TlsTable = Field(default=TlsTable(), description="a table [tls]")
    upstream_tls: UpstreamTlsTable = Field(default=UpstreamTlsTable(), description="a table [upstream_tls]")

    @field_validator("log_level", mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("prefixes", mode="after")
    @classmethod
    def _bare(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        if any(not prefix or prefix.endswith(":") for prefix in prefixes):
            raise ValueError('a prefix stands without its last colon and is not empty; write ["emq", "bull"]')
        return prefixes

    @field_validator("listen", mode="after")
    @classmethod
    def _once_each(cls, listen: tuple[Listen, ...]) -> tuple[Listen, ...]:
        fixed = [(at.host, at.port, at.path) for at in listen if at.kind == "unix" or at.port]
        if len(set(fixed)) != len(fixed):
            raise ValueError("the same address stands twice; write each once")
        return listen

    @model_validator(mode="after")
    def _tls_where_it_is_configured(self) -> Config:
        for name, table in (("tls", self.tls), ("upstream_tls", self.upstream_tls)):
            if not table.cert_file and (table.key_file or table.key_password.get_secret_value()):
                raise KeyValueError(f"{name}.cert_file", "there is a key and no certificate; write its PEM file's path")
        if any(one.kind == "tls" for one in self.listen) and not self.tls.cert_file:
            raise KeyValueError("tls.cert_file", "a tls:// listener has no certificate; write its PEM file's path")
        if self.upstream_tls != UpstreamTlsTable() and not self.upstream.tls:  # it would go out in the clear
            raise KeyValueError("upstream", "[upstream_tls] is set and it is no rediss://; write rediss://HOST:PORT")
        return self

    def flat(self) -> Iterator[tuple[str, object]]:
        """Every key, dotted, with its value."""
        for name, value in self:
            if isinstance(value, Table):
                yield from ((f"{name}.{key}", inner) for key, inner in value)
            else:
                yield name, value

    def replacing(self, others: Mapping[str, object]) -> Config:
        """The same with other values for some keys; they are checked already."""
        config = self
        for key, value in others.items():
            table, _, name = key.rpartition(".")
            above = getattr(config, table).model_copy(update={name: value}) if table else value
            config = config.model_copy(update={table or name: above})
        return config

    def lines(self) -> Iterator[str]:
        """The whole as TOML, fit to be shown: no password, no key."""
        tables = []
        for key, value in self:
            if isinstance(value, Table):
                tables.append((key, value))
            else:
                yield f"{key} = {_shown(value)}"
        for key, table in tables:
            yield ""
            yield f"[{key}]"
            for name, value in table:
                yield f"{name} = {_shown(value)}"


def load(file: str | None = None, flags: dict[str, object] | None = None) -> Config:
    """The effective configuration: `flags` (dotted keys: `observer.journal`) over `EMQPROXY_*` over `file`.

    `EMQPROXY_CONFIG` names the file where `file` is None. Raises ConfigError.
    """
    return load_into(Config, file, flags or {})


def _shown(value: object) -> str:
    match value:
        case SecretStr():
            return '"" # set, and not shown' if value.get_secret_value() else '""'
        case tuple():
            return f"[{', '.join(map(_shown, value))}]"
        case bool() | int() | float():
            return json.dumps(value)
        case None:
            return '""'
        case _:
            return printable(json.dumps(str(value), ensure_ascii=False))
