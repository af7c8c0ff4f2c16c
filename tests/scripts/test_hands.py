"""Hands on a queue's lists and jobs, on a real Redis: whom each command names, and whether Redis did what is told."""

from __future__ import annotations

from typing import Any

import pytest

from emqproxy.locks.events import LockFact, Nothing, Untouched
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.hands import TARGETS, ListHand
from emqproxy.scripts.raw import Hand
from emqproxy.session.exchange import LOST, NOT_RUN, ErrorReply, Reply
from tests.scripts.talk import AT, PREFIX, QUEUE, Conversation, command, exchange, lock, read

WAIT, ACTIVE, PAUSED, PRIORITIZED, DELAYED = (
    PREFIX + name for name in (b"wait", b"active", b"paused", b"prioritized", b"delayed")
)
JOB = PREFIX + b"1"

ROWS: list[tuple[list[object], str]] = [
    # What is sent; of which job and where it is told ("-": of no job), and the code. Jobs 1 and 2 are active, 3 waits,
    # 4 has a priority, 5 is delayed.
    (["LPUSH", WAIT, 1], "1 wait None"),
    (["RPUSH", WAIT, 1, 2], "1 wait None,2 wait None"),
    (["LPUSHX", WAIT, 1], "1 wait None"),
    (["RPUSHX", PAUSED, 1], "1 paused 0"),
    (["LINSERT", WAIT, "BEFORE", 3, 1], "1 wait None"),
    (["LINSERT", WAIT, "AFTER", 8, 1], "1 wait -1"),
    (["LSET", WAIT, 0, 1], "1 wait None"),
    (["LREM", ACTIVE, 0, 1], "1 active 1"),
    (["lrem", ACTIVE, 0, 9], "9 active 0"),
    (["LREM", WAIT, 0, 3], "3 wait 1"),
    (["ZADD", PRIORITIZED, 7, 1], "1 prioritized 1"),
    (["ZADD", PRIORITIZED, "NX", "CH", 7, 1, 8, 2], "1 prioritized 2,2 prioritized 2"),
    (["ZADD", DELAYED, 7, 1], "1 delayed 1"),
    (["ZINCRBY", PRIORITIZED, 7, 1], "1 prioritized None"),
    (["ZREM", PRIORITIZED, 4, 1], "4 prioritized 1,1 prioritized 1"),
    (["ZREM", DELAYED, 5], "5 delayed 1"),
    (["LPOP", ACTIVE], "1 active None"),
    (["RPOP", ACTIVE, 2], "2 active None,1 active None"),
    (["LMPOP", 1, ACTIVE, "LEFT", "COUNT", 2], "1 active None,2 active None"),
    (["LMPOP", 2, "nothing", ACTIVE, "RIGHT"], "2 active None"),
    (["BLPOP", "nothing", ACTIVE, 1], "1 active None"),
    (["BRPOP", ACTIVE, PREFIX + b"other", 1], "2 active None"),
    (["LMOVE", ACTIVE, WAIT, "LEFT", "LEFT"], "1 active None,1 wait None"),
    (["RPOPLPUSH", ACTIVE, WAIT], "2 active None,2 wait None"),
    (["BRPOPLPUSH", ACTIVE, "elsewhere", 1], "2 active None"),
    (["RPOPLPUSH", "list", WAIT], "7 wait None"),
    (["RPOPLPUSH", "nothing", WAIT], ""),
    (["LTRIM", ACTIVE, 5, 9], "- active None"),
    (["DEL", ACTIVE], "- active 1"),
    (["DEL", WAIT, "nothing"], "- wait None"),
    (["UNLINK", PAUSED], "- paused 0"),
    (["RENAME", WAIT, PAUSED], "- wait None,- paused None"),
    (["RENAME", "list", WAIT], "- wait None"),
    (["EXPIRE", ACTIVE, 100], "- active 1"),
    (["ZREMRANGEBYRANK", PRIORITIZED, 0, -1], "- prioritized 1"),
    (["SORT", ACTIVE, "STORE", WAIT], "- wait None"),
    (["ZUNIONSTORE", PRIORITIZED, 1, DELAYED], "- prioritized None"),
    (["COPY", WAIT, PAUSED], "- paused 1"),
    (["DEL", JOB], "1 job 1"),
    (["DEL", JOB, JOB], "1 job 1"),
    (["DEL", JOB, PREFIX + b"2"], "1 job 1,2 job 1"),
    (["UNLINK", JOB, PREFIX + b"9"], "1 job None,9 job None"),
    (["DEL", PREFIX + b"9"], "9 job 0"),
    (["RENAME", JOB, "elsewhere"], "1 job None"),
    (["RENAMENX", JOB, PREFIX + b"2"], "1 job 0"),
    (["MOVE", JOB, 5], "1 job 1"),
    (["DEL", PREFIX + b"repeat:every:1700000000000"], "repeat:every:1700000000000 job 0"),
]


def bytes_of(sent: list[Any]) -> list[bytes | None]:
    return [part if isinstance(part, bytes) else str(part).encode() for part in sent]


