"""Scenarios S25 (its end), S41 and S42: what only time tells, with calls on a real Redis and the clock read ahead."""

from __future__ import annotations

from emqproxy.proxy import clock
from emqproxy.records import Record
from tests.processes import RedisServer
from tests.proxy.test_witness import House, Wire, within
from tests.scripts.talk import PREFIX, finish, keys, pick, renew, sweep, text_of, words

S = 10**9
DAY_MS = 86_400_000


def watched(house: House, after_s: int) -> list[Record]:
    """The lines that time has brought after so long."""
    before, then = len(house.lines), clock.now() + after_s * S
    house.witness.teller.tell(house.ledger.tick(then), then)
    house.witness.teller.watch(then)
    return [record for record in house.lines[before:] if record.line.op == "watch"]


def test_s41_nobody_sweeps(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "moveStalledJobsToWait-9")
        wire.add("1")
        wire.ask(pick("t:1", 60))
        assert watched(house, 1) == []
        assert [record.cause for record in watched(house, 3_600)] == ["no_sweeper"]
        assert watched(house, 3_700) == [], "once"

    within(redis_session, test)


def test_s25_a_sweep_that_fails_is_none(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "moveStalledJobsToWait-9")
        wire.add("1")
        wire.ask(pick("t:1", 60))
        names = ("stalled", "wait", "active", "failed", "stalled-check", "meta", "paused", "marker", "events")
        shifted = words("EVAL", text_of("moveStalledJobsToWait-9"), keys(*names), 1, PREFIX, 1_700_000_000_000)
        assert [record.cause for record in watched(house, 3_600)] == ["no_sweeper"]
        wire.ask(shifted)
        assert house.lines[-1].cause == "script_mismatch"

    within(redis_session, test)


def test_s26_a_queue_that_is_swept_has_a_sweeper(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "moveStalledJobsToWait-9")
        wire.add("1")
        wire.ask(pick("t:1", 60))
        assert watched(house, 1) == []
        wire.ask(sweep(guard_ms=60_000))
        wire.ask(sweep(guard_ms=60_000))
        assert {record.cause for record in house.lines} == {None}

    within(redis_session, test)


def test_s42_a_processor_that_hangs(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "extendLock-2", "moveToFinished-14")
        for number in range(5):  # what is usual here
            wire.add(f"usual{number}")
            wire.ask(pick(f"t:{number}"))
            wire.ask(finish(f"usual{number}", f"t:{number}"))
        wire.add("1")
        wire.ask(pick("t:9", DAY_MS))
        for _ in range(3):
            wire.ask(renew("1", "t:9", DAY_MS))
        (line,) = watched(house, 3_600)
        assert line.cause == "hung_processor"
        assert watched(house, 3_700) == [], "once"
        assert {record.cause for record in house.records if record.line.op != "watch"} == {None}
        wire.ask(finish("1", "t:9"))
        assert house.told[-1] == ("finish", "ok", "catalogue"), "nothing was lost"

    within(redis_session, test)
