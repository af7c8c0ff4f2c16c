"""What servers send: RESP 2 and 3 replies and pushes, skimmed.

`next` finds where the next frame ends. Asked to, it keeps the frame's bytes for decoding; a bulk past the limit is
kept as nil, so that the id behind 64 MiB of job data is still read and the data never held. `skip` passes over many
replies that nobody reads.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy.wire.frames import (
    CRLF,
    LINE_BYTES_MAX,
    SMALL,
    WINDOW_BYTES,
    ServerWireError,
    strict_int,
    whole_bulks,
    whole_lines,
)

PUSH: Final = ord(">")
ARRAY: Final = ord("*")
ERROR: Final = ord("-")
STATUS: Final = ord("+")
BULK: Final = ord("$")

ELEMENT_BYTES_MAX: Final = 64 * 1024
"""A larger bulk is kept as nil: ids, tokens and the fields of a job's hash that we read are far smaller."""
HEAD_BYTES_MAX: Final = 256
"""Enough for the kind and channel of a push; its message is kept as nil if larger."""
KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one frame: past it, the frame is skimmed and not kept. Past half of it, bulks over HEAD_BYTES_MAX are kept as nil,
so that the codes and ids of an EXEC are read whatever stands between them."""
STATUS_BYTES_MAX: Final = 1024 * 1024
"""A script can make a status of any length; one past this cannot be told from a stream that is no RESP."""

SEVERAL: Final = 4
"""From so many elements on it pays to look for several at once."""

_LINES: Final = frozenset(b"+-:_,#(")
_BULKS: Final = frozenset(b"$=!")
_AGGREGATES: Final = frozenset(b"*~>")
_NIL: Final = b"$-1\r\n"


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One whole reply or push."""

    kind: int
    """Its first byte; of a reply with an attribute before it, the reply's."""
    raw: bytes | None
    """Its bytes, attribute and oversized bulks left out; None where it was not to be kept, or was too large."""


_SKIMMED: Final = {kind: Frame(kind, None) for kind in range(256)}


class ReplyReader:
    """A reader of one server's byte stream: `feed` a piece, then call `next` until it answers None (not yet)."""

    def __init__(self) -> None:
        self.fed = 0
        """Bytes that were fed."""
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

    @property
    def exhausted(self) -> bool:
        """Everything has been read, to the end of a reply: `next` would answer None."""
        return self._pos >= len(self._data) and not self._elements

    @property
    def read_to(self) -> int:
        """Of the bytes that were fed, how many have been read: behind a frame, where it ends."""
        return self.fed - len(self._data) + self._pos

    def feed(self, data: bytes) -> None:
        """Call `next` until it answers None before feeding the next piece."""
        self.fed += len(data)
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
                    return Frame(kind, data[pos : stop + 2]) if limit else _SKIMMED[kind]
            elif kind == BULK:
                stop = _bulk_end(data, pos, len(data))
                if stop >= 0 and (not limit or stop - pos <= limit):
                    self._pos = stop
                    return Frame(kind, data[pos:stop]) if limit else _SKIMMED[kind]
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

    def skip(self, most: int) -> int:
        """Passes over whole replies, up to `most`, and says how many; much quicker than `next(0)` for each.

        Stops before what it does not know well: a push, an attribute, an aggregate, an odd line, a reply whose end has
        not come. So 0 says nothing but that `next` must read on.
        """
        data, pos = self._data, self._pos
        end, found, slow_until = len(data), 0, 0
        if self._elements:
            return 0
        while found < most and pos < end:
            kind = data[pos]
            if kind in _LINES:
                count, pos = whole_lines(data, pos, most - found)
                if not count:
                    break
            elif kind == BULK:
                count, begun = 0, pos
                if pos >= slow_until and most - found >= SEVERAL:
                    count, pos = whole_bulks(data, pos, most - found)
                    if pos - begun < WINDOW_BYTES // 2:
                        slow_until = begun + WINDOW_BYTES
                if not count:
                    pos, count = _bulk_end(data, begun, end), 1
                    if pos < 0:
                        pos = begun
                        break
            else:
                break
            found += count
        self._pos = pos
        return found

    def _begin(self, kind: int, limit: int) -> None:
        self._kind, self._elements = kind, 1
        self._attribute = kind == 0x7C
        self._limit = max(limit, HEAD_BYTES_MAX) if kind == PUSH else limit
        self._kept = bytearray() if self._limit and not self._attribute else None

    def _scan(self) -> bool:
        """Reads on in the open frame; whether it ended. Leaves `_pos` where the next call goes on."""
        data, pos, end = self._data, self._pos, len(self._data)
        run = pos  # what stands from here on is kept, if anything is
        slow_until = 0 if self._kept is None or self._limit >= WINDOW_BYTES else end
        while self._elements:
            if self._skip:
                pos = self._pass(pos, end)
                if not self._skip_kept:
                    run = pos
                if self._skip:
                    break
                continue
            if pos >= slow_until and self._elements >= SEVERAL:
                begun = pos
                pos, slow_until = self._several(data, pos, end)
                if pos != begun:
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

    def _pass(self, pos: int, end: int) -> int:
        """Passes over the open element's payload."""
        step = min(self._skip, end - pos)
        self._skip -= step
        if not self._skip:
            self._elements -= 1
        return pos + step

    def _several(self, data: bytes, pos: int, end: int) -> tuple[int, int]:
        """Reads elements of one sort that lie whole and short before us. Where the first begins that does not, and
        from where on it is worth another look."""
        kind, begun = data[pos] if pos < end else 0, pos
        if kind == BULK:
            count, pos = whole_bulks(data, pos, self._elements)
        elif kind in _LINES:
            count, pos = whole_lines(data, pos, self._elements)
        else:
            return pos, pos
        self._elements -= count
        return pos, pos if pos - begun >= WINDOW_BYTES // 2 else begun + WINDOW_BYTES

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
            if len(self._kept) > KEPT_BYTES_MAX // 2:
                self._limit = min(self._limit, HEAD_BYTES_MAX)
                if len(self._kept) > KEPT_BYTES_MAX:
                    self._kept = None


def _bulk_end(data: bytes, pos: int, end: int) -> int:
    """Where the bulk at `pos` ends; -1 where that has not come, or its length is none."""
    line_end = data.find(CRLF, pos)
    size = SMALL.get(data[pos + 1 : line_end]) if line_end >= 0 else None
    if size is None:
        size = strict_int(data[pos + 1 : line_end]) if line_end >= 0 else None
        if size is None:
            return -1
    stop = line_end + 2 + (size + 2 if size >= 0 else 0)
    return stop if stop <= end else -1
