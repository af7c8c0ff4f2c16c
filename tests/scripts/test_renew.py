"""Renewals, one and in batches, asked of a real Redis; and what errors and silence leave open."""

from __future__ import annotations

import msgpack
import pytest

from emqproxy.locks.events import NoProof, NotMine, Perhaps, Place, Renew, Renewed
from emqproxy.records import Line
from emqproxy.scripts.operation import Happening
from emqproxy.scripts.unread import Unread
from emqproxy.session.exchange import LOST, NOT_RUN, SILENT, UNREAD, ErrorReply
from tests.scripts.talk import (
    AT,
    PREFIX,
    QUEUE,
    SPAN,
    TTL_MS,
    command,
    evalsha,
    exchange,
    keys,
    lock,
    pick,
    read,
    renew,
    renew_all,
    sha_of,
)

REFUSED = Line("renew", "refused", code=0, code_name="RenewRefused")


def at(part: int) -> Place:
    return Place(AT.conn, AT.request, part)


def test_one_renewal(talk):
    talk.add("1")
    talk.ask(pick("a:1"))
    about = (AT, SPAN, lock("1"), QUEUE)
    assert talk.ask(renew("1", "a:1", 5000)) == (Happening(Renewed(*about, b"a:1", 5000), Line("renew", "ok", code=1)),)
    assert talk.operation.intents(AT, 0) == (Renew(AT, QUEUE, lock("1"), b"a:1", 5000),)
    assert talk.ask(renew("1", "x", 5000)) == (Happening(NotMine(*about, b"x", True, 5000), REFUSED),)
    talk.redis("DEL", lock("1").key)
    assert talk.ask(renew("1", "a:1", 5000)) == (Happening(NotMine(*about, b"a:1", True, 5000), REFUSED),)


def test_a_wrong_type_of_the_stalled_key_comes_after_the_new_time_to_live(talk):
    talk.add("1")
    talk.ask(pick("a:1", 1000))
    talk.redis("SET", PREFIX + b"stalled", "x")
    (happening,) = talk.ask(renew("1", "a:1"))
    assert talk.redis("PTTL", lock("1").key) > 1000
    assert happening.fact == Perhaps(AT, SPAN, lock("1"), QUEUE, b"a:1", TTL_MS)
    assert (happening.line.outcome, happening.line.code_name) == ("error", "WRONGTYPE")


def test_out_of_memory_comes_before_any_write(talk):
    talk.add("1")
    talk.ask(pick("a:1"))
    talk.redis("CONFIG", "SET", "maxmemory", 1)
    try:
        (happening,) = talk.ask(renew("1", "a:1"))
    finally:
        talk.redis("CONFIG", "SET", "maxmemory", 0)
    assert happening.fact == NoProof(AT, SPAN, lock("1"), QUEUE, b"a:1")
    assert happening.line == Line("renew", "error", code_name="OOM")


def test_a_permission_missed_in_the_middle_leaves_it_open(talk):
    """The script may set the lock and not touch the stalled set: the error says that it comes from within."""
    talk.add("1")
    talk.ask(pick("a:1", 1000))
    talk.redis("ACL", "SETUSER", "half", "on", "nopass", "~*", "+@all", "-srem")
    try:
        talk.redis("AUTH", "half", "any")
        (happening,) = talk.ask(renew("1", "a:1"))
    finally:
        talk.redis("AUTH", "default", "")
        talk.redis("ACL", "DELUSER", "half")
    assert talk.redis("PTTL", lock("1").key) > 1000
    assert isinstance(happening.fact, Perhaps)
    assert happening.line.outcome == "error"


@pytest.mark.parametrize("reply", [LOST, SILENT, UNREAD, 2, -1, b"1", None, [], True], ids=repr)
def test_no_answer_or_a_strange_one_may_have_renewed(catalogue, reply):
    sent = renew("1", "a:1")
    (happening,) = read(catalogue.recognise(command(sent)), exchange(sent, reply))
    assert happening.fact == Perhaps(AT, SPAN, lock("1"), QUEUE, b"a:1", TTL_MS)
    assert happening.line.outcome == "unknown"


def test_noscript_is_a_retry_outside_exec_and_an_outcome_inside(catalogue):
    sent, error = renew("1", "a:1"), ErrorReply(b"NOSCRIPT No matching script.")
    operation, fact = catalogue.recognise(command(sent)), NoProof(AT, SPAN, lock("1"), QUEUE, b"a:1")
    assert read(operation, exchange(sent, error)) == (Happening(fact, None),)
    line = Line("renew", "error", code_name="NOSCRIPT")
    assert read(operation, exchange(sent, error, in_exec=True)) == (Happening(fact, line),)
    assert read(operation, exchange(sent, NOT_RUN, in_exec=True)) == (Happening(fact, None),)


@pytest.mark.parametrize(("raw", "told"), [(b"WRONGTYPE x", "WRONGTYPE"), (b"token:secret x", "ERR"), (b"", "ERR")])
def test_only_a_prefix_of_redis_is_told_of_an_error(catalogue, raw, told):
    sent = renew("1", "a:1")
    (happening,) = read(catalogue.recognise(command(sent)), exchange(sent, ErrorReply(raw)))
    assert happening.line.code_name == told


