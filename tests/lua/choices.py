"""One step's worth of random bytes, spent on choices. A missing byte is 0, and 0 is always the plainest choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """A record of bytes, read once from left to right."""

    def __init__(self, record: bytes) -> None:
        self._record = record
        self._at = 0

    def below(self, count: int) -> int:
        """0 … count - 1; `count` is 256 at most."""
        at = self._at
        self._at = at + 1
        return self._record[at] % count if at < len(self._record) else 0

    def of(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def once_in(self, count: int) -> bool:
        return self.below(count) == count - 1
