"""Before records are dropped, the observer is told that it is behind: it sheds spans, and catches up."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import structlog.testing
import uvloop

from emqproxy.proxy.bus import BACKLOG, BATCH_MAX
from emqproxy.records import LENGTH_BYTES, Backlog, Record
from tests.proxy.road import Lines, Road, on_a_road


@pytest.fixture(autouse=True)
def _no_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")


def test_what_many_wait_behind_says_so_first_and_counts_as_no_loss(tmp_path: Path):
    async def within() -> None:
        with structlog.testing.capture_logs():
            road = Road(tmp_path)
            for _ in range(BACKLOG + 2 * BATCH_MAX - 1):
                road.tell()
            packets = [road.bus._next_packet() for _ in range(3)]
            batches = [road.bus._decoder.decode(memoryview(packet)[LENGTH_BYTES:]) for packet in packets]
            assert batches[0][0] == Backlog(BACKLOG + BATCH_MAX - 1)
            # Of the second packet on, less than the threshold wait behind it.
            assert [type(batch[0]) for batch in batches] == [Backlog, Record, Record]
            assert [len(batch) for batch in batches] == [BATCH_MAX + 1, BATCH_MAX, BATCH_MAX]
            assert [road.bus._records_in(packet) for packet in packets] == [BATCH_MAX] * 3
            assert [m.seq for batch in batches for m in batch if isinstance(m, Record)] == [
                *range(1, 3 * BATCH_MAX + 1)
            ]
            road.bus._hang_up()

    uvloop.run(within())


def test_an_observer_that_is_behind_is_named_and_catches_up_without_a_loss(tmp_path: Path):
    async def test(road: Road, _: Lines) -> None:
        await road.told(road.tell())
        pid = road.bus.pid or 0
        os.kill(pid, signal.SIGSTOP)
        while not road.bus._blocked:
            road.tell()
            road.bus._send()
        assert road.bus.fault is None
        for _n in range(BACKLOG):
            last = road.tell()
        assert road.bus.fault == "the observer is behind: it sheds spans"
        os.kill(pid, signal.SIGCONT)
        await road.told(last)
        assert road.seqs() == list(range(1, last + 1))
        assert (road.bus.fault, road.bus.dropped) == (None, 0)

    on_a_road(tmp_path, test)