def stage(talk: Conversation) -> None:
    for job in ("1", "2"):
        talk.redis("HSET", PREFIX + job.encode(), "name", "n")
        talk.redis("RPUSH", ACTIVE, job)
    talk.redis("RPUSH", WAIT, "3")
    talk.redis("ZADD", PRIORITIZED, 1, "4")
    talk.redis("ZADD", DELAYED, 1, "5")
    talk.redis("RPUSH", "list", "7")


def where(talk: Conversation) -> dict[str, list[Reply]]:
    """What stands in each list, and which jobs have a key."""
    found: dict[str, Any] = {
        key.decode().rpartition(":")[2]: talk.redis("LRANGE", key, 0, -1) for key in (WAIT, ACTIVE, PAUSED)
    }
    found |= {key.decode().rpartition(":")[2]: talk.redis("ZRANGE", key, 0, -1) for key in (PRIORITIZED, DELAYED)}
    return found | {"job": [job for job in (b"1", b"2") if talk.redis("EXISTS", PREFIX + job) == 1]}


@pytest.mark.parametrize(("sent", "told"), ROWS, ids=lambda value: str(value)[:60])
def test_whom_a_command_names_and_what_it_did(talk: Conversation, sent: list[Any], told: str) -> None:
    stage(talk)
    before = where(talk)
    happenings = talk.ask(bytes_of(sent))
    after, said = where(talk), []
    for fact, line in happenings:
        assert line is not None
        assert (line.op, line.outcome) == ("raw", "ok")
        assert line.target is not None
        job = "-"
        if isinstance(fact, LockFact):
            job = fact.lock.key.removeprefix(PREFIX).removesuffix(b":lock").decode()
            assert type(fact) is Untouched
            assert (fact.lock, fact.queue, fact.token) == (lock(job), QUEUE, b"")
            if line.code == 0 or line.code == -1:
                assert before[line.target] == after[line.target]
        else:
            assert type(fact) is Nothing
            assert fact.queue == QUEUE
        assert line.target in TARGETS
        said.append(f"{job} {line.target} {line.code}")
    assert ",".join(said) == told
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {line.target for _, line in happenings if line is not None}


@pytest.mark.parametrize(
    "sent",
    [
        # What workers of old releases do, or looks on.
        ["BRPOPLPUSH", WAIT, ACTIVE, 1],
        ["RPOPLPUSH", WAIT, ACTIVE],
        ["LMOVE", PAUSED, WAIT, "LEFT", "RIGHT"],
        ["RPOP", WAIT],
        ["BZPOPMIN", PRIORITIZED, 1],
        ["ZPOPMIN", PRIORITIZED],
        ["SORT", ACTIVE],
        ["COPY", ACTIVE, "elsewhere"],
        ["LRANGE", ACTIVE, 0, -1],
        ["ZUNIONSTORE", "elsewhere", 1, PRIORITIZED],
        # What is no job's, and no list's.
        ["BZPOPMIN", PREFIX + b"marker", 1],
        ["LPUSH", PREFIX + b"completed", 1],
        [
            "DEL",
            PREFIX + b"meta",
            PREFIX + b"id",
            PREFIX + b"stalled-check",
            PREFIX + b"completed",
            PREFIX + b"limiter",
        ],
        ["DEL", JOB + b":logs", JOB + b":dependencies", JOB + b":processed"],
        ["DEL", PREFIX + b"metrics:completed:data", PREFIX + b"de:once", PREFIX + b"repeat", PREFIX + b"repeat:every"],
        ["DEL", b"emq:orders", b"mine:orders:1", b"emq::"],
        ["RENAME", WAIT, WAIT],
        ["RENAME", "elsewhere", JOB],
        ["HSET", JOB, "name", "m"],
        ["LPUSH", b"mine:orders:wait", 1],
        ["LPUSH", PREFIX + b"more:wait", 1],
    ],
    ids=str,
)
def test_what_is_no_hand(catalogue: Catalogue, sent: list[Any]) -> None:
    assert catalogue.recognise(command(bytes_of(sent))) is None


def test_a_job_and_its_lock_that_go_together_are_told_each(talk: Conversation) -> None:
    stage(talk)
    talk.redis("SET", lock("1").key, "a:1")
    gone, listed, job = talk.ask([b"DEL", JOB, lock("1").key, ACTIVE])
    assert isinstance(talk.operation, Hand)
    told = [(h.line.target, h.line.code) for h in (gone, listed, job) if h.line is not None]
    assert told == [(None, 3), ("active", 1), ("job", 1)]


@pytest.mark.parametrize(
    ("reply", "outcome"), [(LOST, "unknown"), (ErrorReply(b"READONLY no"), "error"), (b"QUEUED", "ok")], ids=str
)
def test_a_hand_whose_answer_says_little(catalogue: Catalogue, reply: Reply, outcome: str) -> None:
    for sent in ([b"LPUSH", WAIT, b"1"], [b"LPOP", ACTIVE], [b"BLPOP", ACTIVE, b"1"], [b"LTRIM", ACTIVE, b"0", b"1"]):
        found = catalogue.recognise(command(sent))
        assert isinstance(found, ListHand)
        assert found.intents(AT, 0) == ()
        told = read(found, exchange(sent, reply))
        assert {h.line.outcome for h in told if h.line is not None} <= {outcome}
        assert all(h.line is None for h in read(found, exchange(sent, NOT_RUN)))
