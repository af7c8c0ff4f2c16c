"""What servers send: RESP 2 and 3 replies and pushes, skimmed.

`next` finds where the next frame ends. Asked to, it keeps the frame's bytes for decoding; a bulk past the limit is
kept as nil, so that the id behind 64 MiB of job data is still read and the data never held.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from emqproxy.wire.frames import CRLF, LINE_BYTES_MAX, ServerWireError, strict_int

PUSH: Final = ord(">")
ARRAY: Final = ord("*")
ERROR: Final = ord("-")
STATUS: Final = ord("+")

ELEMENT_BYTES_MAX: Final = 64 * 1024
"""A larger bulk is kept as nil: ids, tokens and the fields of a job's hash that we read are far smaller."""
HEAD_BYTES_MAX: Final = 256
"""Enough for the kind and channel of a push; its message is kept as nil if larger."""
KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one frame: past it, the frame is skimmed and not kept."""
STATUS_BYTES_MAX: Final = 1024 * 1024
"""A script can make a status of any length; one past this cannot be told from a stream that is no RESP."""

_LINES: Final = frozenset(b"+-:_,#(")
_BULKS: Final = frozenset(b"$=!")
_AGGREGATES: Final = frozenset(b"*~>")
_NIL: Final = b"$-1\r\n"


class Frame(NamedTuple):
    """One whole reply or push."""

    kind: int
    """Its first byte; of a reply with an attribute before it, the reply's."""
    raw: bytes | None
    """Its bytes, attribute and oversized bulks left out; None where it was not to be kept, or was too large."""


class ReplyReader:
    """A reader of one server's byte stream: `feed` a piece, then call `next` until it answers None (not yet)."""

    def __init__(self) -> None:
        self._data = b""
        self._pos = 0
        self._kind = 0
        self._elements = 0
        """Elements still to come before the open frame ends; 0 between frames."""
        self._skip = 0
        """Payload bytes of the open element still to come, its CRLF among them."""
        self._skip_kept = False
        self._kept: bytearray | None = None
        self._limit = 0
        self._attribute = False
        """The open frame is an attribute: it stands before a reply and is none. Inside a reply none was seen."""

    def feed(self, data: bytes) -> None:
        """Call `next` until it answers None before feeding the next piece."""
        rest = len(self._data) - self._pos
        self._data = self._data[self._pos :] + data if rest else data
        self._pos = 0

    def next(self, limit: int) -> Frame | None:
        """The next whole frame; None where its end has not come. Raises ServerWireError.

        `limit`: 0 skims; above 0 the frame is kept, with bulks up to so many bytes. Pushes are always kept.
        """
        data, pos = self._data, self._pos
        if not self._elements:
            if pos >= len(data):
                return None
            kind = data[pos]
            if kind in _LINES:
                stop = data.find(CRLF, pos)
                if stop >= 0:
                    self._pos = stop + 2
                    return Frame(kind, data[pos : stop + 2] if limit else None)
            self._begin(kind, limit)
        while self._scan():
            if not self._attribute:
                kept, self._kept = self._kept, None
                return Frame(self._kind, bytes(kept) if kept is not None else None)
            if self._pos >= len(self._data):
                self._attribute = False  # the reply itself begins with the next piece
                return None
            self._begin(self._data[self._pos], limit)
        return None

    def _begin(self, kind: int, limit: int) -> None:
        self._kind, self._elements = kind, 1
        self._attribute = kind == 0x7C
        self._limit = max(limit, HEAD_BYTES_MAX) if kind == PUSH else limit
        self._kept = bytearray() if self._limit and not self._attribute else None

    def _scan(self) -> bool:
        """Reads on in the open frame; whether it ended. Leaves `_pos` where the next call goes on."""
        data, pos, end = self._data, self._pos, len(self._data)
        run = pos  # what stands from here on is kept, if anything is
        while self._elements:
            if self._skip:
                step = min(self._skip, end - pos)
                self._skip -= step
                pos += step
                if not self._skip_kept:
                    run = pos
                if self._skip:
                    break
                self._elements -= 1
                continue
            line_end = data.find(CRLF, pos)
            if line_end < 0:
                self._check_line(data, pos)
                break
            kind, start, pos = data[pos], pos, line_end + 2
            if kind in _LINES:
                self._elements -= 1
                continue
            size = strict_int(data[start + 1 : line_end])
            if size is None:
                raise ServerWireError(f"a length that is no number, behind {chr(kind)!r}")
            if kind in _BULKS:
                if size < 0:
                    self._elements -= 1
                    continue
                self._skip, self._skip_kept = size + 2, size <= self._limit
                if not self._skip_kept and self._kept is not None:
                    self._keep(data[run:start])
                    self._keep(_NIL)
            else:
                self._aggregate(kind, size)
        if self._kept is not None:
            self._keep(data[run:pos])
        self._pos = pos
        return not self._elements

    def _aggregate(self, kind: int, size: int) -> None:
        if kind in _AGGREGATES:
            self._elements += max(size, 0) - 1
        elif kind == 0x25:  # a map
            self._elements += 2 * size - 1
        elif kind == 0x7C and self._attribute == self._elements == 1:
            self._elements = 2 * size
        else:
            raise ServerWireError(f"a reply that begins with {chr(kind)!r}")

    def _check_line(self, data: bytes, pos: int) -> None:
        length = len(data) - pos
        if length and (length > STATUS_BYTES_MAX or (data[pos] not in _LINES and length > LINE_BYTES_MAX)):
            raise ServerWireError("a line without an end")

    def _keep(self, piece: bytes) -> None:
        if self._kept is not None:
            self._kept += piece
            if len(self._kept) > KEPT_BYTES_MAX:
                self._kept = None
