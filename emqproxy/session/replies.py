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
    reader = hiredis.Reader(replyError=cast("Any", _error))
    try:
        reader.feed(raw)
        return cast("Reply", reader.gets())
    except (hiredis.HiredisError, ValueError, TypeError):
        return UNREAD


def push_inside(raw: bytes | None) -> bool:
    """Whether a push stands among an array's elements: its length then counts one that is none.

    So it is in Redis 7.0 where EXEC published to its own connection, and in DEBUG PROTOCOL.
    """
    if raw is None or b"\r\n>" not in raw:
        return False
    value = decode(raw)
    return value is UNREAD or (
        isinstance(value, list) and any(isinstance(element, hiredis.PushNotification) for element in value)
    )


def _error(text: str) -> ErrorReply:
    """An error inside an array: the library decodes its text, and would make an exception of it."""
    return ErrorReply(text.encode("utf-8", "surrogateescape"))
