"""Scenarios S25 (its end), S41 and S42: what only time tells, with calls on a real Redis and the clock read ahead; and
told again from the journal, by the journal's own time.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emqproxy.proxy import clock
from emqproxy.records import Record
from emqproxy.replay_report import Difference, Rejudging
from tests.processes import RedisServer
from tests.proxy.test_witness import House, Wire, within
from tests.scenarios.play import SHORT_MS, Play, stage
from tests.scripts import talk
from tests.scripts.talk import PREFIX, finish, keys, pick, renew, sweep, text_of, words
from tests.shadowed import write_journal

S = 10**9
DAY_MS = 86_400_000


def watched(house: House, after_s: int) -> list[Record]:
    """The lines that time has brought after so long."""
    before, then = len(house.lines), clock.now() + after_s * S
    house.witness.teller.tell(house.ledger.tick(then), then)
    house.witness.teller.watch(then)
    return [record for record in house.lines[before:] if record.line.op == "watch"]


def rejudged(journal: bytes) -> tuple[list[Difference], list[str]]:
    """What `replay` says otherwise, and of the journal itself."""
    rejudging = Rejudging()
    found = [each for raw in journal.splitlines() for each in rejudging.take(raw)]
    return [*found, *rejudging.end()], rejudging.notes


def told_again(house: House, folder: Path, cause: str, number: int = 1) -> None:
    """Its journal gives the same again, and a `watch` line that says another thing is found."""
    journal = write_journal(folder / "journal", *house.lines).read_bytes()
    assert journal.count(f'"cause":"{cause}"'.encode()) == number
    assert [each for each in rejudged(journal)[0] if each.is_verdict] == []
    other = "hung_processor" if cause == "no_sweeper" else "no_sweeper"
    found, _ = rejudged(journal.replace(f'"cause":"{cause}"'.encode(), f'"cause":"{other}"'.encode()))
    told = [(each.line.op, each.what, each.then, each.now) for each in found if each.is_verdict]
    assert told == [("watch", "cause", other, cause)] * number


@pytest.mark.parametrize("number", [1, 3])
def test_s41_a_sweeper_that_died_is_told_by_its_own_interval(
    redis_session: RedisServer, tmp_path: Path, number: int
) -> None:
    """So many sweepers: each says its interval, and as many intervals later none is alive."""

    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "moveStalledJobsToWait-9")
        wire.add("1")
        wire.ask(pick("t:1", 60))
        sweepers = [wire, *(Wire(house, conn) for conn in range(2, number + 1))]
        for sweeper in sweepers:
            sweeper.ask(sweep(guard_ms=300_000))
        assert watched(house, 599) == []
        (told,) = watched(house, 601)
        assert told.cause == "no_sweeper"
        assert "one is due every 300.0 s there" in (told.because or "")
        for sweeper in sweepers[1:]:
            sweeper.sock.close()
        told_again(house, tmp_path, "no_sweeper")

    within(redis_session, test)


def test_a_watch_line_that_no_rule_gives_is_a_difference(redis_session: RedisServer, tmp_path: Path) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "moveStalledJobsToWait-9")
        wire.add("1")
        wire.ask(pick("t:1", 60))
        (told,) = watched(house, 3_600)
        journal = write_journal(tmp_path / "journal", *house.lines).read_bytes()
        early = str(told.verdict.fact.window.closed).encode()
        found, _ = rejudged(journal.replace(early, str(clock.now() + S).encode()))
        assert [(each.what, each.then, each.now) for each in found] == [("cause", "no_sweeper", "none")]
        *others, watch = journal.splitlines(keepends=True)
        assert b'"op":"watch"' in watch
        later = json.loads(others[-1])
        assert later["op"] == "lapse"
        later |= {"op": "write", "effect": "untouched", "seq": told.seq, "finding": None, "scope": None}
        later |= dict.fromkeys(("opened_ns", "closed_ns"), told.verdict.fact.window.closed + 40 * S)
        found, notes = rejudged(b"".join([*others, json.dumps(later).encode()]))
        assert found == []
        assert notes == ["1 things would be told today that the journal does not tell (no_sweeper)"]

    within(redis_session, test)


def test_s41_nobody_sweeps(redis_session: RedisServer, tmp_path: Path) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "moveStalledJobsToWait-9")
        wire.add("1")
        wire.ask(pick("t:1", 60))
        assert watched(house, 1) == []
        assert [record.cause for record in watched(house, 3_600)] == ["no_sweeper"]
        assert watched(house, 3_700) == [], "once"
        told_again(house, tmp_path, "no_sweeper")

    within(redis_session, test)


def test_s25_a_sweep_that_fails_is_none(redis_session: RedisServer, tmp_path: Path) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "moveStalledJobsToWait-9")
        wire.add("1")
        wire.ask(pick("t:1", 60))
        names = ("stalled", "wait", "active", "failed", "stalled-check", "meta", "paused", "marker", "events")
        shifted = words("EVAL", text_of("moveStalledJobsToWait-9"), keys(*names), 1, PREFIX, 1_700_000_000_000)
        assert [record.cause for record in watched(house, 3_600)] == ["no_sweeper"]
        wire.ask(shifted)
        assert house.lines[-1].cause == "script_mismatch"
        told_again(house, tmp_path, "no_sweeper")

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


def test_s42_a_processor_that_hangs(redis_session: RedisServer, tmp_path: Path) -> None:
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
        told_again(house, tmp_path, "hung_processor")

    within(redis_session, test)


def test_s41_the_last_sweeper_of_a_live_sidecar_dies() -> None:
    """In real time: its interval is 1.2 s, and two of them later its end is told; `stage` judges the journal again."""
    with RedisServer() as redis, stage(redis) as proxy:
        play = Play(redis, proxy)
        play.owner("a:1", SHORT_MS)
        play.lapsed()
        assert play.hand().call("moveStalledJobsToWait-9", talk.sweep(guard_ms=1_200)) == []
        swept = play.lines("sweep")[-1]["closed_ns"]
        told = proxy.wait_journal(lambda line: line["op"] == "watch", 30)
        assert (told["cause"], told["job"]) == ("no_sweeper", play.job)
        assert "one is due every 1.2 s there, as the sweeps say themselves" in told["because"]
        assert told["closed_ns"] - swept >= 2_400_000_000
        play.close()
