"""Jobs that are added, on a real Redis: their ids out of the answers, and what of them is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emqproxy.locks.events import Nothing, Untouched
from emqproxy.records import JobFields
from emqproxy.scripts.add import Adding, read_id
from emqproxy.scripts.operation import Script
from emqproxy.session.exchange import LOST, NOT_RUN, ErrorReply, Reply
from tests.scripts.roles import NEW, NOW_MS, OLD, Speaker, packed
from tests.scripts.talk import AT, PREFIX, QUEUE, exchange, float64, lock, read

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DATA = '{"secret":"payload-canary"}'
ADDS = ("addStandardJob", "addDelayedJob", "addPrioritizedJob", "addParentJob")


def arguments(job_id: str = "", parent: str | None = None) -> bytes:
    """As clients of either release pack them, up to the parent's key."""
    return packed(PREFIX.decode(), job_id, "resize", NOW_MS, parent, None, None, None, None, None)


def options(**more: Any) -> bytes:
    return packed({"attempts": 1, "delay": 5, "priority": 2} | more)


@pytest.mark.parametrize("name", ADDS)
def test_the_id_stands_in_the_answer(speaker: Speaker, name: str) -> None:
    tm = json.dumps({"traceparent": TRACE})
    for number in (b"1", b"2"):
        fact, line = speaker.one(name, packed_arguments=arguments(), data=DATA, packed_options=options(tm=tm))
        assert isinstance(fact, Untouched)
        assert (fact.lock, fact.queue, fact.token) == (lock(number.decode()), QUEUE, b"")
        assert (line.op, line.outcome, line.code) == ("add", "ok", None)
        assert line.job == JobFields(name="resize", timestamp=NOW_MS, trace_context={"traceparent": TRACE})
        assert "canary" not in repr(line)
    assert speaker.talk.operation is not None
    assert speaker.talk.operation.intents(AT, 0) == (), "it bears on no lock"


def test_a_chosen_id_may_hold_a_colon_and_is_told_again_when_it_was_there(speaker: Speaker) -> None:
    for _ in range(2):
        sent = {"packed_arguments": arguments("order:7"), "data": DATA, "packed_options": options(omc=True)}
        fact, line = speaker.one("addStandardJob", **sent)
        assert isinstance(fact, Untouched)
        assert (fact.lock, line.outcome) == (lock("order:7"), "ok")


@pytest.mark.parametrize("job_id", ["", "chosen"])
def test_a_parent_that_is_not_there(speaker: Speaker, job_id: str) -> None:
    sent = packed(PREFIX.decode(), job_id, "resize", NOW_MS, "emq:orders:404", *_parent(speaker.line))
    fact, line = speaker.one("addStandardJob", packed_arguments=sent, data=DATA, packed_options=options())
    assert (line.op, line.outcome, line.code, line.code_name) == ("add", "refused", -5, "ParentJobNotExist")
    assert line.job is not None
    assert line.job.parent_key == "emq:orders:404"
    assert isinstance(fact, Untouched if job_id else Nothing)


def _parent(line: str) -> list[Any]:
    return ["emq:orders:404:dependencies", {"id": "404", "queueKey": "emq:orders"}, None, None, None]


SCHEDULE = packed({"name": "nightly", "every": 60_000})


def test_a_scheduler_adds_its_next_job(speaker: Speaker) -> None:
    roles = {"scheduler_options": SCHEDULE, "scheduler_id": "s", "data": DATA, "template_options": packed({})}
    roles |= {"packed_options": options(), "timestamp": NOW_MS, "next_ms": NOW_MS + 60_000}
    fact, line = speaker.one("addJobScheduler", **roles)
    assert isinstance(fact, Untouched)
    assert fact.queue == QUEUE
    assert fact.lock.key.startswith(PREFIX + b"repeat:s:")
    assert speaker.redis("EXISTS", fact.lock.key.removesuffix(b":lock")) == 1
    assert (line.op, line.outcome, line.job and line.job.name) == ("add", "ok", "nightly")
    again = {"scheduler_id": "s", "data": DATA, "packed_options": options(), "timestamp": NOW_MS}
    ran = fact.lock.key.removesuffix(b":lock").removeprefix(PREFIX)
    fact, line = speaker.one("updateJobScheduler", next_ms=NOW_MS + 120_000, producer_id=ran, **again)
    assert isinstance(fact, Untouched)
    assert (line.op, line.outcome) == ("add", "ok")
    assert speaker.redis("EXISTS", fact.lock.key.removesuffix(b":lock")) == 1
    assert speaker.happenings("updateJobScheduler", next_ms=1, **again | {"scheduler_id": "gone"}) == []


ADDING = Adding(Script("addStandardJob", 9, "f" * 40, "catalogue", "5.62.0-6.7.0"), PREFIX, None, JobFields(name="n"))


@pytest.mark.parametrize(
    ("reply", "outcome", "name"),
    [
        (ErrorReply(b"OOM no"), "error", "OOM"),
        (LOST, "unknown", None),
        (NOT_RUN, None, None),
        (-10, "refused", "SchedulerJobIdCollision"),
        (-11, "refused", "SchedulerJobSlotsBusy"),
        (-7, "refused", "ParentJobCannotBeReplaced"),
        ({}, "unknown", None),
    ],
    ids=str,
)
def test_no_job_was_added_that_can_be_named(reply: Reply, outcome: str | None, name: str | None) -> None:
    ((fact, line),) = [(h.fact, h.line) for h in read(ADDING, exchange([b"evalsha"], reply))]
    assert isinstance(fact, Nothing)
    assert (line and line.outcome, line and line.code_name) == (outcome, name)


@pytest.mark.parametrize(
    ("reply", "job_id"), [(b"7", b"7"), (7, b"7"), ([b"repeat:s:1", 5], b"repeat:s:1"), ([], None), (b"", None)]
)
def test_ids(reply: Reply, job_id: bytes | None) -> None:
    assert read_id(reply) == job_id


def test_node_packs_times_as_floats_and_an_older_client_its_carrier_as_pairs(speaker: Speaker) -> None:
    assert speaker.line in (NEW, OLD)
    sent = arguments().replace(packed(NOW_MS), float64(NOW_MS))
    fact, line = speaker.one(
        "addDelayedJob", packed_arguments=sent, data=DATA, packed_options=options(tm=[["traceparent", TRACE]])
    )
    assert isinstance(fact, Untouched)
    assert line.job == JobFields(name="resize", timestamp=NOW_MS, trace_context={"traceparent": TRACE})
