"""FLUSHALL, FLUSHDB and SWAPDB: what they prove, and that Redis does what they say."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import Nothing, Place, Queue, Wipe, Wiped
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.session.exchange import LOST, NOT_RUN, Command, ErrorReply, Exchange, Reply

PLACE = Place(3, 7)


def wiping(*words: bytes, reply: Reply = b"OK", db: int = 2) -> tuple[list[object], list[int | None]]:
    """The intents' types, and the databases that its facts wipe."""
    command = Command(words[0].upper(), list(words), 7, db, 100)
    operation = Catalogue().recognise(command)
    if operation is None:
        return [], []
    facts = [h.fact for h in operation.happenings(Exchange(command, reply, 100, 200, db, False, 2), PLACE)]
    assert all(h.line is None for h in operation.happenings(Exchange(command, reply, 100, 200, db, False, 2), PLACE))
    last = facts[-1]
    assert isinstance(last, Nothing)
    assert last.place == PLACE
    return list(operation.intents(PLACE, db)), [fact.db for fact in facts if isinstance(fact, Wiped)]


@pytest.mark.parametrize(
    ("words", "dbs"),
    [
        ((b"FLUSHALL",), [None]),
        ((b"flushall", b"ASYNC"), [None]),
        ((b"FLUSHDB",), [2]),
        ((b"SWAPDB", b"0", b"5"), [0, 5]),
    ],
)
def test_which_databases(words: tuple[bytes, ...], dbs: list[int | None]) -> None:
    intents, wiped = wiping(*words)
    assert wiped == dbs
    assert intents == [Wipe(PLACE, Queue(2, b""))]


def test_a_refusal_and_a_discarded_transaction_wipe_nothing() -> None:
    assert wiping(b"FLUSHALL", reply=ErrorReply(b"NOPERM no"))[1] == []
    assert wiping(b"FLUSHALL", reply=NOT_RUN)[1] == []


def test_an_answer_that_never_came_may_have_been_an_ok() -> None:
    assert wiping(b"FLUSHDB", reply=LOST)[1] == [2]


@pytest.mark.parametrize(
    "words", [(b"SWAPDB",), (b"SWAPDB", b"0"), (b"SWAPDB", b"x", b"1"), (b"SWAPDB", b"0", b"1", b"2")]
)
def test_what_redis_refuses_is_nothing(words: tuple[bytes, ...]) -> None:
    assert wiping(*words) == ([], [])
