"""What was made and could not be sent yet: a line of packets that knows how much waits in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from emqproxy.records import LENGTH_BYTES, AttemptOver, Backlog, Message, Record

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Message]).decode


class Packets:
    """As `records` frames them. First in, first out, but for those that are to go before all others."""

    def __init__(self) -> None:
        self._line: deque[bytes] = deque()
        self.messages = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._line)

    @property
    def first(self) -> bytes:
        """The next to be sent; there must be one."""
        return self._line[0]

    def append(self, packet: bytes) -> None:
        """Behind all others."""
        self._line.append(packet)
        self._grown(packet)

    def prepend(self, packet: bytes) -> None:
        """Before all others."""
        self._line.appendleft(packet)
        self._grown(packet)

    def pop(self) -> None:
        """The first has gone."""
        packet = self._line.popleft()
        self.messages -= messages_in(packet)
        self.size_bytes -= len(packet)

    def replace(self, packets: Iterable[bytes]) -> None:
        """The whole line."""
        self._line, self.messages, self.size_bytes = deque(), 0, 0
        for packet in packets:
            self.append(packet)

    def _grown(self, packet: bytes) -> None:
        self.messages += messages_in(packet)
        self.size_bytes += len(packet)


def messages_in(packet: bytes) -> int:
    """How many messages a packet has: the length of the array that its body is (msgpack's three forms)."""
    head = packet[LENGTH_BYTES]
    if head < 0xA0:
        return head & 0x0F
    width = 2 if head == 0xDC else 4
    return int.from_bytes(packet[LENGTH_BYTES + 1 : LENGTH_BYTES + 1 + width], "big")


def pack(messages: list[Message]) -> bytes:
    """A packet of them."""
    body = _encode(messages)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def records_in(packet: bytes) -> int:
    """How many losses it is if this packet goes nowhere."""
    return records(_decode(memoryview(packet)[LENGTH_BYTES:]))


def records(messages: Iterable[Message]) -> int:
    """How many of them are one thing that happened to one job."""
    return sum(isinstance(message, (Record, AttemptOver)) for message in messages)


def is_backlog(packet: bytes) -> bool:
    """Whether it says how far one observer is behind, which is no other one's concern."""
    return messages_in(packet) == 1 and isinstance(_decode(memoryview(packet)[LENGTH_BYTES:])[0], Backlog)
