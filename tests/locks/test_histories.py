"""Laws 4, 5 and 6 over random histories on a real Redis with real scripts.

The long form (20,000 of them) is `python -m tests.long.histories`.
"""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from emqproxy.locks.events import LockFact, Released, Renewed
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Finding
from emqproxy.scripts.catalogue import Catalogue
from tests.locks.judging import Event, tell
from tests.locks.playing import play
from tests.locks.real_histories import History, Line, connect
from tests.locks.test_simulator import ArrivalOrder
from tests.processes import RedisServer
from tests.scripts import talk
from tests.scripts.conftest import LABELS

COUNT = 500
TRIES = 60
BUSY_STEPS = 200_000
PAUSE_S = 0.02


@pytest.mark.timeout(180)
def test_what_is_said_of_random_histories_is_true() -> None:
    figures = play(range(COUNT))
    assert figures.histories == COUNT
    assert not figures.untrue, "\n\n".join(figures.broken)
    # They are histories in which something happens, and in which the order of arrival misleads.
    assert figures.lapses > COUNT / 2
    assert figures.lapses <= figures.expiries
    assert {Finding.SOUND.word, Finding.STRAGGLER.word, Finding.DOUBTFUL.word} <= set(figures.findings)
    assert figures.arrival_order_untrue, "none of them would mislead a ledger that takes facts as they are read"


async def _renew_and_give_back(server: RedisServer, lines: list[Line], number: int) -> History:
    """A job's lock is renewed on one connection and then given back on another, while the server is busy and we look
    at nothing for a while."""
    history = History(number, b"emq:orders%d:" % number, lines, Catalogue(), str(server.socket_path))
    first, second, other, _ = lines
    history.add()
    await asyncio.sleep(0)
    history.ask(first, talk.pick("a:1"))
    await history.answers()
    history.busy(other, BUSY_STEPS)
    history.ask(first, talk.renew("1", "a:1"))
    history.ask(second, talk.finish("1", "a:1"))
    time.sleep(PAUSE_S)  # noqa: ASYNC251  the pause: the loop stands still
    await history.answers()
    return history


async def _tries(server: RedisServer) -> list[list[Event]]:
    """Histories in which the renewal ran first, which its success proves, and was read last."""
    numbers, found = itertools.count(), []
    lines = [await connect(str(server.socket_path), numbers) for _ in range(4)]
    for number in range(TRIES):
        history = await _renew_and_give_back(server, lines, number)
        read = [type(event.what) for event in history.events if isinstance(event.what, LockFact)]
        if read[1:] == [Released, Renewed]:
            found.append(history.events)
    for line in lines:
        line.transport.abort()
    return found


def test_answers_of_two_connections_are_read_in_the_reverse_of_their_order(redis_server: RedisServer) -> None:
    """Ten milliseconds of a busy server are enough. Who takes facts as they are read accuses; the ledger does not."""
    for label in LABELS:
        redis_server.call("SCRIPT", "LOAD", talk.text_of(label))
    found = asyncio.run(_tries(redis_server))
    print(f"{len(found)} of {TRIES} read in reverse")
    assert found, "never read in reverse"
    for events in found:
        assert {v.finding for v in tell(LockLedger(), events).verdicts if v.finding} == {Finding.SOUND}
        assert Finding.DISPUTED in {v.finding for v in tell(ArrivalOrder(), events).verdicts}
