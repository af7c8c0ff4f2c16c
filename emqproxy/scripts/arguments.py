"""Reading what a call was given: KEYS and ARGV apart, numbers as scripts take them, msgpack within bounds.

Everything here answers None or `UNREADABLE` for what it cannot read; nothing raises on account of what a peer sent.
"""

from __future__ import annotations

import enum
import hashlib
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

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


def sha_of(text: bytes) -> bytes:
    """As Redis names a script; no security rests on it."""
    return hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()


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
        value, end = _read(data, 0, _Budget(), 0)
    except (IndexError, struct.error, _TooMuchError):
        return UNREADABLE
    # A slice past the end is short and not an error: where it stopped tells.
    return value if end <= len(data) else UNREADABLE


class _TooMuchError(Exception):
    """Too deep, too many values, or a byte that begins none."""


class _Budget:
    """How many values one argument may still have."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = PACKED_ITEMS_MAX

    def take(self, items: int, depth: int) -> None:
        """Before the items of an array or a map are read, so that a length is believed only as far as it may go."""
        self.left -= items
        if self.left < 0 or depth >= PACKED_DEPTH_MAX:
            raise _TooMuchError


# Our own reader rather than a library's: it bounds count and depth, takes no room before the bytes are there, and
# keeps going where a map's key cannot be hashed.


def _read(data: bytes, pos: int, budget: _Budget, depth: int) -> tuple[Value, int]:
    """The value at `pos`, and where it ends."""
    first = data[pos]
    pos += 1
    if first < 0x80:
        return first, pos
    if 0xA0 <= first < 0xC0:
        stop = pos + (first & 0x1F)
        return data[pos:stop], stop
    if first < 0x90:
        return _map(data, pos, first & 0x0F, budget, depth)
    if first < 0xA0:
        return _array(data, pos, first & 0x0F, budget, depth)
    if first >= 0xE0:
        return first - 0x100, pos
    return _wide(first, data, pos, budget, depth)


def _wide(first: int, data: bytes, pos: int, budget: _Budget, depth: int) -> tuple[Value, int]:
    """A value whose first byte is neither itself nor its size."""
    if first in _CONSTANTS:
        return _CONSTANTS[first], pos
    if first in _NUMBERS:
        form = _NUMBERS[first]
        return form.unpack_from(data, pos)[0], pos + form.size
    if first in _SIZED:
        kind, width = _SIZED[first]
        size = int.from_bytes(data[pos : pos + width], "big")
        pos += width
        if kind == "bytes":
            return data[pos : pos + size], pos + size
        if kind == "ext":
            return None, pos + 1 + size
        return (_array if kind == "array" else _map)(data, pos, size, budget, depth)
    if 0xD4 <= first <= 0xD8:
        return None, pos + 1 + (1 << (first - 0xD4))
    raise _TooMuchError


def _array(data: bytes, pos: int, size: int, budget: _Budget, depth: int) -> tuple[Value, int]:
    budget.take(size, depth)
    items: list[Value] = []
    for _ in range(size):
        item, pos = _read(data, pos, budget, depth + 1)
        items.append(item)
    return items, pos


def _map(data: bytes, pos: int, size: int, budget: _Budget, depth: int) -> tuple[Value, int]:
    budget.take(2 * size, depth)
    entries: dict[object, Value] = {}
    for _ in range(size):
        key, pos = _read(data, pos, budget, depth + 1)
        value, pos = _read(data, pos, budget, depth + 1)
        if not isinstance(key, (list, dict)):
            entries[key] = value
    return entries, pos


_CONSTANTS: Final[dict[int, bool | None]] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS: Final = dict(
    zip(
        range(0xCA, 0xD4),
        map(struct.Struct, (">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q")),
        strict=True,
    )
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


class _PlainOptions(msgspec.Struct, gc=False):
    """As nearly all workers pack them."""

    token: str | None = None
    lockDuration: int | None = None  # noqa: N815


class _Options(msgspec.Struct):
    """All of a worker's packed options that is read; the rest is passed over."""

    token: msgspec.Raw = msgspec.Raw()
    lockDuration: msgspec.Raw = msgspec.Raw()  # noqa: N815  the name that clients send


_PLAIN_OPTIONS: Final = msgspec.msgpack.Decoder(_PlainOptions)
_OPTIONS: Final = msgspec.msgpack.Decoder(_Options)


def unpack_options(data: Word) -> Value | Unreadable:
    """As `unpack`, of a worker's packed options: only `token` and `lockDuration` are looked for.

    They stand in every pickup and every finish. The library passes over the rest without building it, whatever lengths
    it declares; what it does not take (other keys than strings, bytes behind the map) is read the long way.
    """
    if data is None or len(data) > PACKED_BYTES_MAX:
        return UNREADABLE
    try:
        told = _PLAIN_OPTIONS.decode(data)
        token = told.token
        return {b"token": None if token is None else token.encode(), b"lockDuration": told.lockDuration}
    except (msgspec.MsgspecError, RecursionError):
        pass  # a token of bytes, a duration that is a float, a text that is no UTF-8
    try:
        found = _OPTIONS.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return unpack(data)
    options: dict[object, Value] = {}
    for name, raw in ((b"token", found.token), (b"lockDuration", found.lockDuration)):
        if raw:
            value = unpack(bytes(raw))
            options[name] = None if isinstance(value, Unreadable) else value
    return options


def whole(value: object) -> int | None:
    """A count or a duration: an int, a float without a fraction, or plain decimal digits; None for all else.

    Node packs some of them as floats, and ARGV has them as digits.
    """
    if isinstance(value, bytes):
        return int(value) if len(value) <= 18 and value.isdigit() else None
    if value is None or isinstance(value, bool):
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
