"""Pickups and fetch-nexts: what their answers prove, asked of a real Redis; and what errors and silence leave open."""

from __future__ import annotations

import json

import pytest

from emqproxy.locks.events import Granted, NoProof, Nothing, PerhapsGranted, Place, Take
from emqproxy.records import JobFields, Line
from emqproxy.scripts.acquire import Grant, NoGrant, read_grant
from emqproxy.scripts.operation import Happening
from emqproxy.session.exchange import LOST, NOT_RUN, SILENT, UNREAD, ErrorReply
from tests.scripts.talk import AT, PREFIX, QUEUE, SPAN, TTL_MS, Conversation, command, exchange, lock, pick, read

NOTHING = Happening(Nothing(AT, SPAN, QUEUE), None)
PERHAPS = Happening(PerhapsGranted(AT, SPAN, QUEUE, b"a:1", TTL_MS), None)


def test_before_its_answer_a_pickup_may_take_any_job_of_its_queue(catalogue):
    operation = catalogue.recognise(command(pick("a:1")))
    assert operation.intents(AT, 0) == (Take(AT, QUEUE, b"a:1", TTL_MS),)
    assert operation.intents(AT, 5)[0].queue.db == 5


def test_a_pickup_that_gives_a_job_out(talk):
    talk.add("42", opts=json.dumps({"tm": json.dumps({"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"})}))
    (happening,) = talk.ask(pick("a:1"))
    assert happening.fact == Granted(AT, SPAN, lock("42"), QUEUE, b"a:1", TTL_MS)
    job = JobFields(
        name="n",
        attempts_started=1,
        timestamp=1,
        trace_context={"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"},
    )
    assert happening.line == Line("acquire", "ok", job=job)
    assert talk.redis("GET", lock("42").key) == b"a:1"


def test_the_same_over_resp_3(redis_session, talk):
    talk.add("42")
    other = Conversation(redis_session.port, talk.catalogue, resp=3)
    (happening,) = other.ask(pick("a:1"))
    other.close()
    assert happening.fact == Granted(AT, SPAN, lock("42"), QUEUE, b"a:1", TTL_MS)
    assert happening.line.job.name == "n"


def test_a_queue_under_any_prefix(talk):
    prefix = b"my:app:{x}:mails:"
    talk.add("7", prefix=prefix)
    (happening,) = talk.ask(pick("a:1", prefix=prefix))
    assert (happening.fact.lock, happening.fact.queue.prefix) == (lock("7", prefix), prefix)


def test_empty_paused_limited_and_delayed_give_nothing(talk):
    assert talk.ask(pick("a:1")) == (NOTHING,)
    talk.redis("ZADD", PREFIX + b"delayed", 4096 * 9_000_000_000_000, "9")
    assert talk.ask(pick("a:1")) == (NOTHING,)
    talk.add("1")
    talk.redis("HSET", PREFIX + b"meta", "max", 1, "duration", 1000)
    talk.redis("SET", PREFIX + b"limiter", 1, "PX", 60_000)
    assert talk.ask(pick("a:1")) == (NOTHING,)
    talk.redis("HSET", PREFIX + b"meta", "paused", 1)
    assert talk.ask(pick("a:1")) == (NOTHING,)


def test_the_wildcard_gives_the_job_out_and_sets_no_lock(talk):
    talk.add("1")
    (happening,) = talk.ask(pick("0"))
    assert happening.fact == NoProof(AT, SPAN, lock("1"), QUEUE, b"0")
    assert (happening.line.op, happening.line.outcome) == ("acquire", "ok")
    assert talk.redis("EXISTS", lock("1").key) == 0


@pytest.mark.parametrize("ttl_ms", [0, None, "soon"])
def test_a_pickup_that_fails_after_the_job_left_wait(talk, ttl_ms):
    talk.add("1")
    (happening,) = talk.ask(pick("a:1", ttl_ms))
    line = Line("acquire", "error", code_name="ERR")
    assert happening == Happening(PerhapsGranted(AT, SPAN, QUEUE, b"a:1", None), line)
    assert talk.redis("LRANGE", PREFIX + b"active", 0, -1) == [b"1"], "it left wait all the same"


def test_noscript_is_no_pickup(talk):
    talk.redis("SCRIPT", "FLUSH")
    assert talk.ask(pick("a:1")) == (NOTHING,)


@pytest.mark.parametrize("kind", ["READONLY", "LOADING", "BUSY", "NOAUTH", "NOPERM", "OOM", "NOSCRIPT", "MASTERDOWN"])
def test_errors_before_anything_ran_grant_nothing(catalogue, kind):
    sent = pick("a:1")
    assert read(catalogue.recognise(command(sent)), exchange(sent, ErrorReply(kind.encode() + b" why"))) == (NOTHING,)


@pytest.mark.parametrize(
    "reply",
    [
        LOST,
        SILENT,
        UNREAD,
        ErrorReply(b"ERR in the middle"),
        ErrorReply(b"NOPERM ACL failure in script: no permissions"),
        None,
        b"OK",
        1,
        True,
        [],
        [[]],
        [[b"name", b"n"], None, 0, 0],  # an id too large to be read
        [[b"name", b"n"], b"", 0, 0],
        [b"0", 0, 0, 0],
    ],
    ids=repr,
)
def test_what_may_have_granted_any_job(catalogue, reply):
    sent = pick("a:1")
    (happening,) = read(catalogue.recognise(command(sent)), exchange(sent, reply))
    assert happening.fact == PERHAPS.fact
    assert (happening.line is not None) == isinstance(reply, ErrorReply), "what failed in its middle left a job behind"


def test_a_transaction_that_did_not_run_granted_nothing(catalogue):
    sent = pick("a:1")
    assert read(catalogue.recognise(command(sent)), exchange(sent, NOT_RUN)) == (NOTHING,)


def test_the_wildcard_grants_no_lock_whatever_became_of_it(catalogue):
    sent = pick("0")
    assert read(catalogue.recognise(command(sent)), exchange(sent, LOST)) == (NOTHING,)


def test_a_token_that_cannot_be_read_may_hold_any_job(catalogue):
    sent = [*pick("a:1")[:-1], None]
    operation = catalogue.recognise(command(sent))
    assert operation.intents(AT, 0) == (Take(AT, QUEUE, b"", None),)
    (happening,) = read(operation, exchange(sent, [[b"name", b"n"], b"1", 0, 0]))
    assert happening == Happening(PerhapsGranted(AT, SPAN, QUEUE, b"", None), None)


def test_the_fact_carries_the_database_it_ran_in(catalogue):
    sent = pick("a:1")
    (happening,) = read(catalogue.recognise(command(sent)), exchange(sent, [[], b"1", 0, 0], db=3))
    assert happening.fact.lock == lock("1", db=3)
    assert happening.fact.place == Place(7, 41, 0)


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ([{b"name": b"n"}, b"5", 0, 0], Grant(b"5", JobFields(name="n"))),
        ([[b"name", b"n"], 5, 0, 0], Grant(b"5", JobFields(name="n"))),
        ([0, 0, 1700, 0], NoGrant.EMPTY),
        ([False, 0, 0, 0], NoGrant.UNREADABLE),
        ({}, NoGrant.UNREADABLE),
    ],
)
def test_reading_a_grant(reply, found):
    assert read_grant(reply) == found
