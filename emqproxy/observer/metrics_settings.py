"""What the `OTEL_*` variables say of metrics, where the SDK's configurator would read them: we wire it by hand.

What cannot be followed is logged in one line and left out; nothing raises.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import urlsplit

from emqproxy import logs

_BUILT: Final = ("prometheus", "otlp")
_PROTOCOL: Final = "http/protobuf"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_DEFAULT_ENDPOINT: Final = "http://localhost:4318"


def _read(name: str) -> str:
    return os.environ.get(name, "").strip()


def exporters() -> list[str]:
    """`prometheus` and `otlp`, as far as they are wanted."""
    if _read("OTEL_SDK_DISABLED").lower() == "true":
        return []
    given = [name.strip().lower() for name in _read("OTEL_METRICS_EXPORTER").split(",")]
    names = list(dict.fromkeys(filter(None, given)))
    if not names:
        return ["prometheus", "otlp"] if _read(_ENDPOINTS[0]) else ["prometheus"]
    if "none" in names:
        return []
    for name in names:
        if name not in _BUILT:
            logs.get().error(
                "metrics exporter is not built", OTEL_METRICS_EXPORTER=name, hint="write prometheus, otlp or none"
            )
    return [name for name in names if name in _BUILT]


def protocol_is_built() -> bool:
    """Whether the protocol that is asked for is the one that is here; said where it is not."""
    variables = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    name = next(filter(_read, variables), variables[1])
    wanted = _read(name) or _PROTOCOL
    if wanted != _PROTOCOL:
        logs.get().error(
            "metrics are not pushed: protocol is not built",
            **{name: wanted},
            hint=f"write {name}={_PROTOCOL} and the collector's HTTP port, usually 4318",
        )
    return wanted == _PROTOCOL


def wants_delta() -> bool:
    """Whether histograms are to be told as differences; the SDK says so of its own instruments."""
    return _read("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE").lower() in ("delta", "lowmemory")


def whole(name: str, ours: int) -> int:
    """A whole number above 0 from a variable."""
    written = _read(name)
    if not written:
        return ours
    if written.isascii() and written.isdigit() and int(written) > 0:
        return int(written)
    logs.get().error("setting is not followed", **{name: written}, hint=f"a whole number above 0; using {ours}")
    return ours


def shown_endpoint() -> str:
    """Where metrics are pushed to, without credentials or query."""
    written = next(filter(None, map(_read, _ENDPOINTS)), _DEFAULT_ENDPOINT)
    try:
        parts = urlsplit(written)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(unreadable)"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{port}{parts.path}"
