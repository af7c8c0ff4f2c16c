"""A worker on go-redis: a pool of connections that says HELLO 3, EVALSHA before EVAL, a goroutine for each renewal."""

from __future__ import annotations

import pytest

from tests.e2e.packages import BUILD_S, FETCH_S
from tests.e2e.stage import Cell, Line, Stage, job, open_stage

GO, PRODUCER = Cell("go", "emq"), Cell("python", "emq")
QUEUE = "gophers"
LOCK_MS, SHORT_MS = 10_000, 1000
SCRIPTS = {
    "acquire": "moveToActive-11",
    "renew": "extendLock-2",
    "finish": "moveToFinished-14",
    "reap": "moveStalledJobsToWait-9",
    "lapse": None,
}


@pytest.mark.timeout(BUILD_S + FETCH_S + 120)
def test_a_go_worker_is_told_as_it_was() -> None:
    with open_stage() as stage:
        slow = stage.worker(GO, QUEUE, lockDuration=SHORT_MS, lockRenewTime=0, stalledInterval=0)
        slow.wait(event="ready", driver="9.7.3")
        stage.add(PRODUCER, QUEUE, job("hold", "late"))
        slow.wait(event="active", job="late")
        stage.wait_line(GO, QUEUE, "late", op="lapse")
        slow.tell(do="renew", job="late")
        slow.wait(event="renewal_refused", job="late")
        slow.tell(do="let", job="late")
        slow.wait(event="refused", job="late", code=-2)
        slow.close()
        quick = stage.worker(GO, QUEUE, lockDuration=LOCK_MS, lockRenewTime=250, stalledInterval=200, concurrency=5)
        stage.add(PRODUCER, QUEUE, job("complete", "done"), job("fail", "broken"), job("hold", "held"))
        quick.wait(event="active", job="late")
        quick.wait(event="renewed", job="held", count=3)
        quick.wait(event="renewed", job="late", count=1)
        for held in ("held", "late"):
            quick.tell(do="let", job=held)
        for job_id in ("done", "broken", "held", "late"):
            stage.wait_line(GO, QUEUE, job_id, op="finish", outcome="ok")
        quick.close()
        healthy(stage)
        late(stage.lines(GO, QUEUE, "late"))
        stage.end_and_search()


def healthy(stage: Stage) -> None:
    """Acquired once and finished once, each job under a token of its own, over several connections."""
    told = {job_id: stage.lines(GO, QUEUE, job_id) for job_id in ("done", "broken", "held")}
    for job_id, lines in told.items():
        moves = [(line["op"], line["target"]) for line in lines if line["op"] != "renew"]
        assert moves == [("acquire", None), ("finish", "failed" if job_id == "broken" else "completed")]
        assert {line["outcome"] for line in lines} == {"ok"}
        assert len({line["token"] for line in lines}) == 1
        recognised(lines)
        assert {line["finding"] for line in lines} <= {"sound", "doubtful"}
    assert len({lines[0]["token"] for lines in told.values()}) == 3
    assert len([line for line in told["held"] if line["op"] == "renew"]) >= 3
    assert len({line["conn"] for lines in told.values() for line in lines}) > 1
    assert {line["client_name"] for lines in told.values() for line in lines} == {"go-worker"}


def late(lines: list[Line]) -> None:
    """Lost unrenewed, refused twice and told whose fault it was; then swept, taken by another and finished."""
    recognised(lines)
    lost, kept = lines[0]["token"], lines[-1]["token"]
    assert lost != kept
    first = [line for line in lines if line["token"] == lost and line["op"] != "reap"]
    assert [(line["op"], line["outcome"], line["finding"]) for line in first] == [
        ("acquire", "ok", "sound"),
        ("lapse", "told", "sound"),
        ("renew", "refused", "straggler"),
        ("finish", "refused", "straggler"),
    ]
    assert (first[2]["grade"], first[3]["code_name"]) == ("too_late", "JobLockNotExist")
    then = [line for line in lines if line not in first and line["op"] != "renew"]
    assert [(line["op"], line["outcome"], line["target"]) for line in then] == [
        ("reap", "ok", "wait"),
        ("acquire", "ok", None),
        ("finish", "ok", "completed"),
    ]
    assert {line["finding"] for line in then} <= {"sound", "doubtful"}


def recognised(lines: list[Line]) -> None:
    assert lines
    for line in lines:
        assert line["script"] == SCRIPTS[line["op"]]
        assert line["match"] == ("catalogue" if line["script"] else None)
