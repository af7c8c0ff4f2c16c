"""One short history by every released client that we run: which scripts it speaks, and that its locks are told right.

test_workers.py has the whole life of a job, for three of them. Here stand the others: the lines before 6.x, and 6.x on
the drivers that people keep.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.e2e.stage import ENOUGH_S, Cell, Line, Stage, job, open_stage
from tests.processes import eventually

QUEUE = "clients"
LOCK_MS = 10_000
OPTIONS = {"lockDuration": LOCK_MS, "lockRenewTime": 1000}
ACQUIRE, RETRY = ("acquire", "ok", None), ("retry", "ok", None)
COMPLETED, FAILED = ("finish", "ok", "completed"), ("finish", "ok", "failed")
STORIES = {
    "done": [ACQUIRE, COMPLETED],
    "broken": [ACQUIRE, FAILED],
    "again": [ACQUIRE, RETRY, ACQUIRE, COMPLETED],
    "held": [ACQUIRE, COMPLETED],
}
JOBS = [job("complete", "done"), job("fail", "broken"), job("flaky", "again", attempts=2), job("hold", "held")]


class Client(NamedTuple):
    """What runs, and what it is known by on the wire."""

    cell: Cell
    bullmq: str
    driver: str
    waits_with: str
    scripts: dict[str, set[str]]


SIX = {
    "acquire": {"moveToActive-11", "moveToFinished-14"},
    "renew": {"extendLocks-1"},
    "retry": {"retryJob-11"},
    "finish": {"moveToFinished-14"},
}
FOUR = {
    "acquire": {"moveToActive-10", "moveToFinished-13"},
    "renew": {"extendLock-2"},
    "retry": {"retryJob-9"},
    "finish": {"moveToFinished-13"},
    "write": {"saveStacktrace-1"},
}
CLIENTS = [
    Client(Cell("ioredis5", "emq"), "6.7.0", "5.11.1", "bzpopmin", SIX),
    Client(Cell("bullmq5", "bull"), "5.65.1", "5.11.1", "bzpopmin", SIX),
    Client(Cell("bullmq4", "bull"), "4.18.3", "5.11.1", "brpoplpush", FOUR),
    Client(Cell("python-redis7", "emq"), "3.4.4", "7.4.1", "bzpopmin", SIX),
]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: f"{client.cell.kind}-{client.bullmq}")
def test_a_short_history_is_told_as_it_was(client: Client) -> None:
    cell = client.cell
    with open_stage() as stage:
        worker = stage.worker(cell, QUEUE, **OPTIONS)
        worker.wait(event="ready", bullmq=client.bullmq, driver=client.driver)
        waiting(stage, client.waits_with)
        stage.add(cell, QUEUE, *JOBS)
        renewed_twice(stage, cell)
        worker.tell(do="let", job="held")
        for job_id, story in STORIES.items():
            worker.wait(event="failed" if story[-1] is FAILED else "completed", job=job_id)
            target = story[-1][2]
            stage.wait_line(cell, QUEUE, job_id, op="finish", target=target)
        worker.close()
        for job_id, story in STORIES.items():
            told(client, stage.lines(cell, QUEUE, job_id), story)
        # It waited in a blocking command, which gave it the first job's id (4.x) or a marker (since 5.0).
        first = stage.lines(cell, QUEUE, "done")[0]
        assert first["script"] == min(client.scripts["acquire"])
        stage.end_and_search()


def waiting(stage: Stage, command: str) -> None:
    """The worker stands in its blocking command: the next job comes by it."""
    eventually(lambda: f"cmd={command} ".encode() in stage.redis.call("CLIENT", "LIST"), ENOUGH_S, command)


def renewed_twice(stage: Stage, cell: Cell) -> None:
    """The lock of the held job was renewed, and told so (4.x workers have no event for it)."""

    def look() -> bool:
        lines = stage.lines(cell, QUEUE, "held")
        return len([line for line in lines if line["op"] == "renew"]) >= 2

    eventually(look, ENOUGH_S, "two renewals")


def told(client: Client, lines: list[Line], story: list[Any]) -> None:
    """Each line in its place, by the right script, with the token that the lock was granted to."""
    moves = [line for line in lines if line["op"] not in ("renew", "write")]
    assert [(line["op"], line["outcome"], line["target"]) for line in moves] == story
    # Before 5.33 a stack trace is saved by a script of its own, which asks for no token.
    writes = [line for line in lines if line["op"] == "write"]
    assert len(writes) == ("write" in client.scripts and story in (STORIES["broken"], STORIES["again"]))
    for line in lines:
        where = f"{line['op']} of {line['job']}"
        assert line["match"] == "catalogue", where
        assert line["script"] in client.scripts[line["op"]], where
        assert line["finding"] in ("sound", "doubtful") or line in writes, where
        assert line["worker"] or line in writes, where
    assert {line["ttl_ms"] for line in lines if line["op"] in ("acquire", "renew")} == {LOCK_MS}
    for taken, left in zip(moves[::2], moves[1::2], strict=True):
        held = [line for line in lines if line not in writes and taken["seq"] <= line["seq"] <= left["seq"]]
        assert {line["token"] for line in held} == {taken["token"]}
        assert (taken["effect"], left["effect"]) == ("granted", "released")
