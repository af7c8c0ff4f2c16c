"""The words of an inline command: what somebody types into a plain connection, by redis-server's rules for quotes."""

from __future__ import annotations

from typing import Final

from emqproxy.wire.frames import LINE_BYTES_MAX, ClientWireError

_BLANKS: Final = frozenset(b" \t\n\v\f\r")
_ENDS: Final = frozenset(b" \t\n\r")
"""A vertical tab or form feed may stand before a word, and does not end one."""
_ODD: Final = frozenset(b"\"'\v\f")
_ESCAPES: Final = {ord("n"): 10, ord("r"): 13, ord("t"): 9, ord("b"): 8, ord("a"): 7}
_NOT_PLAIN: Final = frozenset(b"\"'\x7f") | (frozenset(range(32)) - frozenset(b"\t"))
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


def read_line(line: bytes) -> list[bytes]:
    """The words of a whole line, its newline left out. Raises ClientWireError where Redis closes the connection."""
    if len(line) > LINE_BYTES_MAX:
        raise ClientWireError("an inline command that is too long")
    words = split_inline(line)
    if words is None:
        raise ClientWireError("unbalanced quotes in an inline command")
    return words


def unquoted(line: bytes) -> list[bytes]:
    """The words of a line, or of its begin, without quotes or control characters. Raises ClientWireError."""
    if len(line) > LINE_BYTES_MAX:
        raise ClientWireError("an inline command that is too long")
    text = line[:-1] if line.endswith(b"\r") else line
    if not _NOT_PLAIN.isdisjoint(text):
        raise ClientWireError("an inline command with quotes or control characters; write it as multibulk")
    return text.split()


def split_inline(line: bytes) -> list[bytes] | None:
    r"""The words of an inline command, by Redis's rules. None where quotes do not balance.

    Blanks part words; `"…"` knows `\xHH \n \r \t \b \a`, `'…'` knows `\'`; a closing quote must be followed by a blank.
    """
    if line.endswith(b"\r"):
        line = line[:-1]
    if not _ODD.intersection(line):
        return line.split()
    words: list[bytes] = []
    pos, end = 0, len(line)
    while True:
        while pos < end and line[pos] in _BLANKS:
            pos += 1
        if pos == end:
            return words
        word = bytearray()
        while pos < end and line[pos] not in _ENDS:
            quote = line[pos]
            if quote in b"\"'":
                closed = _quoted(line, pos + 1, quote, word)
                if closed is None or (closed < end and line[closed] not in _BLANKS):
                    return None
                pos = closed
                break
            word.append(quote)
            pos += 1
        words.append(bytes(word))


def _quoted(line: bytes, pos: int, quote: int, word: bytearray) -> int | None:
    """Reads up to the closing quote; the position behind it."""
    end = len(line)
    while pos < end:
        c = line[pos]
        if c == quote:
            return pos + 1
        if c == 0x5C and pos + 1 < end:
            follow = line[pos + 1]
            if quote == 0x27:
                if follow == 0x27:
                    c, pos = follow, pos + 1
            elif follow == 0x78 and pos + 3 < end and line[pos + 2] in _HEX and line[pos + 3] in _HEX:
                c, pos = int(line[pos + 2 : pos + 4], 16), pos + 3
            else:
                c, pos = _ESCAPES.get(follow, follow), pos + 1
        word.append(c)
        pos += 1
    return None
