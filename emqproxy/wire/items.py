"""What a client's byte stream comes to: commands somebody wants, and how many nobody does."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import msgspec


class Request(msgspec.Struct, frozen=True):
    """A command somebody wants."""

    words: list[bytes | None]
    """The name first, upper case. None: too large to hold. At most HELD_WORDS_MAX."""
    length: int
    """How many words it had."""


NO_COMMAND: Final = 0
"""Stands for an empty command, which Redis does not answer."""

Item: TypeAlias = "Request | int"
"""A wanted command, or how many unwanted ones stood in a row; NO_COMMAND for an empty one."""


class Piece(NamedTuple):
    """Bytes that go on together, or are refused together."""

    raw: bytes
    item: Item | None
    """A command that is to be judged; how many others; None: a part of one whose end has not come."""
    too_large: bool = False
    """The command is larger than may be held: there are no bytes of it, and its item has its first words only."""


class Held(NamedTuple):
    """What is held of an open command."""

    words: int
    """How many it says it has."""
    longest: int
    """Bytes that the longest of those begun says it has."""
    taken: int
    """Bytes that it takes here."""


def add_unwanted(unwanted: int, out: list[Item]) -> None:
    """So many more, behind what is there."""
    if out and type(out[-1]) is int and out[-1] > 0:
        out[-1] += unwanted
    else:
        out.append(unwanted)
