"""Reading what a call was given: KEYS and ARGV apart, numbers as scripts take them, msgpack within bounds.

Everything here answers None or `UNREADABLE` for what it cannot read; nothing raises on account of what a peer sent.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from emqproxy.session.exchange import Word

PACKED_BYTES_MAX: Final = 1024 * 1024
PACKED_DEPTH_MAX: Final = 16
"""Arrays and maps inside each other. Redis's own packer stops at 16."""
PACKED_ITEMS_MAX: Final = 65_536
"""All values of one argument together: a batch renewal has one an id."""
_LUA_EXACT_MAX: Final = 10**14
"""Redis's Lua writes a number into a key as `%.14g`: past this the digits are gone."""


class Call(NamedTuple):
    """KEYS and ARGV of one call, from 0. None where a word was too large to be held."""

    keys: Sequence[Word]
    args: Sequence[Word]


def split(words: Sequence[Word]) -> Call | None:
    """`[EVALSHA, sha, numkeys, …]` as KEYS and ARGV; None where numkeys is no count of what follows."""
    if len(words) < 3:
        return None
    numkeys = whole(words[2])
    if numkeys is None or numkeys > len(words) - 3:
        return None
    return Call(words[3 : 3 + numkeys], words[3 + numkeys :])


class Unreadable(enum.Enum):
    """What `unpack` answers for bytes that are no msgpack, or too much of it."""

    UNREADABLE = "unreadable"


UNREADABLE: Final = Unreadable.UNREADABLE

Value: TypeAlias = "int | float | bool | bytes | list[Value] | dict[object, Value] | None"


def unpack(data: Word) -> Value | Unreadable:
    """The first value of msgpack bytes, as the scripts take it. Strings are bytes, extension types None.

    Map keys may be of any type; an entry whose key is itself an array or a map is left out. Of two equal keys the
    later one stands.
    """
    if data is None or len(data) > PACKED_BYTES_MAX:
        return UNREADABLE
    try:
        return _Unpacker(data).value(0)
    except (IndexError, struct.error, _TooMuchError):
        return UNREADABLE


class _TooMuchError(Exception):
    """Too deep, too many values, or bytes that end too early."""


class _Unpacker:
    """Own reader rather than a library's: it counts values and depth, and takes no room before the bytes are there."""

    __slots__ = ("_data", "_left", "_pos")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0
        self._left = PACKED_ITEMS_MAX

    def value(self, depth: int) -> Value:
        self._left -= 1
        if self._left < 0:
            raise _TooMuchError
        first = self._data[self._pos]
        self._pos += 1
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if 0xA0 <= first < 0xC0:
            return self._take(first & 0x1F)
        if first < 0x90:
            return self._map(first & 0x0F, depth)
        if first < 0xA0:
            return self._array(first & 0x0F, depth)
        return self._wide(first, depth)

    def _wide(self, first: int, depth: int) -> Value:
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            form = _NUMBERS[first]
            number: int | float = struct.unpack(form, self._take(struct.calcsize(form)))[0]
            return number
        if first in _SIZED:
            kind, width = _SIZED[first]
            size = int.from_bytes(self._take(width), "big")
            if kind == "bytes":
                return self._take(size)
            if kind == "ext":
                self._take(size + 1)
                return None
            return self._array(size, depth) if kind == "array" else self._map(size, depth)
        if 0xD4 <= first <= 0xD8:
            self._take(1 + (1 << (first - 0xD4)))
            return None
        raise _TooMuchError

    def _take(self, size: int) -> bytes:
        stop = self._pos + size
        if stop > len(self._data):
            raise _TooMuchError
        taken = self._data[self._pos : stop]
        self._pos = stop
        return taken

    def _array(self, size: int, depth: int) -> Value:
        self._enter(size, depth)
        return [self.value(depth + 1) for _ in range(size)]

    def _map(self, size: int, depth: int) -> Value:
        self._enter(2 * size, depth)
        entries: dict[object, Value] = {}
        for _ in range(size):
            key, value = self.value(depth + 1), self.value(depth + 1)
            if not isinstance(key, list | dict):
                entries[key] = value
        return entries

    def _enter(self, items: int, depth: int) -> None:
        if depth >= PACKED_DEPTH_MAX or items > self._left:
            raise _TooMuchError


_CONSTANTS: Final[dict[int, bool | None]] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS: Final = dict(
    zip(range(0xCA, 0xD4), (">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), strict=True)
)
_SIZED: Final = {
    0xC4: ("bytes", 1),
    0xC5: ("bytes", 2),
    0xC6: ("bytes", 4),
    0xC7: ("ext", 1),
    0xC8: ("ext", 2),
    0xC9: ("ext", 4),
    0xD9: ("bytes", 1),
    0xDA: ("bytes", 2),
    0xDB: ("bytes", 4),
    0xDC: ("array", 2),
    0xDD: ("array", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}


def whole(value: object) -> int | None:
    """A count or a duration: an int, a float without a fraction, or plain decimal digits; None for all else.

    Node packs some of them as floats, and ARGV has them as digits.
    """
    if isinstance(value, bytes):
        return int(value) if len(value) <= 18 and value.isdigit() else None
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        value = int(value) if value.is_integer() and value < 2**53 else None
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def plain(value: object) -> bytes | None:
    """A token or an id as Redis's Lua puts it into a key or a value: bytes as they are, whole numbers as digits."""
    if isinstance(value, bytes):
        return value
    number = whole(value)
    return None if number is None or number >= _LUA_EXACT_MAX else b"%d" % number


def entry(options: Value | Unreadable, name: bytes) -> Value:
    """One entry of unpacked options; None where there are none."""
    return options.get(name) if isinstance(options, dict) else None
