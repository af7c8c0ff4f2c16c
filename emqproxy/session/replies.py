"""From a kept frame to a value: hiredis decodes; errors, and frames it cannot read, become values too."""

from __future__ import annotations

from typing import Any, cast

import hiredis

from emqproxy.session.exchange import UNREAD, ErrorReply, Reply
from emqproxy.wire.frames import strict_int


def decode(raw: bytes | None) -> Reply:
    """The value of one whole RESP 2 or 3 frame; UNREAD where it was not kept or cannot be read."""
    if raw is None:
        return UNREAD
    kind = raw[:1]
    if kind == b":":
        number = strict_int(raw[1:-2])
        return UNREAD if number is None else number
    if kind == b"-":
        return ErrorReply(raw[1:-2])
    if kind == b"+":
        return raw[1:-2]
    reader = hiredis.Reader()
    try:
        reader.feed(raw)
        return _plain(reader.gets())
    except (hiredis.HiredisError, ValueError, TypeError):
        return UNREAD


def _plain(value: Any) -> Reply:  # noqa: ANN401  hiredis is untyped; this is where its values get their types
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, hiredis.ReplyError):
        return ErrorReply(str(value).encode("utf-8", "surrogateescape"))
    return cast("Reply", value)
