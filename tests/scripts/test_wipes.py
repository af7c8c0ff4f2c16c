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


@pytest.mark.parametrize(
    ("words", "reply", "outcomes"),
    [
        ((b"FLUSHALL",), b"OK", ["ok", None]),
        ((b"SWAPDB", b"0", b"5"), b"OK", ["ok", "ok", None]),
        ((b"FLUSHDB",), LOST, ["unknown", None]),
        ((b"FLUSHDB",), ErrorReply(b"NOPERM no"), ["error"]),
        ((b"FLUSHDB",), NOT_RUN, [None]),
    ],
    ids=str,
)
def test_a_wipe_has_a_line_for_each_database_that_it_names(
    words: tuple[bytes, ...], reply: Reply, outcomes: list[str | None]
) -> None:
    command = Command(words[0], list(words), 7, 2, 100)
    operation = Catalogue().recognise(command)
    assert operation is not None
    assert (operation.script.label, operation.script.match) == (words[0].decode(), "")
    lines = [h.line for h in operation.happenings(Exchange(command, reply, 100, 200, 2, False, 2), PLACE)]
    assert [line and line.outcome for line in lines] == outcomes
    assert all(line is None or line.op == "wipe" for line in lines)


def test_an_answer_that_never_came_may_have_been_an_ok() -> None:
    assert wiping(b"FLUSHDB", reply=LOST)[1] == [2]


@pytest.mark.parametrize(
    "words",
    [
        (b"SWAPDB",),
        (b"SWAPDB", b"0"),
        (b"SWAPDB", b"x", b"1"),
        (b"SWAPDB", b"0", b"1", b"2"),
        (b"SWAPDB", b"3", b"03"),
    ],
)
def test_what_redis_refuses_or_changes_nothing_with_is_nothing(words: tuple[bytes, ...]) -> None:
    assert wiping(*words) == ([], [])
