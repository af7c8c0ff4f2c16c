"""One mapping, in whole microseconds."""

from __future__ import annotations

import pytest

from emqproxy.observer.timeline import Timeline, rounded_ms
from emqproxy.records import Anchor
from tests.observer.records_factory import ANCHOR, BOOT_NS, MS, WALL_NS


def test_instants_are_mapped_by_the_last_anchor() -> None:
    timeline = Timeline()
    timeline.anchor(ANCHOR)
    assert timeline.wall_ns(BOOT_NS + 7) == WALL_NS + 7
    timeline.anchor(Anchor(BOOT_NS, WALL_NS + 500 * MS, 0, 0))
    assert timeline.wall_ns(BOOT_NS - MS) == WALL_NS + 499 * MS


def test_time_is_rfc3339_with_microseconds_cut() -> None:
    timeline = Timeline()
    timeline.anchor(Anchor(0, 0, 0, 0))
    assert timeline.rfc3339(0) == "1970-01-01T00:00:00.000000Z"
    assert timeline.rfc3339(1_796_000_000_123_456_999) == "2026-11-30T00:53:20.123456Z"
    assert timeline.rfc3339(1_796_000_001_000_000_000) == "2026-11-30T00:53:21.000000Z"
    assert timeline.rfc3339(1_796_000_000_999_999_999) == "2026-11-30T00:53:20.999999Z"


@pytest.mark.parametrize(
    ("figure", "told"), [(None, None), (0.0, 0.0), (19_999.6004, 19_999.6), (-1_000.1236, -1_000.124)]
)
def test_figures_are_told_to_the_microsecond(figure: float | None, told: float | None) -> None:
    assert rounded_ms(figure) == told
