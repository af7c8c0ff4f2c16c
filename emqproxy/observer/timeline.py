"""One mapping from monotonic instants to wall time, shared by spans and journal so that they agree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from emqproxy.locks.events import Instant
from emqproxy.records import Anchor

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Timeline:
    """The last anchor, as a mapping. Until the first anchor came, instants map to themselves."""

    def __init__(self) -> None:
        self._offset_ns = 0

    def anchor(self, anchor: Anchor) -> None:
        """From here on, instants are mapped by this pair."""
        self._offset_ns = anchor.wall_ns - anchor.monotonic_ns

    def wall_ns(self, instant: Instant) -> int:
        """Unix nanoseconds."""
        return instant + self._offset_ns

    def rfc3339(self, instant: Instant) -> str:
        """`2026-11-29T18:07:00.000001Z`: microseconds, cut, never rounded into the future."""
        second, micros = divmod((instant + self._offset_ns) // 1000, 1_000_000)
        return f"{_written(second)}.{micros:06d}Z"


@lru_cache(maxsize=256)
def _written(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")


def rounded_ms(figure_ms: float | None) -> float | None:
    """An age or a remainder as it is told: to the microsecond."""
    return None if figure_ms is None else round(figure_ms * 1000) / 1000  # a third of the time of `round(…, 3)`
