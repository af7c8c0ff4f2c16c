"""How late our own loop is, and that nobody else is blamed for it."""

from __future__ import annotations

import asyncio
import time

import uvloop

from emqproxy.locks.events import Window
from emqproxy.proxy import clock
from emqproxy.proxy.clock import BEAT_S, LoopLag
from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.wires import ask, dial, exactly, until
from tests.scripts.talk import keys, lock, pick, renew, text_of
from tests.session.talk import words

MS = 1_000_000


def spin(seconds: float) -> None:
    """Keeps the loop busy."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_a_quiet_loop_has_next_to_no_lag():
    async def run() -> list[int]:
        lag = LoopLag()
        lag.start()
        seen = []
        for _ in range(20):
            await asyncio.sleep(BEAT_S / 2)
            seen.append(lag.lag_ns(clock.now()))
        lag.stop()
        return seen

    seen = uvloop.run(run())
    assert min(seen) < 5 * MS
    assert sorted(seen)[len(seen) // 2] < 30 * MS  # the machine may be busy with others


def test_a_blocked_loop_is_measured_before_and_after_its_beat():
    async def run() -> tuple[int, int, int]:
        lag = LoopLag()
        lag.start()
        await asyncio.sleep(3 * BEAT_S)
        spin(0.3)
        before = lag.lag_ns(clock.now())  # a read that comes before the beat
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        after = lag.lag_ns(clock.now())  # one that comes right behind it
        await asyncio.sleep(15 * BEAT_S)
        late = lag.lag_ns(clock.now())
        lag.stop()
        return before, after, late

    before, after, late = uvloop.run(run())
    assert 250 * MS < before < 2_000 * MS
    assert 250 * MS < after < 2_000 * MS
    assert late < 100 * MS


def test_it_stops():
    async def run() -> None:
        lag = LoopLag()
        lag.stop()  # without a start
        lag.start()
        lag.stop()

    uvloop.run(run())


def test_a_renewal_that_lay_unread_while_we_stood_still_is_not_late(redis_session: RedisServer, proxy: EmqProxy):
    prefix, queue, ttl_ms = b"emq:frozen:", "frozen", 3_000

    def sent(parts: list[bytes | None]) -> bytes:
        return words(*filter(None, parts))

    with dial(proxy.port) as client:
        for label in ("moveToActive-11", "extendLock-2"):
            client.sendall(words("SCRIPT", "LOAD", text_of(label)))
            exactly(client, 47)
        ask(client, "HSET", prefix + b"1", "name", "n", "opts", "{}", answer=b":2\r\n")
        ask(client, "LPUSH", prefix + b"wait", "1", answer=b":1\r\n")
        client.sendall(sent(pick("t:1", ttl_ms, prefix)) + words("ECHO", "picked"))
        got = b""
        while not got.endswith(b"$6\r\npicked\r\n"):
            got += client.recv(65_536)
        extend = renew("1", "t:1", ttl_ms)
        extend[3:5] = [lock("1", prefix).key, *keys("stalled", prefix=prefix)]

        ask(client, "PING", answer=b"+PONG\r\n")
        taken = time.monotonic()
        proxy.freeze()
        client.sendall(sent(extend))  # in time: it is we who stand still, past 0.80 of the lock
        eventually(lambda: time.monotonic() - taken > 0.83 * ttl_ms / 1000)
        proxy.thaw()
        assert exactly(client, 4) == b":1\r\n"
    line = proxy.wait_journal(lambda line: line["queue"] == queue and line["op"] == "renew")
    assert (line["outcome"], line["grade"], line["finding"]) == ("ok", "on_time", "sound")
    assert line["lag_us"] > 1_000_000


def test_a_pause_is_told_with_its_bounds():
    """A blocked loop tells from when to when it stood still."""
    pauses: list[Window] = []

    async def run() -> None:
        lag = LoopLag(pauses.append)
        lag.start()
        began = clock.now()
        spin(0.15)
        await until(lambda: bool(pauses))
        lag.stop()
        assert pauses[-1].closed - pauses[-1].opened > 100_000_000
        assert began < pauses[-1].closed <= clock.now()
        assert list(lag.pauses) == pauses, "kept for whoever tells them on"

    uvloop.run(run())
