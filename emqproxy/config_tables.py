"""The tables of the configuration: every key that stands in one, with its unit and its default.

Knows single values; nothing of where they come from, nor of what one table means for another: that is `config`'s.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from emqproxy import config_values as values
from emqproxy.addresses import HostPort
from emqproxy.config_values import Count, Share, StanceName


class Table(BaseModel):
    """A table of the file. Its fields' descriptions end the sentence "write …"."""

    # Nothing that was given is repeated in an error: it may be a secret.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class LatenessTable(Table):
    """From which age on a renewal is graded late or critical, as shares of the lock's time to live."""

    late: Share = 0.60
    critical: Share = 0.80

    @model_validator(mode="after")
    def _in_order(self) -> LatenessTable:
        if self.late >= self.critical:
            raise ValueError(f"late is {self.late} and critical {self.critical}; write a late below critical")
        return self


class TraceTable(Table):
    """How spans are named and tokens shown."""

    namespace: str = Field(default="", pattern=r"^[^\x00-\x1f]*$", description='a word, like "prod-eu"')
    token: Literal["fingerprint", "raw", "off"] = Field(default="fingerprint", description="fingerprint, raw or off")
    token_key: SecretStr = Field(default=SecretStr(""), description="a secret that all sidecars share")
    token_key_file: str = Field(default="", description="the path of a file that holds the key")
    """`load` reads it into `token_key`."""
    renewals_per_attempt: Count = Field(default=32, ge=0, description="a whole number from 0, like 32")


class ObserverTable(Table):
    """What the observer writes, and where it is asked."""

    journal: str = Field(
        default="", pattern=r"^[^\x00]*$", description='a file\'s path, "-" for standard output, "" for none'
    )
    journal_max_bytes: Count = Field(default=0, ge=0, description="bytes, a whole number; 0 never rotates")
    admin: Annotated[HostPort | None, BeforeValidator(values.admin)] = Field(
        default=HostPort("127.0.0.1", 9465), description=values.ADMIN
    )


_PATH: Final = r"^[^\x00]*$"
_IN_CERT_FILE: Final = 'the path of a PEM file; "": the key stands in cert_file'


class _Identity(Table):
    """Who we are over TLS."""

    cert_file: str = Field(default="", pattern=_PATH, description="the path of a PEM file: certificate, intermediates")
    key_file: str = Field(default="", pattern=_PATH, description=_IN_CERT_FILE)
    key_password: SecretStr = Field(default=SecretStr(""), description="the password of the private key")
    key_password_file: str = Field(default="", description="the path of a file that holds it")
    """`load` reads it into `key_password`."""


class TlsTable(_Identity):
    """Of `tls://` listeners."""

    client_ca_file: str = Field(default="", pattern=_PATH, description='the path of a PEM file; "": no client is asked')
    handshake_timeout: Annotated[float, BeforeValidator(values.number)] = Field(
        default=10, gt=0, le=600, description="seconds above 0, at most 600, like 10"
    )


class UpstreamTlsTable(_Identity):
    """Of a `rediss://` upstream."""

    ca_file: str = Field(default="", pattern=_PATH, description='the path of a PEM file; "": what the system trusts')
    server_name: str = Field(default="", pattern=r"^[^\x00-\x20]*$", description="a host's name, like redis.internal")
    insecure_skip_verify: bool = Field(default=False, description="true or false")


class RulesTable(Table):
    """How strictly each rule is held; of a rule and `mode` the lesser acts. The words are `locks.policy.Rule`'s."""

    raw_lock_write: StanceName = "enforce"
    unknown_script: StanceName = "shadow"
    zero_token: StanceName = "enforce"  # noqa: S105  a rule's name
    zombie_write: StanceName = "enforce"
    lapsed_holder: StanceName = "enforce"
    malformed_call: StanceName = "enforce"
    bad_duration: StanceName = "enforce"
    mass_delete: StanceName = "shadow"


class ScriptsTable(Table):
    """Scripts of the user's own."""

    allow: Annotated[tuple[str, ...], BeforeValidator(values.shas)] = Field(default=(), description=values.SHAS)
    """Lower case."""
    catalogue: str = Field(
        default="", pattern=r"^[^\x00]*$", description='a file\'s path that "emqproxy scripts add" made, "" for none'
    )


class LimitsTable(Table):
    """Bounds of what is kept in memory."""

    locks: Count = Field(default=50_000, ge=1, description="a whole number from 1, like 50000")
    pending_bytes: Count = Field(default=67_108_864, ge=65_536, description="bytes from 65536, like 67108864")
    judge_bytes: Count = Field(default=8_388_608, ge=1024, description="bytes from 1024, like 8388608")
    """A command that is longer and needs judging is refused in enforce mode."""
    ttl_ms_min: Count = Field(default=1, ge=1, description="milliseconds, a whole number from 1, like 1000")
    ttl_ms_max: Count = Field(default=86_400_000, ge=1, description="milliseconds, a whole number, like 86400000")
    """Between these two lies every lock's time to live, or rule `bad_duration` is broken."""

    @model_validator(mode="after")
    def _in_order(self) -> LimitsTable:
        low, high = self.ttl_ms_min, self.ttl_ms_max
        if low > high:
            raise ValueError(f"ttl_ms_min is {low} and ttl_ms_max {high}; write a ttl_ms_min of at most ttl_ms_max")
        return self


class DrainTable(Table):
    """How a sidecar ends."""

    timeout: Annotated[float, BeforeValidator(values.number)] = Field(
        default=0, ge=0, allow_inf_nan=False, description="seconds from 0, like 30; 0 waits for the last client"
    )
