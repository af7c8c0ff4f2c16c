"""Adds, writes, removals and hands on lock keys, from bytes to records: on a real Redis, with the ledger behind."""

from __future__ import annotations

import msgpack
import pytest

from emqproxy.locks.events import Lapsed, Queue
from emqproxy.proxy import clock
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.session.exchange import Word
from tests.processes import RedisServer
from tests.proxy.test_witness import House, Wire, within
from tests.scripts.talk import PREFIX, Conversation, evalsha, finish, keys, lock, pick, renew, sha_of

ADD_KEYS = ("wait", "paused", "meta", "id", "completed", "delayed", "active", "events", "marker")
KEY = lock("1").key
HOUR_NS = 3_600 * 10**9


def add() -> list[Word]:
    packed = msgpack.packb([PREFIX.decode(), "", "resize", 17, None, None, None, None, None])
    return evalsha(sha_of("addStandardJob-9"), keys(*ADD_KEYS), packed, '{"secret":"canary"}', msgpack.packb({}))


def remove(job: str, children: str = "0") -> list[Word]:
    return evalsha(sha_of("removeJob-2"), keys(job, "repeat"), job, children, PREFIX)


def progress(job: str) -> list[Word]:
    return evalsha(sha_of("updateProgress-3"), keys(job, "events", "meta"), job, "canary")


def lapses(house: House, after_ns: int) -> list[str]:
    """What time would bring."""
    said = house.ledger.tick(clock.now() + after_ns)
    return [type(verdict.fact).__name__ for verdict in said if isinstance(verdict.fact, Lapsed)]


def test_a_jobs_whole_life_is_told_and_none_of_its_data(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("addStandardJob-9", "moveToActive-11", "updateProgress-3", "removeJob-2", "moveToFinished-14")
        wire.ask(add())
        wire.ask(pick("t:1"))
        wire.ask(progress("1"))
        wire.ask(remove("1"))
        wire.ask(finish("1", "t:1"))
        wire.ask(remove("1"))
        assert house.told == [
            ("add", "ok", "catalogue"),
            ("acquire", "ok", "catalogue"),
            ("write", "ok", "catalogue"),
            ("remove", "refused", "catalogue"),
            ("finish", "ok", "catalogue"),
            ("remove", "ok", "catalogue"),
        ]
        assert {record.verdict.fact.lock for record in house.records} == {lock("1")}  # type: ignore[union-attr]
        assert "canary" not in repr(house.records)

    within(redis_session, test)


def test_ten_thousand_adds_leave_no_account(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("addStandardJob-9", "updateProgress-3", "removeJob-2")
        for _ in range(10):
            for _ in range(1_000):
                wire.send(*(part for part in add() if part is not None))
            wire.settle()
            house.bus._waiting.clear()
        for number in range(1, 200):
            wire.ask(progress(f"{number}"))
            wire.ask(remove(f"{number}"))
        assert len(house.ledger) == 0
        assert house.told[-1] == ("remove", "ok", "catalogue")

    within(redis_session, test)


def test_after_a_pexpire_by_hand_no_lapse_is_told_at_the_old_deadline(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "extendLock-2")
        wire.add("1")
        wire.ask(pick("t:1", 2_000))
        wire.ask([b"pexpire", KEY, b"600000"])
        record = house.records[-1]
        assert (record.line.code, record.call and record.call.script) == (1, "PEXPIRE")
        wire.ask(renew("1", "t:1", 2_000))
        wire.ask([b"PEXPIRE", KEY, b"600000"])
        assert house.told[-2:] == [("renew", "ok", "catalogue"), ("raw", "ok", "")]
        assert lapses(house, 60 * 10**9) == []

    within(redis_session, test)


def test_a_lock_deleted_by_hand_ends_its_attempt(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11")
        wire.add("1")
        wire.ask(pick("t:1"))
        wire.ask([b"DEL", KEY, b"other"])
        record = house.records[-1]
        assert (record.line.op, record.line.code) == ("raw", 1)
        (over,) = record.verdict.over
        assert over.end is not None
        assert over.end.value == "wiped"
        assert lapses(house, HOUR_NS) == []

    within(redis_session, test)


def test_an_unknown_script_on_a_lock_is_told_and_counted(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11")
        wire.add("1")
        wire.ask(pick("t:1", 2_000))
        wire.ask([b"EVAL", b"return redis.call('PEXPIRE', KEYS[1], 600000)", b"1", KEY])
        assert house.told[-1] == ("raw", "ok", "")
        assert house.unrecognised.count == 1
        assert lapses(house, 60 * 10**9) == []

    within(redis_session, test)


@pytest.mark.parametrize("queue", [b"emq:orders:", b"bull:orders:", b"{br:ace}:x:orders:", b"emq:orders:eu:"])
@pytest.mark.parametrize("job", ["a:b:c", "a:wait", "x:lock", "repeat:nightly:17"])
def test_every_line_of_a_job_names_its_queue(redis_session: RedisServer, queue: bytes, job: str) -> None:
    key = queue + job.encode()
    held = lock(job, queue)
    aside = Conversation(redis_session.port, Catalogue())
    aside.add(job, prefix=queue)
    aside.close()

    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "extendLock-2", "updateData-1", "saveStacktrace-1", "addLog-2", "releaseLock-1")
        wire.ask(pick("t:1", prefix=queue))
        wire.ask(evalsha(sha_of("updateData-1"), [key], "{}"))
        wire.ask(evalsha(sha_of("saveStacktrace-1"), [key], "[]", "no"))
        wire.ask(evalsha(sha_of("addLog-2"), [key, key + b":logs"], job, "hello", ""))
        wire.ask(evalsha(sha_of("extendLock-2"), [held.key, b"stalled"], "t:1", 30_000, ""))
        house.witness.teller.tell(house.ledger.tick(clock.now() + HOUR_NS), clock.now())
        wire.ask(evalsha(sha_of("releaseLock-1"), [held.key], "t:1", 30_000))
        ops = [record.line.op for record in house.records]
        assert ops == ["acquire", "write", "write", "write", "renew", "lapse", "release"]
        assert {record.line.outcome for record in house.records} == {"ok", "told"}
        facts = [record.verdict.fact for record in house.records]
        assert {(fact.lock, fact.queue) for fact in facts} == {(held, Queue(0, queue))}  # type: ignore[union-attr]

    within(redis_session, test)
