"""Law 8: an observer that dies, hangs or never starts hurts nobody, and every loss is counted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
import uvloop

from emqproxy.proxy import bus as bus_module
from emqproxy.proxy.bus import BATCH_MAX, WAITING_MAX
from tests.processes import EmqProxy, RedisServer, children, eventually, http_get
from tests.proxy.road import Lines, Road, on_a_road, seqs
from tests.proxy.wires import ask, dial, exactly, sidecar, until
from tests.session.talk import words

FLUSH_S = bus_module.BATCH_DELAY_S * 1.2
"""The bus has sent what it was told before."""


@pytest.fixture(autouse=True)
def _no_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")


def test_all_arrive_in_order(tmp_path: Path):
    async def test(road: Road, _: Lines) -> None:
        for _n in range(3 * BATCH_MAX + 1):
            road.tell()

    on_a_road(tmp_path, test)
    assert seqs(tmp_path / "journal") == list(range(1, 3 * BATCH_MAX + 2)), "close hands over what waits"


def test_what_is_told_before_there_is_an_observer_comes_after_the_greeting(tmp_path: Path):
    """A packet before it would end the observer at once, and the next one, too."""

    async def test(road: Road, lines: Lines) -> None:
        road.tell()
        for _ in range(20):
            await asyncio.sleep(FLUSH_S)
            road.tell()
        await road.told(21)
        os.kill(road.bus.pid or 0, signal.SIGKILL)
        await until(lambda: road.bus.restarts == 1)
        while len(road.hellos) < 2:  # traffic between the observers
            road.tell()
            await asyncio.sleep(FLUSH_S)
        await road.told(road.tell())
        assert road.hellos == [0, 1]
        (line,) = [line for line in lines if "started again" in line["event"]]
        assert line["code"] == -signal.SIGKILL

    on_a_road(tmp_path, test)
    told = seqs(tmp_path / "journal")
    assert told == list(range(1, len(told) + 1))


def test_what_a_dead_observer_had_not_read_is_read_by_the_next_in_order(tmp_path: Path):
    async def test(road: Road, _: Lines) -> None:
        await road.told(road.tell())
        pid = road.bus.pid or 0
        os.kill(pid, signal.SIGSTOP)
        for turn in range(40):  # more than the socket holds: a packet stands before a full one
            for _n in range(BATCH_MAX):
                road.tell("y" * 500)
            if turn % 4 == 0:
                await asyncio.sleep(FLUSH_S)
        await until(lambda: road.bus._blocked)
        os.kill(pid, signal.SIGKILL)
        await road.told(road.tell())
        assert road.bus.dropped == 0

    on_a_road(tmp_path, test)
    assert seqs(tmp_path / "journal") == list(range(1, 40 * BATCH_MAX + 3))


def test_a_frozen_observer_costs_a_bounded_queue_and_every_loss_is_counted(tmp_path: Path):
    async def test(road: Road, lines: Lines) -> None:
        await road.told(road.tell())
        pid = road.bus.pid or 0
        os.kill(pid, signal.SIGSTOP)
        for turn in range(WAITING_MAX + 5_000):
            road.tell()
            if turn % 1000 == 0:
                await asyncio.sleep(0)
        await until(lambda: road.bus._blocked)
        assert road.bus._behind_by <= WAITING_MAX
        assert len(road.bus._waiting) < BATCH_MAX, "the rest takes less room"
        assert road.bus.dropped > 0
        assert road.bus.fault == f"{road.bus.dropped} records were dropped"
        assert sum("records are dropped" in line["event"] for line in lines) == 1
        os.kill(pid, signal.SIGCONT)
        await until(lambda: not road.bus._behind)
        await road.told(road.tell())
        assert road.bus.fault is None
        missing = road.bus.seq - len(road.seqs())
        assert missing == road.bus.dropped

    on_a_road(tmp_path, test)


def test_a_record_larger_than_a_packet_is_one_loss(tmp_path: Path):
    async def test(road: Road, _: Lines) -> None:
        road.tell()
        road.tell("z" * 500_000)
        await road.told(road.tell())
        assert (road.seqs(), road.bus.dropped) == ([1, 3], 1)

    on_a_road(tmp_path, test)


def test_close_is_bounded_where_the_observer_is_stuck(tmp_path: Path):
    async def within() -> tuple[int, int, int]:
        with structlog.testing.capture_logs():
            road = Road(tmp_path)
            await road.bus.start()
            await road.told(road.tell())
            pid = road.bus.pid or 0
            os.kill(pid, signal.SIGSTOP)
            for _ in range(WAITING_MAX):
                road.tell()
            began = time.monotonic()
            await road.bus.close()
            assert time.monotonic() - began < 4.5
            return pid, road.bus.dropped, road.bus.seq

    pid, dropped, seq = uvloop.run(within())
    assert not Path(f"/proc/{pid}").exists(), "killed and reaped"
    assert WAITING_MAX // 2 < dropped < seq, "but for what the kernel had taken"


class OtherProgram:
    """`sys.executable` for the bus: a program in the observer's place."""

    def __init__(self, text: str, folder: Path) -> None:
        program = folder / "program"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        self.executable = str(program)


