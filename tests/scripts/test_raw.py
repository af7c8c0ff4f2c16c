"""Hands on lock keys, on a real Redis: what each answer proves of the key, and which commands count as one."""

from __future__ import annotations

from typing import Any

import pytest

from emqproxy.locks.events import Absent, Deleted, Lock, LockFact, Overwrite, Overwritten, Queue, Untouched
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.raw import Hand
from emqproxy.session.exchange import LOST, NOT_RUN, ErrorReply, Reply
from tests.processes import RedisServer
from tests.scripts.talk import AT, PREFIX, QUEUE, Conversation, command, exchange, lock, read, renew, text_of

KEY = lock("1").key
OTHER = lock("2").key
GONE = b"emq:orders:3:lock"
"""Nothing stands there."""
Proof = type[Absent | Deleted | Overwritten | Untouched]
T: dict[str, Proof] = {"absent": Absent, "deleted": Deleted, "overwritten": Overwritten, "untouched": Untouched}

ROWS: list[tuple[list[object], str]] = [
    # What is sent; what it proves of each lock key that it names, in order. Key 1 and 2 hold a token, 3 nothing.
    (["DEL", KEY], "deleted"),
    (["del", KEY, OTHER], "deleted deleted"),
    (["DEL", KEY, GONE], "deleted deleted"),
    (["DEL", KEY, KEY], "deleted"),
    (["DEL", GONE], "absent"),
    (["UNLINK", KEY, "emq:orders:1"], "deleted"),
    (["UNLINK", GONE], "absent"),
    (["GETDEL", KEY], "deleted"),
    (["GETDEL", GONE], "deleted"),
    (["SET", KEY, "x"], "overwritten"),
    (["SET", KEY, "x", "PX", 500], "overwritten"),
    (["SET", KEY, "x", "NX"], "untouched"),
    (["SET", GONE, "x", "xx"], "untouched"),
    (["SET", KEY, "x", "NX", "GET"], "overwritten"),
    (["SETEX", KEY, 5, "x"], "overwritten"),
    (["PSETEX", KEY, 5000, "x"], "overwritten"),
    (["SETNX", KEY, "x"], "untouched"),
    (["SETNX", GONE, "x"], "overwritten"),
    (["GETSET", KEY, "x"], "overwritten"),
    (["GETEX", KEY, "PX", 500], "overwritten"),
    (["GETEX", KEY, "PERSIST"], "overwritten"),
    (["EXPIRE", KEY, 60], "overwritten"),
    (["PEXPIRE", KEY, 60_000], "overwritten"),
    (["PEXPIRE", KEY, 0], "overwritten"),
    (["PEXPIRE", GONE, 60_000], "untouched"),
    (["EXPIREAT", KEY, 4_000_000_000], "overwritten"),
    (["PEXPIREAT", KEY, 4_000_000_000_000], "overwritten"),
    (["PERSIST", KEY], "overwritten"),
    (["PERSIST", GONE], "untouched"),
    (["RENAME", KEY, "elsewhere"], "deleted"),
    (["RENAME", KEY, OTHER], "deleted overwritten"),
    (["RENAME", "emq:orders:1", KEY], "overwritten"),
    (["RENAME", GONE, KEY], "untouched untouched"),
    (["RENAMENX", KEY, OTHER], "untouched untouched"),
    (["RENAMENX", KEY, GONE], "deleted overwritten"),
    (["COPY", KEY, "elsewhere"], ""),
    (["COPY", KEY, OTHER], "untouched"),
    (["COPY", KEY, OTHER, "REPLACE"], "overwritten"),
    (["MSET", KEY, "x", "other", "y"], "overwritten"),
    (["MSETNX", KEY, "x", "other", "y"], "untouched"),
    (["APPEND", KEY, "x"], "overwritten"),
    (["SETRANGE", KEY, 0, "x"], "overwritten"),
    (["RESTORE", KEY, 0, "junk", "REPLACE"], "untouched"),
    (["SET", KEY], "untouched"),
    (["SET", KEY, "x", "FOO"], "untouched"),
    (["PEXPIRE", KEY, "soon"], "untouched"),
    (["XGROUP", "NONSENSE", KEY, "g"], "untouched"),
    (["BITFIELD", KEY, "GET", "u8", 0], ""),
    (["BITFIELD", KEY, "set", "u8", 0, 65], "overwritten"),
    (["BITFIELD", KEY, "set\0x", "u8", 0, 65], "overwritten"),
    (["BITFIELD", KEY, "OVERFLOW", "SAT", "INCRBY", "u8", 0, 1], "overwritten"),
    (["BITFIELD", KEY, "SET", "u8", 0, 999, "GET"], "untouched"),
    (["LMOVE", "nothing", KEY, "LEFT", "LEFT"], "untouched"),
    (["BLMOVE", "nothing", KEY, "LEFT", "LEFT", 0.01], "untouched"),
    (["BRPOPLPUSH", "nothing", GONE, 0.01], "untouched"),
    (["RPOPLPUSH", "list", GONE], "overwritten"),
    (["MIGRATE", "127.0.0.1", 1, KEY, 0, 10], "overwritten"),
    (["HSET", KEY, "a", "b"], "untouched"),
    (["SADD", KEY, "a"], "untouched"),
]


