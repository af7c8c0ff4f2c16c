"""Commands alike that nobody wants, one behind another: one pattern passes over all of them at once.

A client that does one thing sends one shape again and again: the same name, the same lengths. Once that has shown, the
rest of a pipeline is matched and not read. Exact: the lengths stand in the pattern as they stand in the bytes, so each
word is as long as it says; and what could make somebody want a command of this shape must not stand anywhere in the
piece.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

ALIKE_MIN: Final = 32
"""So many in a row before a pattern is made, which costs what reading about as many does."""
PATTERN_BYTES_MAX: Final = 1024
"""Of one command's length lines and fixed words."""

Match: TypeAlias = Callable[[bytes, int], "re.Match[bytes] | None"]


class StrangerRule(Protocol):
    """Those who say whether a wanted command, given by its words, is nothing to anybody."""

    age: int
    """Another number: what was a stranger's may be somebody's by now."""
    prefixes: tuple[bytes, ...]
    """A stranger's command is one with any words behind its first two, if none of these stands in them."""

    def __call__(self, words: Sequence[bytes | None]) -> bool: ...


class Alike:
    """What one reader's stream has shown."""

    def __init__(self, marks: tuple[bytes, ...], strangers: StrangerRule | None) -> None:
        """What may be wanted by somebody where one of `marks` stands in it, is said with each command."""
        self._marks = marks
        self._strangers = strangers
        self._heads: list[bytes] = []
        self._fixed: tuple[bytes, ...] = ()
        self._same = 0
        self._age = 0
        self._match: Match | None = None
        self._without: tuple[bytes, ...] = ()
        self.length = 1
        """Bytes of one command of the shape."""
        self.made = 0
        """How often a shape has shown: another number, another answer of `within`."""

    def within(self, data: bytes) -> Match | None:
        """What matches at a position of this piece as many commands of the shape as stand there, at least one.

        None: no shape has shown, or something in the piece may make one of its commands somebody's.
        """
        if self._match is None:
            return None
        if self._strangers is not None and self._age != self._strangers.age:
            self._match, self._same = None, 0
            return None
        for words in self._without:
            if words in data:
                return None
        return self._match

    def saw(self, heads: list[bytes], name: bytes, code: bytes | None, marked: bool) -> None:
        """A command that nobody wants, by its length lines, and its name as it was sent; `code`: the second word of a
        wanted one that is a stranger's; `marked`: with a mark in it somebody may want it."""
        fixed = (name,) if code is None else (name, code)
        if heads != self._heads or fixed != self._fixed:
            self._heads, self._fixed, self._same = heads, fixed, 0
            return
        self._same += 1
        if self._same != ALIKE_MIN or sum(map(len, heads)) + sum(map(len, fixed)) > PATTERN_BYTES_MAX:
            return
        self.made += 1
        self._match, self.length = _pattern(tuple(heads), fixed)
        self._without = self._marks if marked else ()
        if self._strangers is not None:
            self._age = self._strangers.age
            if code is not None:
                self._without = self._strangers.prefixes


@functools.lru_cache(maxsize=256)
def _pattern(heads: tuple[bytes, ...], fixed: tuple[bytes, ...]) -> tuple[Match, int]:
    """What matches any number of commands with these length lines and these first words; the length of one."""
    count = b"*%d\r\n" % len(heads)
    parts, length = [re.escape(count)], len(count)
    for place, head in enumerate(heads):
        size = int(head[1:])
        word = re.escape(fixed[place]) if place < len(fixed) else b".{%d}" % size
        parts += [re.escape(head), rb"\r\n", word, rb"\r\n"]
        length += len(head) + size + 4
    return re.compile(b"(?:%b)++" % b"".join(parts), re.DOTALL).match, length