def test_an_observer_that_ends_at_once_is_tried_again_ever_more_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bus_module, "sys", OtherProgram(f"echo x >> {tmp_path / 'starts'}; exit 3", tmp_path))

    async def test(road: Road, lines: Lines) -> None:
        await until(lambda: road.bus.restarts >= 1)
        assert road.bus.fault == "the observer is not running"
        for _ in range(100):
            road.tell()
            await asyncio.sleep(FLUSH_S)
        assert road.bus.restarts <= 4
        assert sum("started again" in line["event"] for line in lines) == 1
        # Greetings of those that never read them do not pile up.
        await until(lambda: road.bus.restarts >= 3)
        assert len(road.bus._packets) < 20
        monkeypatch.setattr(bus_module, "sys", sys)
        await road.told(100)
        assert road.seqs() == list(range(1, 101))

    on_a_road(tmp_path, test)


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    missing = OtherProgram("", tmp_path)
    missing.executable = str(tmp_path / "none")
    monkeypatch.setattr(bus_module, "sys", missing)

    async def test(road: Road, lines: Lines) -> None:
        road.tell()
        await until(lambda: [line for line in lines if "cannot be started" in line["event"]])
        began = time.monotonic()
        await road.bus.close()
        assert time.monotonic() - began < 4.5
        assert road.bus.dropped == 1

    async def within() -> None:
        with structlog.testing.capture_logs() as lines:
            road = Road(tmp_path)
            await road.bus.start()
            await test(road, lines)

    uvloop.run(within())


# ---------------------------------------------------------------- the whole sidecar


def test_traffic_and_health_do_not_notice_a_dead_or_frozen_observer(redis_session: RedisServer):
    with sidecar(redis_session.url) as proxy, dial(proxy.port) as client:

        def traffic() -> None:
            client.sendall(words("EVAL", "return 1", 0) * 2000)
            assert exactly(client, 8000) == b":1\r\n" * 2000

        (observer,) = children(proxy.pid)
        os.kill(observer, signal.SIGSTOP)
        traffic()
        os.kill(observer, signal.SIGKILL)
        status, body = eventually(lambda: degraded(proxy), what="telemetry: degraded")
        assert status == 200
        assert body["ready"] is True
        traffic()
        eventually(lambda: set(children(proxy.pid)) - {observer}, what="another observer")
        assert not Path(f"/proc/{observer}").exists(), "no zombie"
        eventually(lambda: ready(proxy)[1]["telemetry"] == "ok")
        ask(client, "PING", answer=b"+PONG\r\n")


def ready(proxy: EmqProxy) -> tuple[int, dict[str, Any]]:
    status, body = http_get(proxy.health_port, "/readyz")
    return status, json.loads(body)


def degraded(proxy: EmqProxy) -> tuple[int, dict[str, Any]] | None:
    status, body = ready(proxy)
    return (status, body) if body["telemetry"] == "degraded" else None


def test_no_orphan_is_left_by_a_sidecar_that_was_killed(redis_session: RedisServer):
    with sidecar(redis_session.url) as proxy:
        (observer,) = children(proxy.pid)
        os.kill(proxy.pid, signal.SIGKILL)
        eventually(lambda: not running(observer), what="the observer's end")


def running(pid: int) -> bool:
    """Not gone, and not a zombie that whoever is its parent now has yet to reap."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