def hand(catalogue: Catalogue, sent: list[object]) -> Hand | None:
    found = catalogue.recognise(command([part if isinstance(part, bytes) else str(part).encode() for part in sent]))
    return found if isinstance(found, Hand) else None


@pytest.mark.parametrize(("sent", "proofs"), ROWS, ids=lambda value: str(value)[:60])
def test_what_each_answer_proves(
    redis_session: RedisServer, catalogue: Catalogue, sent: list[Any], proofs: str
) -> None:
    talk = Conversation(redis_session.port, catalogue)
    try:
        for job in ("1", "2"):
            talk.redis("SET", lock(job).key, f"{job}:1", "PX", 30_000)
        talk.redis("HSET", PREFIX + b"1", "name", "n")
        talk.redis("RPUSH", "list", "x")
        if not proofs:
            assert hand(catalogue, sent) is None
            return
        before = {key: talk.redis("GET", key) for key in (KEY, OTHER, GONE)}
        told = talk.ask([part if isinstance(part, bytes) else str(part).encode() for part in sent])
        happenings = [h for h in told if h.line is None or h.line.target is None]  # what it does beside is another's
        assert [type(h.fact) for h in happenings] == [T[word] for word in proofs.split()]
        for happening in happenings:
            fact = happening.fact
            assert isinstance(fact, LockFact)
            assert (fact.queue, fact.token) == (QUEUE, b"")
            after = talk.redis("GET", fact.lock.key)
            if isinstance(fact, Absent):
                assert before[fact.lock.key] is after is None
            elif isinstance(fact, Deleted):
                assert after is None
            elif isinstance(fact, Untouched):
                assert after == before[fact.lock.key]
            assert happening.line is not None
            assert happening.line.op == "raw"
    finally:
        talk.close()


def test_a_lease_that_was_moved_to_another_database(talk: Conversation) -> None:
    talk.redis("SET", KEY, "1:1")
    gone, arrived = talk.ask([b"MOVE", KEY, b"5"])
    assert isinstance(gone.fact, Deleted)
    assert isinstance(arrived.fact, Overwritten)
    assert (gone.fact.lock, arrived.fact.lock, arrived.fact.queue) == (Lock(0, KEY), Lock(5, KEY), Queue(5, PREFIX))
    talk.redis("SET", KEY, "1:1")
    (copied,) = talk.ask([b"COPY", KEY, OTHER, b"DB", b"6"])
    assert isinstance(copied.fact, Overwritten)
    assert copied.fact.lock == Lock(6, OTHER)


@pytest.mark.parametrize(
    "sent",
    [
        ["GET", KEY],
        ["PTTL", KEY],
        ["EXISTS", KEY],
        ["GETEX", KEY],
        ["RENAME", KEY, KEY],
        ["DEL", "emq:orders:1"],
        ["DEL", "emq:orders:lock"],
        ["DEL", "emq::lock"],
        ["DEL", "mine:orders:1:lock"],
        ["SET", "note", KEY],
        ["HSET", "emq:orders:1", KEY, "x"],
        ["LPUSH", "emq:orders:wait", KEY],
        ["EVAL_RO", "return 1", 1, KEY],
        ["FCALL_RO", "peek", 1, KEY],
        ["EVAL", "return 1", 0, KEY],
        ["EVAL", "return 1", "x", KEY],
        ["SCRIPT", "LOAD", KEY],
    ],
    ids=str,
)
def test_what_is_no_hand_on_a_lock(catalogue: Catalogue, sent: list[object]) -> None:
    assert hand(catalogue, sent) is None


def test_prefixes_bound_what_counts_as_a_locks_key() -> None:
    found = hand(Catalogue(("{b}", "shop")), ["DEL", "{b}:q:x:4:lock", "shop:mail:7:lock", KEY])
    assert found is not None
    assert [(key.key, key.prefix) for key in found.keys] == [
        (b"{b}:q:x:4:lock", b"{b}:q:"),
        (b"shop:mail:7:lock", b"shop:mail:"),
    ]


def test_a_hand_is_in_flight_on_each_key(catalogue: Catalogue) -> None:
    found = hand(catalogue, ["DEL", KEY, OTHER])
    assert found is not None
    assert found.intents(AT, 2) == (
        Overwrite(AT, QUEUE._replace(db=2), lock("1", db=2), b""),
        Overwrite(AT._replace(part=1), QUEUE._replace(db=2), lock("2", db=2), b""),
    )
    assert found.script.label == "DEL"


