"""Workers and producers of the release that lua/ stands for, and callers of lua/, share a queue through the proxy.

Ours adds what theirs works on, and the other way round; a job goes from hand to hand; each side's sweep finds what the
other left. Every line is known by its sha, and sound.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
import redis

from emqproxy.scripts import texts
from tests.e2e.stage import ENOUGH_S, PASSWORD, SECRET, Cell, Line, Stage, job, open_stage
from tests.processes import eventually

QUEUE = "shared"
LOCK_MS = 60_000
OPTIONS = {"lockDuration": LOCK_MS, "drainDelay": 1}
CELLS = [Cell("bullmq5", "bull"), Cell("python-bullmq2", "emq")]
ACQUIRE, COMPLETED = ("acquire", "ok", None), ("finish", "ok", "completed")


class Caller:
    """Speaks lua/ through the proxy, as a client would: SCRIPT LOAD, then EVALSHA."""

    def __init__(self, stage: Stage, cell: Cell) -> None:
        self.prefix = f"{cell.prefix}:{QUEUE}:"
        self.client = redis.Redis(port=stage.proxy.port, password=PASSWORD, decode_responses=True)
        self.shas: dict[str, str] = {}

    def call(self, name: str, keys: str, *arguments: Any) -> Any:
        """`keys`: words after the prefix; an argument that is no string or number goes packed."""
        if name not in self.shas:
            self.shas[name] = self.client.script_load(texts.load(name).text)
        assert self.shas[name] == texts.load(name).sha
        named = [self.prefix + key for key in keys.split()]
        plain = [a if isinstance(a, str | int) else msgpack.packb(a) for a in arguments]
        return self.client.evalsha(self.shas[name], len(named), *named, *plain)

    def add(self, name: str, job_id: str, **opts: Any) -> None:
        """A job as a producer adds it."""
        script, keys = "addStandardJob-9", "wait paused meta id completed delayed active events marker"
        if "delay" in opts:
            script, keys = "addDelayedJob-6", "marker meta id delayed completed events"
        elif "priority" in opts:
            script, keys = (
                "addPrioritizedJob-9",
                "marker meta id prioritized delayed completed active events pc",
            )
        what = [self.prefix, job_id, name, now_ms(), None, None, None, None, None]
        assert self.call(script, keys, what, json.dumps({"secret": SECRET}), {"attempts": 1} | opts) == job_id

    def pick(self, token: str, lock_ms: int = LOCK_MS) -> str | None:
        """The next job's id; None where there is none."""
        keys = "wait active prioritized events stalled limiter delayed paused meta pc marker"
        found = self.call(
            "moveToActive-11", keys, self.prefix, now_ms(), {"token": token, "lockDuration": lock_ms, "name": "ours"}
        )
        return found[1] if found[1] != 0 else None

    def finish(self, job_id: str, token: str, *, fetch: bool = False) -> Any:
        """Completes it: the code, or the next job's id."""
        keys = "wait active prioritized events stalled limiter delayed paused meta pc completed"
        opts = {"token": token, "lockDuration": LOCK_MS, "attempts": 1, "maxMetricsSize": "", "keepJobs": {"count": -1}}
        done = self.call(
            "moveToFinished-14", f"{keys} {job_id} metrics:completed marker", job_id, now_ms(), "returnvalue", '"ours"',
            "completed", "1" if fetch else "0", self.prefix, opts, "",
        )  # fmt: skip
        return done[1] if isinstance(done, list) else done

    def hash(self, job_id: str, *fields: str) -> list[str | None]:
        """Fields of a job."""
        found: list[str | None] = self.client.hmget(self.prefix + job_id, list(fields))
        return found


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(params=CELLS, ids=str)
def cell(request: pytest.FixtureRequest) -> Cell:
    found: Cell = request.param
    return found


@pytest.fixture
def stage() -> Iterator[Stage]:
    with open_stage() as opened:
        yield opened


def story(stage: Stage, cell: Cell, job_id: str) -> list[tuple[Any, ...]]:
    """Its moves so far."""
    lines = [line for line in stage.lines(cell, QUEUE, job_id) if line["op"] not in ("renew", "write")]
    return [(line["op"], line["outcome"], line["target"]) for line in lines]


def all_sound(stage: Stage, cell: Cell) -> list[Line]:
    """All lines of the queue's jobs: known by their sha, of that release's arities, and nothing wrong with any."""
    lines = [line for line in stage.proxy.journal() if line["queue"] == QUEUE and line["job"] is not None]
    for line in lines:
        where = f"{line['op']} of {line['job']} by {line['script']}"
        assert line["match"] == "catalogue" or line["op"] == "lapse", where
        if line["op"] == "renew" and line["finding"] == "doubtful":
            continue  # a worker's timer may speak for a job that it just finished
        assert line["finding"] == "sound" or line["op"] in ("add", "write"), (where, line["finding"])
        assert line["outcome"] in ("ok", "told"), where
    return lines


def end(stage: Stage, ours: Caller) -> None:
    """The proxy drains, and it serves connected clients on: ours goes first."""
    ours.client.close()
    stage.end_and_search()


