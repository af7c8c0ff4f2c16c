"""A span as it is to be, before anybody has made one: what `spans` says and a pen writes down.

Attributes come in groups, each of them told on many spans (the queue's, the script's, the client's): a group keeps
what it came to on the wire, so that it is encoded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import msgspec
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags

Value: TypeAlias = str | int | float | bool
Cells: TypeAlias = dict[str, Value | None]
"""Attributes by name. None: not known, not told."""


class Group:
    """Attributes that belong together. Two groups of one span have no name in common."""

    __slots__ = ("cells", "encoded")

    def __init__(self, cells: Mapping[str, Value | None]) -> None:
        self.cells: dict[str, Value] = {name: value for name, value in cells.items() if value is not None}
        self.encoded: bytes | None = None
        """As it stands in an OTLP span, from the first time on that it was needed."""


class Draft(msgspec.Struct, frozen=True):
    """One span."""

    name: str
    kind: SpanKind
    trace_id: int
    span_id: int
    start_ns: int
    """Unix nanoseconds, as is `end_ns`; never after it."""
    end_ns: int
    attributes: tuple[Group, ...]
    parent_id: int | None = None
    """The attempt it belongs to; None for a root."""
    links: tuple[Link, ...] = ()
    error: str | None = None
    """`error.type`; None leaves the status unset."""


class Pen(Protocol):
    """Whatever makes spans of drafts."""

    def draw(self, draft: Draft) -> None:
        """Makes it, and hands it to whoever delivers it."""


def context_of(trace_id: int, span_id: int) -> SpanContext:
    """Of a span made here or elsewhere, for a parent or a link."""
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
