"""A group is made once for all who tell it, and what is kept is bounded."""

from __future__ import annotations

import msgspec

from emqproxy.locks.events import Queue
from emqproxy.observer import ids
from emqproxy.observer.groups import Groups
from emqproxy.observer.tokens import Tokens
from tests.observer.records_factory import OTHER_TOKEN, Story, call, hello


def groups() -> Groups:
    return Groups(hello(), Tokens("fingerprint"))


def test_the_same_from_another_message_is_the_same_group() -> None:
    told = groups()
    record = Story().acquire(0)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=type(record))
    assert again.call is not record.call
    assert told.call(again.call) is told.call(record.call)
    assert told.peer(again.peer) is told.peer(record.peer)


def test_another_is_another() -> None:
    told, story = groups(), Story()
    one, other = (told.speaker(story.queue, story.lock, token).cells for token in (story.token, OTHER_TOKEN))
    assert one["messaging.message.id"] == other["messaging.message.id"] == "42"
    assert one["emq.lock.token"] != other["emq.lock.token"]
    names = [told.operation(name, None, Queue(db, b"bull:q:")).cells for name, db in (("a", 0), ("a", 1), ("b", 0))]
    assert len({tuple(sorted(map(str, cells.items()))) for cells in names}) == 3
    assert told.call(call("extendLock-2")).cells != told.call(call("extendLock-3")).cells
    assert told.call(None).cells == {}


def test_a_holder_has_the_ids_of_ids_and_the_names_of_its_job_and_token() -> None:
    told, story = groups(), Story(number=3)
    story.acquire(0)
    holder = told.holder(story._now())
    assert holder.trace_id == told.trace_id(story.lock) == ids.trace_of("", story.lock)
    assert holder.span_id == ids.span_of("", story.lock, story.token, 3)
    assert holder.speaker.cells == told.speaker(story.queue, story.lock, story.token).cells


def test_what_is_kept_is_bounded() -> None:
    told = groups()
    for kept in (told.operation, told.call, told.peer, told.words, told.summary):
        assert 0 < (kept.cache_info().maxsize or 0) <= 4096
