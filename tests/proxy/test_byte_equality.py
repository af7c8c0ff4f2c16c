"""Generated conversations give the same bytes through a sidecar as without; `tests/long/byte_equality` holds more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import uvloop

from tests.long.byte_equality import hold_all
from tests.long.script_calls import Scripts
from tests.long.steps import Conversation, Step
from tests.long.two_roads import Heard, Roads, ask_all, hold
from tests.session.talk import words


@pytest.fixture(scope="module")
def roads() -> Iterator[Roads]:
    with Roads() as two:
        yield two


def test_a_thousand_conversations(roads: Roads) -> None:
    """Half of them in RESP 3. What one says is in the message of a failure, with the bytes of both roads."""
    tally = uvloop.run(hold_all(roads, Scripts(roads.direct), seed=4, count=1000, lanes=16, batch=500))
    assert tally.equal, str(tally)
    assert (tally.conversations, tally.resp[2], tally.resp[3]) == (1000, 500, 500)
    assert len(tally.classes) > 20
    assert roads.proxy.running


def test_one_key_that_differs_is_found(roads: Roads) -> None:
    """In the answer of a conversation that reads it, and among the keys."""
    roads.fresh(b"")
    ask_all(roads.behind.port, words("SET", "only-here", 1))
    read = words("GET", "only-here")

    async def play() -> None:
        (found,) = await roads.compare(Conversation("by hand", 2, [Step(0, (read,))]))
        assert (found.direct.data, found.proxied.data) == (b"$-1\r\n", b"$1\r\n1\r\n")
        assert "apart at byte 1" in str(found)
        assert await roads.compare(Conversation("by hand", 2, [Step(0, (words("GET", "nowhere"),))])) == []

    uvloop.run(play())
    (apart,) = roads.keys_apart()
    assert "only-here" in apart


def test_how_a_connection_ended_is_part_of_what_is_compared(roads: Roads) -> None:
    async def play() -> None:
        for port in (roads.direct.port, roads.proxy.port):
            quits = Conversation("by hand", 2, [Step(0, (words("QUIT"),), b"never said")])
            assert await hold(port, quits) == [Heard(b"+OK\r\n", "closed unasked")]
            stays = Conversation("by hand", 2, [Step(0, (words("ECHO", "mark"),), b"mark\r\n")])
            assert await hold(port, stays) == [Heard(b"$4\r\nmark\r\n", "closed when told")]

    uvloop.run(play())
