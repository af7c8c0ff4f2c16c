"""Unmodified workers through the proxy: what jobs go through, told line by line and span by span."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.e2e.stage import LOCK_MS, Cell, Line, Stage, instant, job, open_stage
from tests.otlp_receiver import Span

CELLS = [Cell("ioredis", "emq"), Cell("node-redis", "bull"), Cell("python", "myapp")]
VERSIONS = {"ioredis": ("6.7.0", "6"), "node-redis": ("6.7.0", "6"), "python": ("3.4.4", "8")}
"""Of bullmq, and the major one of its Redis client."""
QUEUE = "life"
ACQUIRE, COMPLETED, FAILED = ("acquire", "ok", None), ("finish", "ok", "completed"), ("finish", "ok", "failed")

STORIES = {
    "done": [ACQUIRE, COMPLETED],
    "broken": [ACQUIRE, FAILED],
    "backoff": [ACQUIRE, ("delay", "ok", None), ACQUIRE, COMPLETED],
    "again": [ACQUIRE, ("retry", "ok", None), ACQUIRE, COMPLETED],
    "later": [ACQUIRE, COMPLETED],
    "moved": [ACQUIRE, ("delay", "ok", None), ACQUIRE, COMPLETED],
    "parent": [ACQUIRE, ("wait_children", "ok", None), ACQUIRE, COMPLETED],
    "child": [ACQUIRE, COMPLETED],
    "held": [ACQUIRE, COMPLETED],
}
FLOW_STORIES = {"root": [ACQUIRE, COMPLETED], "leaf": [ACQUIRE, COMPLETED]}


JOBS = [
    job("complete", "done"),
    job("fail", "broken"),
    job("flaky", "backoff", attempts=2, backoff={"type": "fixed", "delay": 300}),
    job("flaky", "again", attempts=2),
    job("complete", "later", delay=300),
    job("delay", "moved", {"ms": 300}),
    job("parent", "parent", {"child": "child"}),
    job("hold", "held"),
]
FLOW = {
    **job("complete", "root"),
    "queueName": QUEUE,
    "children": [{**job("complete", "leaf"), "queueName": QUEUE}],
}


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_healthy_life_is_told_as_it_was(cell: Cell) -> None:
    flows = [] if cell.kind == "python" else [FLOW]
    stories = STORIES | (FLOW_STORIES if flows else {})
    with open_stage() as stage:
        stage.add(cell, QUEUE, *JOBS, flows=flows)
        worker = stage.worker(cell, QUEUE)
        ready = worker.wait(event="ready")
        assert (ready["bullmq"], ready["driver"].partition(".")[0]) == VERSIONS[cell.kind]
        worker.wait(event="renewed", job="held", count=2)
        worker.tell(do="let", job="held")
        for job_id, story in stories.items():
            ended = "failed" if story[-1] is FAILED else "completed"
            worker.wait(event=ended, job=job_id)
            stage.wait_line(cell, QUEUE, job_id, op="finish")
        worker.close()
        for job_id, story in stories.items():
            lines = stage.lines(cell, QUEUE, job_id)
            writes = [line["script"] for line in lines if line["op"] == "write"]
            assert writes == (["releaseParentIfNoPendingDependencies-2"] if job_id == "root" else [])  # by the producer
            lines = [line for line in lines if line["op"] != "write"]
            tell_the_story(lines, story)
            names = [f"{span_name(line)} {QUEUE}" for line in lines]
            attempts = [f"process {QUEUE}"] * story.count(ACQUIRE)
            draw_the_story(cell, job_id, lines, stage.wait_spans(cell, QUEUE, job_id, *names, *attempts))
        renewals = [line for line in stage.lines(cell, QUEUE, "held") if line["op"] == "renew"]
        assert len(renewals) >= 2
        assert {line["grade"] for line in renewals} == {"on_time"}
        stage.end_and_search()


def tell_the_story(lines: list[Line], story: Sequence[tuple[str, str, str | None]]) -> None:
    """The journal has these lines in this order, and suspects nobody."""
    moves = [line for line in lines if line["op"] != "renew"]
    assert [(line["op"], line["outcome"], line["target"]) for line in moves] == story
    for line in lines:
        where = f"{line['op']} of {line['job']}"
        assert line["outcome"] == "ok", where
        assert line["match"] == "catalogue", where
        assert line["script"] in SCRIPTS[line["op"]], where
        assert line["finding"] in ("sound", "doubtful", "unwitnessed"), where
        assert line["code"] in (0, 1, None), where
        assert line["code_name"] is None, where
        assert line["worker"], where
    assert {line["finding"] for line in lines} == {"sound"}
    assert {line["ttl_ms"] for line in lines if line["op"] in ("acquire", "renew")} == {LOCK_MS}
    for taken, left in zip(moves[::2], moves[1::2], strict=True):
        assert taken["token"] == left["token"]
        assert 0 <= left["age_ms"] <= LOCK_MS
    effects = [line["effect"] for line in moves]
    assert effects == ["granted", "released"] * (len(moves) // 2)


SCRIPTS = {
    "acquire": {"moveToActive-11", "moveToFinished-14", "moveToDelayed-11"},
    "renew": {"extendLocks-1"},
    "finish": {"moveToFinished-14"},
    "delay": {"moveToDelayed-11"},
    "retry": {"retryJob-11"},
    "wait_children": {"moveToWaitingChildren-7"},
}


def span_name(line: Line) -> str:
    """The operation in a span's name, from the line's `op` and `target`."""
    if line["op"] == "finish":
        return {"completed": "complete", "failed": "fail"}[line["target"]]
    return {"reap": "stall"}.get(line["op"], line["op"])


def draw_the_story(cell: Cell, job_id: str, lines: list[Line], spans: list[Span]) -> None:
    """One trace: a `process` root for each attempt, and below it what was done in it."""
    attempts = {span.span_id: span for span in spans if span.name == f"process {QUEUE}"}
    assert len(attempts) == len([line for line in lines if line["op"] == "acquire"])
    for attempt in attempts.values():
        assert attempt.kind == "CONSUMER"
        assert not attempt.parent_id
        assert attempt.status == "UNSET"
    for line in lines:
        name = f"{span_name(line)} {QUEUE}"
        mine = [span for span in spans if span.name == name and span.attributes["emq.lock.token"] == line["token"]]
        assert mine, f"no {name} of {line['token']}"
        for span in mine:
            attempt = attempts[span.parent_id]
            assert attempt.attributes["emq.lock.token"] == line["token"]
            assert span.kind == "CLIENT"
            assert span.status == "UNSET"
            assert attempt.start_ns <= span.end_ns <= attempt.end_ns
            attributes = span.attributes
            assert attributes["messaging.system"] == ("echomq" if cell.prefix == "emq" else "bullmq")
            assert attributes["messaging.destination.name"] == QUEUE
            assert attributes["messaging.message.id"] == job_id
            assert attributes["emq.job.key"] == f"{cell.prefix}:{QUEUE}:{job_id}"
            assert attributes["emq.script.match"] == "catalogue"
            assert attributes["db.stored_procedure.name"] in SCRIPTS[line["op"]]
            assert attributes["emq.lock.finding"] == "sound"
            assert attributes.get("emq.violation", False) is False


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_blocked_loop_is_graded_as_it_happens(cell: Cell) -> None:
    queue = "grades"
    blocked = {"late": 0.68, "critical": 0.88, "too_late": 1.2}
    with open_stage() as stage:
        jobs = [job("block", grade, {"ms": int(share * LOCK_MS)}) for grade, share in blocked.items()]
        stage.add(cell, queue, *jobs)
        worker = stage.worker(cell, queue)
        for grade in blocked:
            worker.wait(event="completed", job=grade)
            stage.wait_line(cell, queue, grade, op="finish", outcome="ok")
        worker.close()
        for grade in ("late", "critical"):
            late_but_lucky(stage, cell, queue, grade)
        too_late(stage, cell, queue)
        stage.end_and_search()


def late_but_lucky(stage: Stage, cell: Cell, queue: str, grade: str) -> None:
    """The renewal came late and was accepted: graded on line, span and log, with the same figures."""
    lines = stage.lines(cell, queue, grade)
    assert [line["op"] for line in lines] == ["acquire", "renew", "finish"]
    renewal = lines[1]
    assert renewal["outcome"] == "ok"
    figures(renewal, grade)
    assert renewal["remaining_ms"] > 0
    assert {line["finding"] for line in lines} == {"sound"}
    spans = stage.wait_spans(cell, queue, grade, f"acquire {queue}", f"renew {queue}", f"complete {queue}")
    drawn(spans, f"renew {queue}", renewal)
    logged(stage, renewal)


def too_late(stage: Stage, cell: Cell, queue: str) -> None:
    """The lock ended first: the lapse at its deadline, while the worker stood still; then refusals; then once more."""
    lines = stage.lines(cell, queue, "too_late")
    granted, lapse = lines[:2]
    assert (granted["op"], lapse["op"]) == ("acquire", "lapse")
    assert (lapse["outcome"], lapse["token"]) == ("told", granted["token"])
    overdue_ms = (instant(lapse) - instant(granted)).total_seconds() * 1000 - LOCK_MS
    assert 0 <= overdue_ms <= 500, "told at the deadline, while the worker stood still"
    renewal = next(line for line in lines if line["op"] == "renew")
    assert (renewal["outcome"], renewal["code_name"]) == ("refused", "RenewRefused")
    figures(renewal, "too_late")
    assert renewal["remaining_ms"] < 0
    refused = [line for line in lines if line["op"] == "finish" and line["outcome"] == "refused"]
    assert refused
    for line in refused:
        assert (line["code"], line["code_name"], line["effect"]) == (-2, "JobLockNotExist", "absent")
        assert line["token"] == granted["token"]
        assert line["finding"] == "straggler"
    assert [line["op"] for line in lines if line["outcome"] == "ok"] == ["acquire", "reap", "acquire", "finish"]
    names = ["acquire", "lapse", "renew", "stall", "acquire", "complete", "process", "process"]
    spans = stage.wait_spans(cell, queue, "too_late", *(f"{name} {queue}" for name in names))
    drawn(spans, f"renew {queue}", renewal)
    first = next(s for s in spans if s.name == f"process {queue}")
    assert (first.status, first.attributes["error.type"]) == ("ERROR", "LockLost")
    told = next(s for s in spans if s.name == f"lapse {queue}")
    assert (told.kind, told.parent_id, told.start_ns + 1) == ("INTERNAL", first.span_id, told.end_ns)
    logged(stage, renewal)
    logged(stage, lapse)


def figures(renewal: Line, grade: str) -> None:
    """The grade, and age and remainder that add up to the lock's time to live."""
    assert renewal["grade"] == grade
    assert renewal["age_ms"] + renewal["remaining_ms"] == pytest.approx(LOCK_MS, abs=1)
    # Our own pauses are taken off an age, and on a busy machine there are some; that it came too late stands.
    low, high = {"late": (0.6, 0.8), "critical": (0.8, 1.0), "too_late": (0.8, 2.0)}[grade]
    assert low * LOCK_MS <= renewal["age_ms"] <= high * LOCK_MS


def drawn(spans: list[Span], name: str, line: Line) -> None:
    """A span with this line's grade and figures."""
    span = next(s for s in spans if s.name == name and s.attributes.get("emq.lock.grade") == line["grade"])
    assert span.attributes["emq.lock.age_ms"] == line["age_ms"]
    assert span.attributes["emq.lock.remaining_ms"] == line["remaining_ms"]
    assert span.attributes["emq.lock.token"] == line["token"]
    assert span.attributes["emq.violation"] is True
    assert span.status == ("UNSET" if line["outcome"] == "ok" else "ERROR")
    assert span.attributes.get("error.type") == line["code_name"]


def logged(stage: Stage, line: Line) -> None:
    """A log line with this line's grade and figures."""
    same = ("seq", "queue", "job", "grade", "age_ms", "remaining_ms")
    stage.proxy.wait_log(lambda said: all(said.get(name) == line[name] for name in same))
