"""Our scripts and the released ones are held against each other; and the comparer is tried on changed texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.lua.calls import BROKEN, Word, call, key, packed
from tests.lua.directed import DIRECTED
from tests.lua.play import RECORD_BYTES, UnequalError, explained, play, table
from tests.lua.queues import Queues
from tests.lua.released import COMPARED, released, unwritten
from tests.lua.sequences import hold, stage
from tests.lua.twins import LANES, Difference, Outcome, ServerFaultError, Step, Twins

SEQUENCES, PARTS = 1_000, 4
"""The long form is `python -m tests.long.lua_equality`."""


@pytest.fixture(scope="module")
def theirs_twice() -> Iterator[Twins]:
    with stage(ours_too=False) as twins:
        yield twins


def some(first: int) -> list[list[bytes]]:
    """A sequence for each lane, always the same ones."""
    made = (random.Random(first + lane) for lane in range(LANES))
    return [[source.randbytes(RECORD_BYTES) for _ in range(30)] for source in made]


def play_many(twins: Twins) -> None:
    for first in range(0, 40 * LANES, LANES):
        play(twins, some(first))


def test_nothing_is_left_to_write() -> None:
    assert unwritten() == []


@pytest.mark.parametrize("part", range(PARTS))
def test_ours_do_what_the_released_ones_do(part: int) -> None:
    with stage() as twins:
        assert hold(twins, SEQUENCES // PARTS, part) > SEQUENCES


def test_the_released_ones_do_what_they_do(theirs_twice: Twins) -> None:
    told = [line for first in (1, 2, 3) for lines in play(theirs_twice, some(first * LANES)) for line in lines]
    assert {name for name in COMPARED if name.startswith("add")} <= {line.split()[0] for line in told}
    assert {"pick", "finish", "delay", "retry", "put", "wait", "sweep", "renew", "release", "progress"} <= {
        line.split()[0] for line in told
    }


@pytest.mark.parametrize(("script", "said", "instead"), [
    ("moveToActive-11", "RPOPLPUSH", "LMOVE"),  # an error
    ("moveToFinished-14", '"finishedOn"', '"endedOn"'),  # a field
    ("moveToActive-11", '"PX", opts[', '"PX", 9 .. opts['),  # when a lock ends
    ("addStandardJob-9", "return jobId .. ", "return 1 .. jobId .. "),  # a reply
    ("retryJob-11", 'rcall("HINCRBY"', 'do return 0 end rcall("HINCRBY"'),  # two writes are missing
])  # fmt: skip
def test_the_comparer_sees_a_changed_text(theirs_twice: Twins, script: str, said: str, instead: str) -> None:
    text = released()[script]
    assert said in text
    theirs_twice.replace(script, text.replace(said, instead))
    try:
        with pytest.raises(UnequalError, match="again: ") as told:
            play_many(theirs_twice)
        assert told.value.differences[0].script == script
    finally:
        theirs_twice.replace(script, None)


def test_an_order_a_type_and_an_expiry_are_seen(theirs_twice: Twins) -> None:
    theirs_twice.fresh()
    opts = {"token": "t", "lockDuration": 100_000}
    argv: list[Word] = [key("q"), 5, packed(opts)]
    assert not theirs_twice.step(Step("push", [("RPUSH", key("q", "wait"), "1", "2")])).differences
    theirs_twice.ask([("SELECT", 1), ("LPUSH", key("q", "wait"), "2"), ("RPOP", key("q", "wait"))])
    assert [at.where for at in theirs_twice.step(Step("look")).differences] == [key("q", "wait")]
    theirs_twice.fresh()
    assert not theirs_twice.step(Step("set", [("SET", key("q", "a"), "1")])).differences
    theirs_twice.ask([("SELECT", 1), ("PEXPIRE", key("q", "a"), 100_000)])
    assert [at.where for at in theirs_twice.step(Step("look")).differences] == [f"{key('q', 'a')} expires"]
    theirs_twice.ask([("SELECT", 1), ("DEL", key("q", "a")), ("HSET", key("q", "a"), "1", "1")])
    assert [at.where for at in theirs_twice.step(Step("look")).differences] == [key("q", "a")]
    theirs_twice.fresh()
    outcome = theirs_twice.step(Step("pick", [("LPUSH", key("q", "wait"), "1")], call("moveToActive-11", "q", argv)))
    assert outcome.theirs[1:] == [b"1", 0, 0]
    assert not outcome.differences


@pytest.mark.parametrize("scene", DIRECTED, ids=lambda scene: scene.__name__)
def test_what_random_sequences_do_not_meet(scene: Callable[[Twins], None]) -> None:
    with stage() as twins:
        scene(twins)


def test_a_step_that_the_server_refuses_is_a_fault_of_the_test(theirs_twice: Twins) -> None:
    theirs_twice.fresh()
    with pytest.raises(ServerFaultError):
        theirs_twice.step(Step("nonsense", [("NOSUCHCOMMAND",)]))
    with pytest.raises(ServerFaultError):
        theirs_twice.load("this is no Lua")


def test_each_row_of_the_table_names_a_script_of_ours() -> None:
    assert all(row.script in COMPARED and row.reason.strip() for row in table())


def test_each_row_is_still_true() -> None:
    """What a row says happens, and is explained."""
    opts = {"token": "0", "lockDuration": 5, "attempts": 1, "maxMetricsSize": "", "keepJobs": {"count": -1}}
    job: list[list[Word]] = [["HSET", key("q", 1), "name", "j"], ["RPUSH", key("q", "active"), 1]]
    argv: list[Word] = ["1", 5, "returnvalue", "1", "completed", "1", key("q"), packed(opts), ""]
    finish = call("moveToFinished-14", "q", argv, id="1", target="completed")
    args = packed([key("q"), "", "j", 5, None, None, None, None, None])
    steps = [
        Step("fetch", [*job, ["RPUSH", key("q", "wait"), "0:0"]], finish),
        Step("options are no msgpack", call=call("addDelayedJob-6", "q", [args, "{}", BROKEN])),
    ]
    with stage() as twins:
        for step in steps:
            twins.fresh()
            outcome = twins.step(step)
            assert outcome.differences
            assert explained(step, outcome)
    assert len(steps) == len(table())


def test_a_row_explains_what_it_says_and_no_more() -> None:
    step = Step("finish", call=call("moveToFinished-14", "q", [], id="1", target="failed"))
    fault = "ERR user_script:1: attempt to concatenate local 'jobId' (a nil value)"
    at = [Difference("moveToFinished-14", "reply", fault, 0), Difference("moveToFinished-14", "emq:q:events", [], [])]
    assert explained(step, Outcome(fault, 0, Queues(), at))
    assert not explained(step, Outcome(fault, 1, Queues(), at))
    assert not explained(step, Outcome(-2, 0, Queues(), at))
    assert not explained(step, Outcome(fault, 0, Queues(), [*at, Difference("moveToFinished-14", "emq:q:1", [], [])]))
    assert not explained(Step("look"), Outcome(fault, 0, Queues(), at))
