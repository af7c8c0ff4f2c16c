"""What was used over several connections within one acquisition of a job: a pool's tokens and a pool's connections;
and what speaks for jobs that were taken elsewhere, which may be a pool's that is spread over several sidecars.

Of such a token no connection is the speaker's sign, and such a connection is no sign of its process. Both are held to
be so from then on; what is forgotten for want of room is what was not seen so for longest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

TOKENS_MAX: Final = 20_000
"""Tokens remembered for having been used from two connections."""
CONNS_MAX: Final = 100_000
CLOSED_MAX: Final = 10_000
"""Closed connections remembered: an acquisition of theirs that is spoken for elsewhere has moved."""


class Newest(Generic[K]):
    """A set of the last so many that were added."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def add(self, key: K) -> None:
        """It is the newest now, whether it was there or not."""
        self._kept[key] = None
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def discard(self, key: K) -> None:
        """If it is there."""
        self._kept.pop(key, None)


class Pools:
    """Of all connections; bounded."""

    def __init__(self) -> None:
        self._tokens: Newest[bytes] = Newest(TOKENS_MAX)
        self._conns: Newest[int] = Newest(CONNS_MAX)
        self._closed: Newest[int] = Newest(CLOSED_MAX)

    def has_token(self, token: bytes) -> bool:
        """Whether it was used over several connections, or who uses it is not certain."""
        return token in self._tokens

    def has_conn(self, conn: int) -> bool:
        """Whether it was seen to be one of several."""
        return conn in self._conns

    def shared(self, token: bytes, taker: int, speaker: int) -> None:
        """A token that took a job over one connection is used for it over another. Where the first was closed before,
        its worker has moved: that makes no pool of the new one."""
        self._tokens.add(token)
        if taker not in self._closed:
            self._conns.add(taker)
            self._conns.add(speaker)

    def elsewhere(self, token: bytes, conn: int) -> None:
        """A connection speaks for what was taken through another sidecar, or before our time."""
        self._tokens.add(token)
        self._conns.add(conn)

    def unsure(self, token: bytes) -> None:
        """Who uses it is not certain."""
        self._tokens.add(token)

    def hang_up(self, conn: int) -> None:
        """It is closed, and says nothing more."""
        self._conns.discard(conn)
        self._closed.add(conn)