@pytest.mark.parametrize(
    ("reply", "proof", "outcome", "code"),
    [
        (1, Deleted, "ok", 1),
        (0, Absent, "ok", 0),
        (b"QUEUED", Overwritten, "ok", None),
        (LOST, Overwritten, "unknown", None),
        (NOT_RUN, Untouched, None, None),
        (ErrorReply(b"READONLY no"), Untouched, "error", None),
        (ErrorReply(b"ERR what"), Untouched, "error", None),
    ],
    ids=str,
)
def test_the_line_of_a_deletion(
    catalogue: Catalogue, reply: Reply, proof: Proof, outcome: str | None, code: int | None
) -> None:
    found = hand(catalogue, ["DEL", KEY])
    assert found is not None
    (happening,) = read(found, exchange([b"DEL", KEY], reply))
    assert type(happening.fact) is proof
    line = happening.line
    assert (line and line.outcome, line and line.code) == (outcome, code)


# ---------------------------------------------------------------- scripts that nobody knows

TEXT = b"redis.call('SET', KEYS[1], 'mine') return 7"


@pytest.mark.parametrize("name", ["EVAL", "EVALSHA", "FCALL"])
def test_an_unknown_script_may_have_done_anything_to_the_locks_it_names(talk: Conversation, name: str) -> None:
    sha = talk.redis("SCRIPT", "LOAD", TEXT)
    assert isinstance(sha, bytes)
    grab = b"function(KEYS) redis.call('SET', KEYS[1], 'x') return 7 end"
    library = b"#!lua name=lib\nredis.register_function('grab', %s)" % grab
    talk.redis("FUNCTION", "LOAD", library)
    code = {"EVAL": TEXT, "EVALSHA": sha, "FCALL": b"grab"}[name]
    talk.redis("SET", KEY, "a:1")
    (happening,) = talk.ask([name.encode(), code, b"2", KEY, PREFIX + b"wait", OTHER])
    assert isinstance(happening.fact, Overwritten)
    assert happening.fact.lock == lock("1")
    assert happening.line is not None
    assert (happening.line.op, happening.line.outcome, happening.line.code) == ("raw", "ok", None)
    assert talk.operation is not None
    script = talk.operation.script
    assert (script.label, script.match, script.sha) == ("", "", "" if name == "FCALL" else sha.decode())
    assert talk.redis("GET", KEY) != b"a:1"


def test_a_script_that_was_not_there_did_nothing(talk: Conversation) -> None:
    (happening,) = talk.ask([b"EVALSHA", b"f" * 40, b"1", KEY])
    assert isinstance(happening.fact, Untouched)
    assert happening.line is None


@pytest.mark.parametrize(
    ("sent", "proof"),
    [
        (["EVAL", "not lua(", 1, KEY], Untouched),
        (["EVAL", "#!lua flags=nonsense\nreturn 1", 1, KEY], Untouched),
        (["EVAL", "#!perl\nreturn 1", 1, KEY], Untouched),
        (["FCALL", "nowhere", 1, KEY], Untouched),
        (["EVAL", "return 1", 5, KEY], Untouched),
        (["EVAL", "return redis.call('nonsense')", 1, KEY], Overwritten),
        (["EVAL", "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1])", 1, KEY], Overwritten),
        (["EVAL", "redis.call('DEL', KEYS[1]) error('hm')", 1, KEY], Overwritten),
    ],
    ids=str,
)
def test_a_script_that_did_not_begin_did_nothing_one_that_failed_may_have(
    talk: Conversation, sent: list[object], proof: Proof
) -> None:
    talk.redis("SET", KEY, "a:1")
    (happening,) = talk.ask([part if isinstance(part, bytes) else str(part).encode() for part in sent])
    assert type(happening.fact) is proof
    assert happening.line is not None
    assert (happening.line.outcome, happening.line.code_name) == ("error", "ERR")
    assert proof is Overwritten or talk.redis("GET", KEY) == b"a:1"


@pytest.mark.parametrize(
    ("error", "name"),
    [("CANARYERR boom", "ERR"), ("MY_SECRET", "ERR"), ("ERR no", "ERR"), ("WRONGTYPE no", "WRONGTYPE")],
)
def test_a_strangers_own_word_for_an_error_is_told_to_nobody(talk: Conversation, error: str, name: str) -> None:
    (happening,) = talk.ask([b"EVAL", f"return redis.error_reply('{error}')".encode(), b"1", KEY])
    assert isinstance(happening.fact, Overwritten)
    assert (happening.line and happening.line.code_name) == name


def test_a_known_script_that_was_called_wrongly_keeps_its_name(talk: Conversation) -> None:
    talk.redis("SET", KEY, "a:1")
    (happening,) = talk.ask(renew("1", "a:1", "soon"))
    assert isinstance(happening.fact, Overwritten), "the error came from its middle: nothing is known"
    assert happening.line is not None
    assert (happening.line.op, happening.line.outcome) == ("raw", "error")
    assert talk.operation is not None
    assert (talk.operation.script.label, talk.operation.script.match) == ("extendLock-2", "catalogue")


def test_scripts_of_the_protocol_that_only_read_are_no_hands(catalogue: Catalogue) -> None:
    text = text_of("getState-8")
    assert hand(catalogue, ["EVAL", text, 1, KEY]) is None
