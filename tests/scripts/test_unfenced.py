"""Writes that ask for no token, on a real Redis: the line they make, and that the lock stays as it was."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import Nothing, Untouched, Write
from emqproxy.scripts.layouts import NamedJob
from emqproxy.scripts.operation import Script
from emqproxy.scripts.unfenced import JobWrite, QueueWrite
from emqproxy.session.exchange import LOST, NOT_RUN, ErrorReply
from tests.scripts.roles import Speaker, packed
from tests.scripts.talk import AT, PREFIX, QUEUE, exchange, lock, read

ON_A_HELD_JOB = {
    "updateProgress": {"progress": "50"},
    "updateData": {"data": "{}"},
    "addLog": {"row": "hello"},
    "saveStacktrace": {"stacktrace": "[]", "failed_reason": "no"},
    "changePriority": {"priority": "3"},
    "removeUnprocessedChildren": {},
}


@pytest.mark.parametrize("name", ON_A_HELD_JOB)
def test_a_write_to_a_job_that_another_holds(speaker: Speaker, name: str) -> None:
    speaker.held()
    fact, line = speaker.one(name, job_id="1", **ON_A_HELD_JOB[name])
    assert isinstance(fact, Untouched)
    assert (fact.lock, fact.queue, fact.token) == (lock("1"), QUEUE, b"")
    assert (line.op, line.outcome, line.code_name) == ("write", "ok", None)
    assert speaker.token_of("1") == b"a:1"


@pytest.mark.parametrize("name", ["updateProgress", "updateData", "addLog", "saveStacktrace", "changePriority"])
def test_a_write_to_no_job_is_refused(speaker: Speaker, name: str) -> None:
    _, line = speaker.one(name, job_id="77", **ON_A_HELD_JOB[name])
    assert (line.op, line.outcome, line.code, line.code_name) == ("write", "refused", -1, "JobNotExist")


def test_rows_of_a_log_are_no_code(speaker: Speaker) -> None:
    speaker.held()
    codes = [speaker.one("addLog", job_id="1", row="hello", job_logs=PREFIX + b"1:logs")[1].code for _ in range(3)]
    assert codes == [None, None, None]
    assert speaker.redis("LLEN", PREFIX + b"1:logs") == 3


def test_delayed_jobs_are_changed_and_promoted(speaker: Speaker) -> None:
    assert speaker.one("changeDelay", job_id="5", delay_ms=1)[1].code_name == "JobNotExist"
    speaker.talk.add("5")
    assert speaker.one("changeDelay", job_id="5", delay_ms=1)[1].code_name == "JobNotInState"
    assert speaker.one("promote", job_id="5")[1].code_name == "JobNotInState"
    speaker.redis("ZADD", PREFIX + b"delayed", 1, "5")
    assert speaker.one("changeDelay", job_id="5", delay_ms=5)[1].outcome == "ok"
    fact, line = speaker.one("promote", job_id="5")
    assert isinstance(fact, Untouched)
    assert (fact.lock, line.op, line.outcome, line.code) == (lock("5"), "write", "ok", 0)


def test_a_failed_job_is_reprocessed(speaker: Speaker) -> None:
    roles = {"state_set": PREFIX + b"failed", "push_command": "LPUSH", "property": "failedReason"}
    roles |= {"previous_state": "failed", "job_id": "6"}
    assert speaker.one("reprocessJob", **roles)[1].code_name == "JobNotExist"
    speaker.talk.add("6")
    assert speaker.one("reprocessJob", **roles)[1].code_name == "JobNotInState"
    speaker.redis("ZADD", PREFIX + b"failed", 1, "6")
    _, line = speaker.one("reprocessJob", **roles)
    assert (line.outcome, line.code) == ("ok", 1)


def test_a_child_is_cut_from_its_parent(speaker: Speaker) -> None:
    roles = {"job": PREFIX + b"7", "parent": PREFIX + b"8"}
    fact, line = speaker.one("removeChildDependency", **roles)
    assert isinstance(fact, Untouched)
    assert (fact.lock, line.code_name) == (lock("7"), "JobNotExist")
    speaker.talk.add("7")
    assert speaker.one("removeChildDependency", **roles)[1].code_name == "ParentJobNotExist"


def test_what_names_no_job_has_a_queue(speaker: Speaker) -> None:
    speaker.talk.add("1")
    speaker.redis("ZADD", PREFIX + b"failed", 1, "1")
    calls = {
        "moveJobsToWait": {"state_set": PREFIX + b"failed", "previous_state": "failed", "count": 10},
        "removeJobScheduler": {"scheduler_id": "s"},
    }
    for name, roles in calls.items():
        fact, line = speaker.one(name, **roles)
        assert isinstance(fact, Nothing)
        assert (fact.queue, line.op, line.outcome) == (QUEUE, "write", "ok")
        assert line.code in (0, 1)


def test_a_repeatable_job_of_5_x_tells_its_queue_by_its_key(speaker: Speaker) -> None:
    if speaker.line == "6.x":
        with pytest.raises(KeyError):
            speaker.text("addRepeatableJob")
        return
    options = packed({"name": "n", "every": 1000})
    fact, line = speaker.one("addRepeatableJob", next_ms=1, scheduler_options=options, repeat_key="k", legacy_key="l")
    assert isinstance(fact, Nothing)
    assert (fact.queue, line.op, line.outcome, line.code) == (QUEUE, "write", "ok", None)
    fact, line = speaker.one("updateRepeatableJobMillis", next_ms=2, repeat_key="k", legacy_key="l")
    assert isinstance(fact, Nothing)
    assert (fact.queue, line.outcome) == (QUEUE, "ok")
    _, line = speaker.one("removeRepeatable", repeat_id="i", options_key="o", repeat_key="k")
    assert (line.op, line.outcome) == ("write", "ok")


SCRIPT = Script("updateData", 1, "f" * 40, "catalogue", "4.0.0-6.7.0")


def test_what_redis_refused_or_never_answered() -> None:
    operation = JobWrite(SCRIPT, NamedJob(lock("1").key, PREFIX))
    assert operation.intents(AT, 3) == (Write(AT, QUEUE._replace(db=3), lock("1", db=3), b""),)
    for reply, outcome, name in [
        (ErrorReply(b"READONLY no"), "error", "READONLY"),
        (LOST, "unknown", None),
        (NOT_RUN, None, None),
        (ErrorReply(b"NOSCRIPT no"), None, None),
    ]:
        ((fact, line),) = [(h.fact, h.line) for h in read(operation, exchange([b"evalsha"], reply))]
        assert isinstance(fact, Untouched)
        assert (line and line.outcome, line and line.code_name) == (outcome, name)
    ((fact, line),) = [(h.fact, h.line) for h in read(QueueWrite(SCRIPT, PREFIX), exchange([b"evalsha"], LOST))]
    assert isinstance(fact, Nothing)
    assert line is not None
    assert line.outcome == "unknown"
