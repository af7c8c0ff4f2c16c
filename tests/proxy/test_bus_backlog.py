"""Before records are dropped, the observer is told that it is behind: it sheds spans, and catches up."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest
import structlog.testing
import uvloop

from emqproxy.proxy.bus import BACKLOG, BATCH_MAX
from emqproxy.records import LENGTH_BYTES, Backlog, Message, Record
from tests.proxy.road import Lines, Road, on_a_road


@pytest.fixture(autouse=True)
def _no_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")


def test_that_many_wait_is_said_once_and_so_is_its_end(tmp_path: Path):
    async def within() -> None:
        with structlog.testing.capture_logs():
            road = Road(tmp_path)
            for _ in range(BACKLOG + 2 * BATCH_MAX - 1):
                road.tell()
            batches = []
            for _ in range(5):
                road.bus._line_up()
                batches.append(msgspec.msgpack.decode(road.bus._packets.first[LENGTH_BYTES:], type=list[Message]))
                road.bus._packets.pop()
            assert batches[0] == [Backlog(BACKLOG + 2 * BATCH_MAX - 1)]
            # When two packets have gone, less than the threshold wait.
            assert [type(batch[0]) for batch in batches] == [Backlog, Record, Record, Backlog, Record]
            assert batches[3] == [Backlog(0)]
            told = [m for batch in batches for m in batch if isinstance(m, Record)]
            assert [m.seq for m in told] == [*range(1, 3 * BATCH_MAX + 1)]
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
