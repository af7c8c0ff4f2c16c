"""What a refused client is given in a script's place: what it says itself to one who does not hold the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.refusals import not_yours
from emqproxy.session.exchange import ErrorReply
from tests.processes import RedisServer
from tests.scripts import talk
from tests.scripts.roles import NEW, OLD, Speaker, packed, speakers
from tests.scripts.talk import PREFIX, command, lock
from tests.session.talk import converse, words

CATALOGUE = Catalogue()
ENDINGS = {
    "moveToFinished": {"packed_options": packed({"token": "x:1", "keepJobs": {"count": -1}}), "target": "completed"},
    "moveToDelayed": {"token": "x:1", "delay_ms": "5"},
    "retryJob": {"token": "x:1", "push_command": "LPUSH"},
    "moveToWaitingChildren": {"token": "x:1", "child_key": "", "job_dependencies": PREFIX + b"1:dependencies"},
    "moveJobFromActiveToWait": {"token": "x:1"},
    "releaseLock": {"token": "x:1", "duration_ms": "1"},
    "extendLock": {"token": "x:1", "duration_ms": "1000"},
}  # fmt: skip


@pytest.fixture(params=[NEW, OLD])
def speaker(request: pytest.FixtureRequest, redis_session: RedisServer, catalogue: Catalogue) -> Iterator[Speaker]:
    yield from speakers(request, redis_session, catalogue)


@pytest.mark.parametrize("name", ENDINGS)
def test_it_is_the_scripts_own_answer_to_a_stranger(speaker: Speaker, redis_session: RedisServer, name: str) -> None:
    """Byte by byte, held against what Redis answers to one with another token, and the code that the journal has."""
    speaker.held()
    if name == "moveToWaitingChildren":
        speaker.redis("SADD", PREFIX + b"1:dependencies", "emq:orders:2")
    sent = speaker.sent(name, job_id="1", lock=lock("1").key, **ENDINGS[name])
    operation = speaker.talk.catalogue.recognise(command(sent))
    assert operation is not None
    own = not_yours(operation)
    assert own is not None
    given = converse(redis_session, words(*(word for word in sent if word is not None)))
    assert own.answer == given == b":%d\r\n" % own.code
    ((_, line), *_) = [(h.fact, h.line) for h in speaker.talk.ask(sent)]
    assert line is not None
    assert (line.code, line.code_name) == (own.code, own.code_name)


def test_a_batch_is_refused_with_all_its_ids(redis_session: RedisServer, speaker: Speaker) -> None:
    speaker.held()
    ids = ["1", "none", "a:b", "1"]
    roles = {"tokens": packed(["x:1"] * 4), "job_ids": packed(ids), "duration_ms": "1000"}
    sent = speaker.sent("extendLocks", **roles)
    operation = speaker.talk.catalogue.recognise(command(sent))
    assert operation is not None
    own = not_yours(operation)
    assert own is not None
    assert own.answer == converse(redis_session, words(*(word for word in sent if word is not None)))
    assert (own.code, own.code_name) == (0, "RenewRefused")


@pytest.mark.parametrize(
    "sent",
    [
        talk.pick("t"),
        talk.sweep(),
        talk.evalsha(talk.sha_of("updateProgress-3"), talk.keys("1", "events", "meta"), "1", "5"),
    ],
    ids=["pickup", "sweep", "progress"],
)
def test_others_have_none(sent: list[bytes | None]) -> None:
    operation = CATALOGUE.recognise(command(sent))
    assert operation is not None
    assert not_yours(operation) is None


def test_no_answer_of_ours_ever_says_yes() -> None:
    moves = (talk.finish, talk.delay, talk.retry, talk.back, talk.to_children, talk.release)
    makers: list[Callable[[str, str], Any]] = [*moves, talk.renew]
    for make in makers:
        operation = CATALOGUE.recognise(command(make("1", "t")))
        assert operation is not None
        own = not_yours(operation)
        assert own is not None
        reply = int(own.answer[1:-2])
        lines = [h.line for h in operation.happenings(talk.exchange(make("1", "t"), reply), talk.AT) if h.line]
        assert [line.outcome for line in lines] == ["refused"]
        assert not isinstance(reply, ErrorReply)
