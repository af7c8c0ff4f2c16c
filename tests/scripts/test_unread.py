"""Calls that cannot be read, of scripts that touch locks: what they leave unknown, and nothing that is wrong."""

from __future__ import annotations

import msgpack
import pytest

from emqproxy.locks.events import Nothing, Overwrite, Overwritten, PerhapsGranted, Take, Untouched
from emqproxy.records import Line
from emqproxy.scripts.arguments import PACKED_ITEMS_MAX
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.operation import Happening
from emqproxy.scripts.unread import Unread
from emqproxy.session.exchange import LOST, NOT_RUN, ErrorReply, Reply, Word
from tests.scripts.talk import (
    AT,
    PREFIX,
    QUEUE,
    SPAN,
    Conversation,
    command,
    evalsha,
    exchange,
    finish,
    keys,
    lock,
    pick,
    read,
    release,
    renew,
    renew_all,
    sha_of,
    text_of,
)

NEXT = AT._replace(part=1)
HAND = Overwrite(AT, QUEUE, lock("1"), b"", unread=True)
OVERWRITTEN = Overwritten(AT, SPAN, lock("1"), QUEUE, b"", unread=True)


def unread(catalogue: Catalogue, sent: list[Word]) -> Unread:
    operation = catalogue.recognise(command(sent))
    assert isinstance(operation, Unread), sent[:3]
    return operation


def with_options(sent: list[Word], options: Word) -> list[Word]:
    return [*sent[:-2], options, b""]


@pytest.mark.parametrize(
    "sent",
    [
        renew("1", "a:1")[:5],  # no ARGV at all
        renew("1", "a:1", "soon"),
        renew("1", "a:1", 0),
        [*renew("1", "a:1")[:5], None, b"1000", b"1"],  # a token too large to hold
        [*release("1", "a:1")[:4], None, b"1000"],
        with_options(finish("1", "a:1"), None),
        with_options(finish("1", "a:1"), b"\xc1"),
        with_options(finish("1", "a:1"), msgpack.packb({"lockDuration": 1})),
    ],
    ids=lambda sent: repr(sent)[:200],
)
def test_where_the_job_is_named_its_lock_may_be_anybodys(catalogue: Catalogue, sent: list[Word]) -> None:
    operation = unread(catalogue, sent)
    assert operation.script.match == "catalogue"
    assert operation.intents(AT, 0) == (HAND,)
    assert read(operation, exchange(sent, 0)) == (Happening(OVERWRITTEN, Line("raw", "ok")),)
    assert read(operation, exchange(sent, LOST)) == (Happening(OVERWRITTEN, Line("raw", "unknown")),)
    untouched = Untouched(AT, SPAN, lock("1"), QUEUE, b"")
    assert read(operation, exchange(sent, NOT_RUN)) == (Happening(untouched, None),)


def test_a_fetch_next_that_cannot_be_read_may_have_granted_any_other(catalogue: Catalogue) -> None:
    sent = with_options(finish("1", "a:1", fetch="1"), b"\xc1")
    operation = unread(catalogue, sent)
    assert operation.intents(AT, 0) == (HAND, Take(NEXT, QUEUE, b"", None))
    ending, pickup = read(operation, exchange(sent, []))
    assert (ending.fact, pickup) == (OVERWRITTEN, Happening(PerhapsGranted(NEXT, SPAN, QUEUE, b"", None), None))


@pytest.mark.parametrize("reply", [[], [b"1"], LOST, ErrorReply(b"ERR from its middle")], ids=repr)
def test_a_batch_past_what_is_read_may_have_renewed_anybody_and_tells_of_nobody(
    catalogue: Catalogue, reply: Reply
) -> None:
    many = [str(number) for number in range(PACKED_ITEMS_MAX + 1)]
    for sent in (renew_all(many, many), [*renew_all(["1"], ["a:1"])[:5], None, None, b"1000"]):
        operation = unread(catalogue, sent)
        assert operation.intents(AT, 0) == (Take(NEXT, QUEUE, b"", None, anything=True),)
        perhaps = PerhapsGranted(NEXT, SPAN, QUEUE, b"", None, anything=True)
        assert read(operation, exchange(sent, reply)) == (Happening(perhaps, None),)
        refused = read(operation, exchange(sent, ErrorReply(b"READONLY no")))
        assert refused == (Happening(Nothing(NEXT, SPAN, QUEUE), None),)


@pytest.mark.parametrize(
    ("sent", "anything"),
    [
        ([*renew("1", "a:1")[:3], None, *renew("1", "a:1")[4:]], True),  # a key too large to hold
        ([*pick("a:1")[:-3], None, b"1", b"\x80"], False),
        (evalsha(sha_of("extendLocks-1"), keys("stalled"), "", b"", b"", 1), True),
    ],
    ids=lambda value: repr(value)[:200],
)
def test_the_queue_is_told_by_its_keys_where_nothing_else_tells(
    catalogue: Catalogue, sent: list[Word], anything: bool
) -> None:
    operation = unread(catalogue, sent)
    assert (operation.job, operation.prefix, operation.anything) == (None, PREFIX, anything)


def test_a_learned_text_is_no_better_read(catalogue: Catalogue) -> None:
    text = text_of("extendLocks-1") + b"\n-- a later release\n"
    sent = renew_all(["1"], ["a:1"])
    operation = unread(catalogue, [b"eval", text, *sent[2:5], b"\xc1", *sent[6:]])
    assert (operation.prefix, operation.anything, operation.script.match) == (PREFIX, True, "learned")


def test_a_real_batch_that_is_too_long_to_read_does_renew(talk: Conversation) -> None:
    """What is left unknown did happen: the lock lives on, and nothing but this call says so."""
    talk.add("1")
    talk.ask(pick("a:1", 1_000))
    many = ["1", *("x" * 20 for _ in range(PACKED_ITEMS_MAX))]
    (happening,) = talk.ask(renew_all(many, ["a:1"] * len(many), 60_000))
    assert isinstance(happening.fact, PerhapsGranted)
    assert happening.fact.anything
    remaining_ms = talk.redis("PTTL", lock("1").key)
    assert isinstance(remaining_ms, int)
    assert remaining_ms > 1_000