def test_theirs_works_on_what_ours_adds(stage: Stage, cell: Cell) -> None:
    ours = Caller(stage, cell)
    worker = stage.worker(cell, QUEUE, **OPTIONS)
    worker.wait(event="ready")
    waits = b"cmd=bzpopmin"
    eventually(lambda: waits in stage.redis.call("CLIENT", "LIST"), ENOUGH_S, "the worker waits on the marker")
    ours.add("complete", "plain")
    worker.wait(event="completed", job="plain")
    ours.add("complete", "later", delay=300)
    ours.add("complete", "urgent", priority=3)
    ours.add("flaky", "again", attempts=2)
    for job_id in ("urgent", "again", "later"):
        worker.wait(event="completed", job=job_id)
        stage.wait_line(cell, QUEUE, job_id, op="finish", target="completed")
    worker.close()
    for job_id in ("plain", "later", "urgent"):
        assert story(stage, cell, job_id) == [ACQUIRE, COMPLETED]
        assert ours.hash(job_id, "atm", "ats", "delay")[:2] == ["1", "1"]
    assert story(stage, cell, "again") == [ACQUIRE, ("retry", "ok", None), ACQUIRE, COMPLETED]
    lines = all_sound(stage, cell)
    added = {line["job"]: line["sha"] for line in lines if line["op"] == "add"}
    assert added == {
        "plain": texts.load("addStandardJob-9").sha, "later": texts.load("addDelayedJob-6").sha,
        "urgent": texts.load("addPrioritizedJob-9").sha, "again": texts.load("addStandardJob-9").sha,
    }  # fmt: skip
    end(stage, ours)


def test_ours_works_on_what_theirs_adds_beside_their_worker(stage: Stage, cell: Cell) -> None:
    ours = Caller(stage, cell)
    worker = stage.worker(cell, QUEUE, **OPTIONS)
    worker.wait(event="ready")
    ours.add("hold", "held")
    worker.wait(event="active", job="held")  # busy with it, and takes no other
    stage.add(cell, QUEUE, job("complete", "first"), job("complete", "second"), job("complete", "third"))
    assert ours.pick("ours:1") == "first"
    assert ours.call("extendLock-2", "first:lock stalled", "ours:1", LOCK_MS, "first") == 1
    assert ours.call("extendLocks-1", "stalled", ours.prefix, ["ours:1"], ["first"], LOCK_MS) == []
    assert ours.call("updateProgress-3", "first events meta", "first", "50") == 0
    assert ours.finish("first", "ours:1", fetch=True) == "second"
    # The second goes back to the end that is taken first, the third to the delayed; their worker does both.
    assert ours.call("moveJobFromActiveToWait-9", "active wait stalled paused meta limiter prioritized marker events",
                     "second", "ours:1", f"{ours.prefix}second") == 0  # fmt: skip
    assert ours.pick("ours:2") == "second"
    keys = "active wait paused second meta events delayed prioritized pc marker stalled"
    assert ours.call("retryJob-11", keys, ours.prefix, now_ms(), "LPUSH", "second", "ours:2", "") == 0
    assert ours.pick("ours:3") == "third"
    keys = "marker active prioritized delayed third events meta stalled"
    assert ours.call("moveToDelayed-8", keys, ours.prefix, now_ms(), "third", "ours:3", 100, "1", "") == 0
    worker.tell(do="let", job="held")
    for job_id in ("held", "second", "third"):
        worker.wait(event="completed", job=job_id)
        stage.wait_line(cell, QUEUE, job_id, op="finish", target="completed")
    worker.close()
    assert ours.hash("first", "returnvalue", "pb", "progress", "atm") == ['"ours"', "ours", "50", "1"]
    assert ours.hash("second", "ats", "atm") == ["3", "2"]
    assert ours.hash("third", "ats", "atm", "delay") == ["2", "1", "0"]
    assert story(stage, cell, "first") == [ACQUIRE, COMPLETED]
    assert story(stage, cell, "second") == [
        ACQUIRE, ("wait", "ok", None), ACQUIRE, ("retry", "ok", None), ACQUIRE, COMPLETED
    ]  # fmt: skip
    assert story(stage, cell, "third") == [ACQUIRE, ("delay", "ok", None), ACQUIRE, COMPLETED]
    mine = {line["sha"] for line in all_sound(stage, cell)} & {texts.load(name).sha for name in texts.names()}
    assert mine == {texts.load(name).sha for name in ours.shas}
    end(stage, ours)


def test_each_side_sweeps_up_what_the_other_left(stage: Stage, cell: Cell) -> None:
    ours = Caller(stage, cell)
    ours.add("complete", "left")
    assert ours.pick("ours:1", lock_ms=200) == "left"
    worker = stage.worker(cell, QUEUE, lockDuration=4000, stalledInterval=400, drainDelay=1)
    worker.wait(event="completed", job="left")  # theirs swept, and theirs worked
    stage.add(cell, QUEUE, job("hang", "dropped"))
    worker.wait(event="active", job="dropped")
    worker.end()
    stage.wait_line(cell, QUEUE, "dropped", op="lapse")
    sweep = "stalled wait active stalled-check meta paused marker events"

    def swept() -> bool:
        return ours.call("moveStalledJobsToWait-8", sweep, 1, ours.prefix, now_ms(), 50) == ["dropped"]

    eventually(swept, ENOUGH_S, "two passes of our sweep")
    assert ours.hash("dropped", "stc", "defa") == ["1", None]
    assert ours.pick("ours:2") == "dropped"
    assert ours.finish("dropped", "ours:2") == 0
    stage.wait_line(cell, QUEUE, "dropped", op="finish", target="completed")
    told = [ACQUIRE, ("lapse", "told", None), ("reap", "ok", "wait"), ACQUIRE, COMPLETED]
    assert story(stage, cell, "left") == told
    assert story(stage, cell, "dropped") == told
    reaped = [line for line in all_sound(stage, cell) if line["op"] == "reap"]
    assert [line["sha"] == texts.load("moveStalledJobsToWait-8").sha for line in reaped] == [False, True]
    end(stage, ours)
