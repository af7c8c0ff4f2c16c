"""What of a job's hash may be told, as it is granted or added: its name and counters, and its producer's trace context.

The hash is user data. Six fields leave, each capped; of `opts` only the carrier in `tm`. Source: TELEMETRY 2.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from emqproxy.records import JobFields
from emqproxy.scripts.arguments import Unreadable, Value, entry, whole
from emqproxy.session.exchange import Reply

NAME_BYTES_MAX: Final = 256
KEY_BYTES_MAX: Final = 1024
OPTS_BYTES_MAX: Final = 64 * 1024
CARRIER_CHARS_MAX: Final = 4096
TRACESTATE_CHARS_MAX: Final = 512

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")
_TRACESTATE: Final = re.compile(r"[\x20-\x7e]+\Z")


class _Options(msgspec.Struct):
    """All of a job's options that is decoded; the rest is skipped."""

    tm: object = None
    omc: object = None


def read_job(raw: Reply) -> JobFields:
    """The fields of a job's hash, given flat or as a map. What is absent or malformed is None; never raises."""
    told = _hash(raw).get
    opts = told(b"opts")
    return JobFields(
        _text(told(b"name"), NAME_BYTES_MAX),
        _count(told(b"atm"), told(b"attemptsMade")),
        _count(told(b"ats")),
        _count(told(b"stc"), told(b"stalledCounter")),
        _count(told(b"timestamp")),
        trace_context(opts if isinstance(opts, bytes) else None),
        _text(told(b"parentKey"), KEY_BYTES_MAX),
        told(b"defa") is not None,
    )


def trace_context(opts: bytes | None) -> dict[str, str] | None:
    """The producer's `traceparent` and `tracestate` out of a job's options (JSON); None where absent or malformed.

    `tm` is JSON inside JSON: a map, or in an older form a list of pairs. `omc` true: the producer wants no link.
    """
    if opts is None or len(opts) > OPTS_BYTES_MAX or b'"tm"' not in opts:
        return None
    try:
        options = msgspec.json.decode(opts, type=_Options)
        carrier = options.tm
        if options.omc is True or carrier is None:
            return None
        if isinstance(carrier, str):
            carrier = msgspec.json.decode(carrier) if len(carrier) <= CARRIER_CHARS_MAX else None
        return _carrier(carrier)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None


def read_added(arguments: Sequence[Value], name: Value, options: Value | Unreadable) -> JobFields:
    """Of a job that is being added: its packed arguments (prefix, id, name, timestamp, parent's key, …), its name where
    it stands elsewhere, its packed options. What is absent or malformed is None; never raises."""
    told = [*arguments[:5], *[None] * (5 - len(arguments[:5]))]
    name = told[2] if name is None else name
    return JobFields(
        name=_text(name, NAME_BYTES_MAX),
        timestamp=whole(told[3]),
        trace_context=None if entry(options, b"omc") is True else _packed_carrier(entry(options, b"tm")),
        parent_key=_text(told[4], KEY_BYTES_MAX),
    )


def _packed_carrier(raw: Value) -> dict[str, str] | None:
    """A carrier in packed options: JSON, or in an older form the pairs themselves."""
    try:
        if isinstance(raw, bytes):
            return _carrier(msgspec.json.decode(raw)) if len(raw) <= CARRIER_CHARS_MAX else None
        pairs = raw.items() if isinstance(raw, dict) else raw if isinstance(raw, list) else ()
        return _carrier([[_plain_text(part) for part in pair] for pair in pairs if isinstance(pair, list | tuple)])
    except (ValueError, RecursionError):
        return None


def _plain_text(value: object) -> str | None:
    return value.decode() if isinstance(value, bytes) else None


def _carrier(raw: object) -> dict[str, str] | None:
    if isinstance(raw, dict):
        entries: Iterable[object] = raw.items()
    elif isinstance(raw, list):
        entries = raw
    else:
        return None
    found: dict[str, str] = {}
    for pair in entries:
        match pair:
            case (str(field), str(value)):
                found[field.lower()] = value
    parent, state = found.get("traceparent", ""), found.get("tracestate", "")
    if not _TRACEPARENT.match(parent):
        return None
    told = {"traceparent": parent}
    if len(state) <= TRACESTATE_CHARS_MAX and _TRACESTATE.match(state):
        told["tracestate"] = state
    return told


def _hash(raw: Reply) -> dict[Reply, Reply]:
    if isinstance(raw, list):
        pairs = zip(raw[::2], raw[1::2], strict=False)
        try:
            return dict(pairs)
        except TypeError:  # an array in a field's place
            return {field: value for field, value in zip(raw[::2], raw[1::2], strict=False) if isinstance(field, bytes)}
    return raw if isinstance(raw, dict) else {}


def _count(value: Reply, older: Reply = None) -> int | None:
    """A counter, by its newer field's value if there is one."""
    if not isinstance(value, bytes):
        value = older if isinstance(older, bytes) else None
    return whole(value)


def _text(value: Reply | Value, limit: int) -> str | None:
    return value[:limit].decode("utf-8", "replace") if isinstance(value, bytes) else None