def test_a_batch_names_those_it_did_not_extend(talk):
    talk.add("1", "2", "3")
    for token in ("a:1", "a:2", "a:3"):
        talk.ask(pick(token))
    talk.redis("DEL", lock("2").key)
    happenings = talk.ask(renew_all(["1", "2", "3", "9"], ["a:1", "a:2", "x", "a:9"], 7000))
    refused = Line("renew", "refused", code=0, code_name="RenewRefused", batch_size=4)
    assert happenings == (
        Happening(Renewed(at(0), SPAN, lock("1"), QUEUE, b"a:1", 7000), Line("renew", "ok", batch_size=4)),
        Happening(NotMine(at(1), SPAN, lock("2"), QUEUE, b"a:2", True, 7000), refused),
        Happening(NotMine(at(2), SPAN, lock("3"), QUEUE, b"x", True, 7000), refused),
        Happening(NotMine(at(3), SPAN, lock("9"), QUEUE, b"a:9", True, 7000), refused),
    )
    assert [intent.place for intent in talk.operation.intents(AT, 0)] == [at(0), at(1), at(2), at(3)]
    assert talk.ask(renew_all([], [])) == ()


def test_ids_packed_as_numbers_are_the_same_jobs(talk):
    talk.add("1", "2")
    talk.ask(pick("a:1"))
    first, second = talk.ask(renew_all([1, 2.0], ["a:1", "a:1"]))
    assert first.fact == Renewed(at(0), SPAN, lock("1"), QUEUE, b"a:1", TTL_MS)
    assert second.fact == NotMine(at(1), SPAN, lock("2"), QUEUE, b"a:1", True, TTL_MS)


def test_an_id_named_twice_is_told_only_where_both_went_alike(talk):
    talk.add("1", "2")
    talk.ask(pick("a:1"))
    assert [type(h.fact) for h in talk.ask(renew_all(["1", "1"], ["a:1", "x"]))] == [Perhaps, Perhaps]
    assert [type(h.fact) for h in talk.ask(renew_all(["1", "1"], ["a:1", "a:1"]))] == [Renewed, Renewed]
    assert [type(h.fact) for h in talk.ask(renew_all(["2", "2"], ["a:1", "x"]))] == [NotMine, NotMine]


def test_an_id_without_a_token_cannot_be_extended(talk):
    talk.add("1", "2")
    talk.ask(pick("a:1"))
    first, second = talk.ask(renew_all(["1", "2"], ["a:1"]))
    assert isinstance(first.fact, Renewed)
    assert second.fact == NotMine(at(1), SPAN, lock("2"), QUEUE, b"", True, TTL_MS)


def test_an_error_in_the_middle_of_a_batch_may_come_after_any_id(talk):
    talk.add("1", "2")
    talk.ask(pick("a:1", 1000))
    talk.ask(pick("a:2", 1000))
    talk.redis("SET", PREFIX + b"stalled", "x")
    happenings = talk.ask(renew_all(["1", "2"], ["a:1", "a:2"]))
    assert talk.redis("PTTL", lock("1").key) > 1000 >= talk.redis("PTTL", lock("2").key)
    line = Line("renew", "error", code_name="WRONGTYPE", batch_size=2)
    assert happenings == (
        Happening(Perhaps(at(0), SPAN, lock("1"), QUEUE, b"a:1", TTL_MS), line),
        Happening(Perhaps(at(1), SPAN, lock("2"), QUEUE, b"a:2", TTL_MS), line),
    )


@pytest.mark.parametrize("reply", [LOST, 1, None, [b"7"], [b"1", b"1"], [None], [[b"1"]], {}], ids=repr)
def test_a_strange_answer_to_a_batch_may_have_renewed_all(catalogue, reply):
    sent = renew_all(["1", "2"], ["a:1", "a:2"])
    happenings = read(catalogue.recognise(command(sent)), exchange(sent, reply))
    assert [type(h.fact) for h in happenings] == [Perhaps, Perhaps]
    assert {h.line for h in happenings if h.line} == {Line("renew", "unknown", batch_size=2)}


@pytest.mark.parametrize(
    ("stalled", "key", "job_id", "prefix"),
    [
        (b"emq:orders:stalled", b"emq:orders:a:b:lock", b"a:b", b"emq:orders:"),
        (b"other:stalled", b"emq:orders:a:b:lock", b"a:b", b"emq:orders:"),
        (b"other:stalled", b"emq:orders:7:lock", b"8", b"emq:orders:"),
    ],
)
def test_the_queue_of_a_renewal(catalogue, stalled, key, job_id, prefix):
    sent = evalsha(sha_of("extendLock-2"), [key, stalled], "a:1", 1000, job_id)
    assert catalogue.recognise(command(sent)).intents(AT, 0)[0].queue.prefix == prefix


@pytest.mark.parametrize(
    ("tokens", "ids", "ttl_ms"),
    [(b"\xc1", msgpack.packb(["1"]), 1), (msgpack.packb(["a"]), b"", 1), (msgpack.packb(["a"]), msgpack.packb([[]]), 1)]
    + [(msgpack.packb(["a"]), msgpack.packb(["1"]), ttl_ms) for ttl_ms in ("", 0, "x")],
)
def test_a_batch_that_cannot_be_read_may_have_done_anything_in_its_queue(catalogue, tokens, ids, ttl_ms):
    sent = evalsha(sha_of("extendLocks-1"), keys("stalled"), PREFIX, tokens, ids, ttl_ms)
    operation = catalogue.recognise(command(sent))
    assert isinstance(operation, Unread)
    assert (operation.job, operation.prefix, operation.anything) == (None, PREFIX, True)
