"""How far one side of a connection is ahead of our looking: past a bound it is not read for a moment."""

from __future__ import annotations

from typing import Final

from emqproxy.proxy.looks import Looks

UNSEEN_BYTES_MAX: Final = 256 * 1024
"""Of what one side sent and nobody has looked at."""
ALL_UNSEEN_BYTES_MAX: Final = 512 * 1024
"""Of all connections together, some 150 ms of renewals: past it nobody is read who has more than a share of it. The
account would fall behind what passes, and lapses with it."""
SHARE_BYTES: Final = 4 * 1024


class Ahead:
    """Of one side."""

    def __init__(self, looks: Looks) -> None:
        self.too_far = False
        """No more is to be read until there is less."""
        self._looks = looks
        self._unseen_bytes = 0

    def read(self, count: int) -> bool:
        """So many bytes were read, and written on; whether it is too far from now on."""
        self._unseen_bytes += count
        if self.too_far or not self._is_far(self._unseen_bytes):
            return False
        self.too_far = True
        return True

    def looked(self, count: int) -> bool:
        """So many were looked at; whether it may be read again from now on."""
        self._unseen_bytes -= count
        if not self.too_far or self._is_far(2 * self._unseen_bytes):
            return False
        self.too_far = False
        return True

    def _is_far(self, unseen_bytes: int) -> bool:
        if unseen_bytes <= SHARE_BYTES:
            return False
        return unseen_bytes > UNSEEN_BYTES_MAX or self._looks.waiting_bytes > ALL_UNSEEN_BYTES_MAX
