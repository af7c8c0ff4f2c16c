"""A journal of a real sidecar before a real Redis: workers by hand, who keep the protocol, and some who do not."""

from __future__ import annotations

from typing import Any

import pytest

from emqproxy import cli
from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.hand import Hand, add, hand, wait_line
from tests.proxy.wires import sidecar
from tests.scripts import talk

CANARY = "canary"
ONE, TWO = "4b7a9f62-3a51-4c55-9a3e-1d2f4f0c9b11", "5b7a9f62-3a51-4c55-9a3e-1d2f4f0c9b12"
TAKEN_OVER, ROBBED, HEALTHY = f"{CANARY}-taken", f"{CANARY}-robbed", f"{CANARY}-healthy"


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """One command line in this process: its exit code, and what it said."""
    code = cli.main(words)
    told = capsys.readouterr()
    return code, told.out, told.err


def key(job: str) -> str:
    return f"{talk.PREFIX.decode()}{job}"


def play(redis: RedisServer, proxy: EmqProxy) -> None:
    """All of it; returns when its last line is written."""
    with hand(proxy.port) as first, hand(proxy.port) as second, hand(proxy.port) as other:
        for each, name in ((first, "one"), (second, "two"), (other, "other")):
            each.wire.call("CLIENT", "SETNAME", f"{CANARY}-{name}")
        add(redis, HEALTHY)
        assert first.pick(f"{ONE}:1") == HEALTHY
        first.ask("extendLock-2", talk.renew(HEALTHY, f"{ONE}:1"))
        first.ask("extendLocks-1", talk.renew_all([HEALTHY, "none"], [f"{ONE}:1", f"{ONE}:1"]))
        assert [first.read(), first.read()] == [1, [b"none"]]
        assert [first.finish(HEALTHY, f"{ONE}:1"), first.finish(HEALTHY, f"{ONE}:1")] == [0, -2]
        _taken_over(redis, proxy, first, second, other)
        add(redis, ROBBED)
        assert first.pick(f"{ONE}:3") == ROBBED
        assert other.wire.call("DEL", f"{key(ROBBED)}:lock") == 1
        assert first.renew(ROBBED, f"{ONE}:3") == 0
        add(redis, f"{CANARY}-dirty")
        assert "ERR" in other.call("moveToActive-11", talk.pick(f"{CANARY}:9", 0))
        assert second.renew(ROBBED, f"{TWO}:2") == 0
    wait_line(proxy, op="renew", client_name=f"{CANARY}-two", job=ROBBED)


def _taken_over(redis: RedisServer, proxy: EmqProxy, first: Hand, second: Hand, other: Hand) -> None:
    add(redis, TAKEN_OVER)
    assert first.pick(f"{ONE}:2", 60) == TAKEN_OVER
    wait_line(proxy, op="lapse", job=TAKEN_OVER)
    eventually(lambda: other.call("moveStalledJobsToWait-9", talk.sweep()), 10, "a sweep that names the job")
    assert second.pick(f"{TWO}:1") == TAKEN_OVER
    assert first.wire.call("PING") in (b"PONG", "PONG")
    assert first.renew(TAKEN_OVER, f"{ONE}:2") == 0
    assert first.finish(TAKEN_OVER, f"{ONE}:2") == -6
    assert second.finish(TAKEN_OVER, f"{TWO}:1") == 0


def real_journal(redis: RedisServer, *args: str) -> tuple[bytes, list[dict[str, Any]]]:
    """Its bytes, and its lines."""
    proxy = sidecar(f"redis://127.0.0.1:{redis.port}", *args)
    try:
        play(redis, proxy)
        return proxy.journal_path.read_bytes(), proxy.journal()
    finally:
        proxy.stop()
