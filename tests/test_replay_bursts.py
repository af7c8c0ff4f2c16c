"""Whatever came in whatever order: a journal, judged again, says what it says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from emqproxy.proxy import clock
from emqproxy.replay_report import Rejudging
from tests.bursts import Plane
from tests.shadowed import write_journal

STEPS = 250


@pytest.mark.parametrize("seed", range(4))
def test_bursts_over_some_connections_are_judged_again_as_they_were(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane(seed, clock.now)
    monkeypatch.setattr(clock, "now", lambda: plane.now)
    records = asyncio.run(plane.run(STEPS))
    again = Rejudging()
    raw = write_journal(tmp_path / "j", *records).read_bytes().splitlines()
    found = [difference for line in raw for difference in again.take(line)] + list(again.end())
    assert [(each.line.seq, each.line.op, each.what, each.then, each.now) for each in found] == []
    assert plane.faults == 0
    assert again.notes == []
    assert again.counts.judged > STEPS / 2
