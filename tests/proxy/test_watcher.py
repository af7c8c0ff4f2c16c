"""Answers are looked at in turns: a flood costs its own connection's account time, and nobody else's turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from emqproxy import logs
from emqproxy.proxy import clock, watcher
from emqproxy.proxy.watched import Watched
from emqproxy.proxy.watcher import SLICE_BYTES_MIN, Watcher
from emqproxy.proxy.witness import Witness
from emqproxy.session.session import Session
from tests.processes import RedisServer
from tests.proxy.test_witness import House, Wire, within
from tests.scripts.talk import renew, sha_of
from tests.session.talk import words

RENEWAL = words(b"EVALSHA", sha_of("extendLock-2"), 2, b"emq:flood:1:lock", b"emq:flood:stalled", b"A:1", 30_000, b"1")
COUNT = 3_000


class Plant:
    """What a watcher needs of the house around it."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.limited = logs.RateLimited(logs.get())
        self.faults = 0


def flood(house: House, pause: Callable[[bool], None] = lambda _: None) -> Watcher:
    watcher = Watcher(Plant(house.witness), Watched(7, "c:7", Session()), pause)
    watcher.from_client(RENEWAL * COUNT, clock.now())
    return watcher


async def turns_until(done: asyncio.Event) -> int:
    """How many turns the loop gave to others meanwhile."""
    turns = 0
    while not done.is_set():
        await asyncio.sleep(0)
        turns += 1
    return turns


def test_answers_of_one_read_are_told_in_turns_and_in_order(redis_session: RedisServer) -> None:
    async def test(house: House, _: Wire) -> None:
        watcher, done = flood(house), asyncio.Event()
        watcher.from_server(b":0\r\n" * COUNT, clock.now())
        assert len(house.records) <= SLICE_BYTES_MIN // 4
        watcher.end(clock.now(), done.set)
        assert await turns_until(done) > COUNT * 4 // SLICE_BYTES_MIN
        assert [r.seq for r in house.records] == list(range(2, COUNT + 2)), "1 is the connection's own line"
        assert {r.line.outcome for r in house.records} == {"refused"}

    within(redis_session, test)


def test_what_was_never_answered_is_told_in_turns_too(redis_session: RedisServer) -> None:
    async def test(house: House, _: Wire) -> None:
        watcher, done = flood(house), asyncio.Event()
        watcher.end(clock.now(), done.set)
        assert not done.is_set()
        assert await turns_until(done) > 10
        assert {r.line.outcome for r in house.records} == {"unknown"}
        assert len(house.records) == COUNT
        assert len(house.ledger._flights) == 0

    within(redis_session, test)


def test_a_large_value_is_not_looked_at_in_crumbs() -> None:
    """Slices grow while nothing of interest is in them: 8 MB take far fewer turns than their KiB are."""

    async def run() -> None:
        watched = Watched(1, "c:1", Session())
        turns = 0
        session = watched.session
        session.from_client(words("GET", "big"), 1)
        watcher = Watcher(Plant(None), watched)  # type: ignore[arg-type]  nothing is recognised: nobody is asked
        watcher.from_server(b"$8000000\r\n" + b"v" * 8_000_000 + b"\r\n", 2)
        while not watcher.answered:
            await asyncio.sleep(0)
            turns += 1
        assert turns < 400

    uvloop.run(run())


def test_a_renewal_read_while_another_connection_floods_is_told_among_its_answers(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("extendLock-2")
        watcher, done = flood(house), asyncio.Event()
        watcher.from_server(b":0\r\n" * COUNT, clock.now())
        wire.ask(renew("2", "B:1", 30_000))
        mine = [r for r in house.records if r.peer is not None and r.peer.conn == 1]
        assert len(mine) == 1
        assert len(house.records) < COUNT
        watcher.end(clock.now(), done.set)
        await turns_until(done)

    within(redis_session, test)


def test_redis_is_not_read_while_too_much_waits(redis_session: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "BEHIND_BYTES_MAX", 4096)
    told: list[tuple[bool, int]] = []

    async def test(house: House, _: Wire) -> None:
        behind, done = flood(house, lambda paused: told.append((paused, len(house.records)))), asyncio.Event()
        for _piece in range(3):
            behind.from_server(b":0\r\n" * (COUNT // 3), clock.now())
        assert [paused for paused, _ in told] == [True]
        behind.end(clock.now(), done.set)
        await turns_until(done)
        assert len(house.records) == COUNT
        assert [paused for paused, _ in told] == [True, False]
        assert COUNT - 2048 // 4 <= told[1][1] < COUNT

    within(redis_session, test)


def test_redis_is_read_again_when_its_answers_make_no_sense(
    redis_session: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "BEHIND_BYTES_MAX", 4096)
    told: list[bool] = []

    async def test(house: House, _: Wire) -> None:
        behind, done = flood(house, told.append), asyncio.Event()
        behind.from_server(b":0\r\n" * 300 + b"@" * 8000 + b"\r\n", clock.now())
        behind.end(clock.now(), done.set)
        await turns_until(done)
        assert told == [True, False]

    within(redis_session, test)
