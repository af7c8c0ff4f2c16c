"""The read end of the pipe: batches of messages, one after the other, until the data plane is gone.

Framing as `emqproxy.records` says: a 4-byte big-endian length and the msgpack of `list[Message]`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import msgspec

from emqproxy.records import BATCH_BYTES_MAX, LENGTH_BYTES, Message

_READ_BYTES_MAX: Final = 1 << 20


class Inbox:
    """Blocking reader of one descriptor. Iterate over `batches`; afterwards `why` says how it ended."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()
        self._decoder = msgspec.msgpack.Decoder(list[Message])
        self.undecodable = 0
        """Batches that were framed well and not understood: their records are lost, the next ones are not."""
        self.why = "open"
        """`open`, `eof`, `torn` (it ended within a frame), `oversized`, or `error`."""

    def batches(self) -> Iterator[list[Message]]:
        """Yields until the pipe closes. Never raises on account of what the pipe held."""
        while True:
            head = self._exactly(LENGTH_BYTES)
            if head is None:
                return
            length = int.from_bytes(head, "big")
            if length > BATCH_BYTES_MAX:
                self.why = "oversized"
                return
            body = self._exactly(length)
            if body is None:
                self.why = "torn" if self.why == "eof" else self.why
                return
            try:
                batch = self._decoder.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.undecodable += 1
                continue
            yield batch

    def _exactly(self, size: int) -> bytearray | None:
        # Each read is larger than any packet: what one holds beyond this must not be cut off.
        while len(self._buffer) < size:
            try:
                part = os.read(self._fd, _READ_BYTES_MAX)
            except OSError:
                self.why = "error"
                return None
            if not part:
                self.why = "torn" if self._buffer else "eof"
                return None
            self._buffer += part
        data = self._buffer[:size]
        del self._buffer[:size]
        return data
