"""What both directions of RESP share: limits with their reasons, strict numbers, and whose fault it was.

Source: the RESP specification, and redis-server 7.0.15 where the two leave room (which bytes it checks and which not).
"""

from __future__ import annotations

import re
from typing import Final

LINE_BYTES_MAX: Final = 64 * 1024
"""Redis closes a connection whose inline command or length line is longer without an end."""
NAME_BYTES_MAX: Final = 64
"""A longer first word is no command's name."""
ZERO_IN_NAME: Final = "a zero byte in a command's name"
"""Redis looks a name up by all of it and compares it up to its first zero byte: what it runs then is chance."""
HELD_WORDS_MAX: Final = 64
"""The protocol's widest lock script has 28 words."""
HELD_WORD_BYTES_MAX: Final = 1024 * 1024
"""A script's text is at most 60 kB; a batch renewal of 20,000 jobs packs into one word of this size."""
HELD_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of one command, over all its words."""
MARKED_WORD_BYTES_MAX: Final = 4096
"""Of a command that is wanted for its mark: keys and tokens are shorter, and values are not copied in vain."""
COUNT_MAX: Final = 2**31 - 1
"""Redis's own limit for the number of words in a command."""

CR: Final = b"\r"
CRLF: Final = b"\r\n"


class WireError(Exception):
    """Bytes that cannot be explained. What was read before them stands; nothing after them can be paired."""


class ClientWireError(WireError):
    """The client sent it: Redis will answer with a protocol error and close, or wait for ever."""


class ServerWireError(WireError):
    """The server sent it: not RESP, or a part of RESP that no server has been seen to send."""


SMALL: Final = {b"%d" % n: n for n in range(-1, 4096)}
"""Nearly every length is one of these: looking it up spares a call on the data path."""


def strict_int(digits: bytes) -> int | None:
    """A number as Redis reads lengths: no sign but `-`, no leading zero, no blank. None where it is not one."""
    small = SMALL.get(digits)
    if small is not None:
        return small
    body = digits[1:] if digits[:1] == b"-" else digits
    if not body.isdigit() or len(body) > 19 or body[:1] == b"0":
        return None
    return int(digits)


WINDOW_BYTES: Final = 4096
"""What is split at its line ends in one go. Where that does not help, so much is lost for so many bytes of a stream."""

head_of: Final = tuple(b"$%d" % size for size in range(WINDOW_BYTES + 1)).__getitem__
"""The length line of a bulk of so many bytes, at most WINDOW_BYTES."""


def holds_any(data: bytes, marks: tuple[bytes, ...]) -> bool:
    """Whether one of a few marks stands in the data."""
    for mark in marks:  # noqa: SIM110  on the data path: a generator takes several times as long
        if mark in data:
            return True
    return False


_LINES_AT_ONCE: Final = [re.compile(rb"(?:[+\-:_,#(][^\r\n]*+\r\n){1,%d}+" % (1 << power)) for power in range(13)]
"""By powers of two."""


def whole_lines(data: bytes, pos: int, most: int) -> tuple[int, int]:
    """Replies of one line that lie whole at `pos`, with no lone CR or LF inside: how many, up to `most`; their end.

    Never reads on past `most` of them, so that what stands between replies of another kind costs no more than itself.
    """
    found = 0
    while found < most:
        power = min((most - found).bit_length(), len(_LINES_AT_ONCE)) - 1
        match = _LINES_AT_ONCE[power].match(data, pos)
        if match is None:
            break
        lines = data.count(CRLF, pos, match.end()) if power else 1
        found, pos = found + lines, match.end()
        if lines < 1 << power:
            break
    return found, pos


def whole_bulks(data: bytes, pos: int, most: int) -> tuple[int, int]:
    """Bulks that lie whole in the WINDOW_BYTES at `pos`, with no line end inside: how many, up to `most`; their end.

    Exact: where the length equals that of the part between two line ends behind it, it is that part.
    """
    window = data[pos : pos + WINDOW_BYTES]
    parts = window.split(CRLF, 2 * min(most, WINDOW_BYTES))
    found = (len(parts) - 1) // 2
    heads, lengths = parts[0 : 2 * found : 2], list(map(head_of, map(len, parts[1 : 2 * found : 2])))
    while found and heads[-1] != lengths[-1]:  # what is no bulk stands behind them, mostly
        del heads[-1], lengths[-1]
        found -= 1
    if lengths != heads:
        found = next(at for at, (length, head) in enumerate(zip(lengths, heads, strict=True)) if length != head)
    return found, pos + len(window) - len(CRLF.join(parts[2 * found :]))
