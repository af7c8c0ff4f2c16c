"""A worker is frozen, another killed, while each holds a job: its lock lapses, and another worker gets the job."""

from __future__ import annotations

import pytest

from tests.e2e.stage import Cell, Line, Stage, job, open_stage


@pytest.mark.parametrize(
    ("first", "second"),
    [(Cell("ioredis", "emq"), "python"), (Cell("python", "myapp"), "node-redis")],
    ids=["node-first", "python-first"],
)
def test_a_frozen_and_a_killed_worker_are_taken_over(first: Cell, second: str) -> None:
    heir = Cell(second, first.prefix)
    options = {"lockDuration": 2500, "lockRenewTime": 600, "stalledInterval": 800}
    with open_stage() as stage:
        olds, news = {}, {}
        for queue in ("frozen", "killed"):
            stage.add(first, queue, job("hold", "shift"))
            olds[queue] = stage.worker(first, queue, **options)
        for queue, old in olds.items():
            old.wait(event="renewed", job="shift")
            if queue == "frozen":
                old.stop()
            else:
                old.end()
            news[queue] = stage.worker(heir, queue, **options)
        for new in news.values():
            new.wait(event="active", job="shift")
        olds["frozen"].go_on()
        olds["frozen"].wait(event="renewal_refused", job="shift")
        olds["frozen"].tell(do="let", job="shift")
        stage.wait_line(first, "frozen", "shift", op="finish", outcome="refused")
        for queue, new in news.items():
            new.tell(do="let", job="shift")
            new.wait(event="completed", job="shift")
            stage.wait_line(first, queue, "shift", op="finish", outcome="ok")
            new.close()
        taken_over(stage, first, "killed")
        straggler(stage, first, taken_over(stage, first, "frozen"))
        stage.end_and_search()


def taken_over(stage: Stage, cell: Cell, queue: str) -> list[Line]:
    """One worker's lock lapsed, the sweep put the job back, another worker finished it."""
    lines = stage.lines(cell, queue, "shift")
    path = [line for line in lines if line["op"] not in ("renew", "lapse") and line["outcome"] != "refused"]
    assert [line["op"] for line in path] == ["acquire", "reap", "acquire", "finish"]
    granted, reap, taken, finish = path
    assert granted["token"] != taken["token"] == finish["token"]
    assert granted["worker"] != taken["worker"]
    assert (reap["target"], reap["script"], reap["effect"]) == ("wait", "moveStalledJobsToWait-9", "absent")
    assert {line["finding"] for line in path} == {"sound"}
    lapsed = the_lapse_is_told_unless_the_sweep_was_first(lines, reap)
    names = ["acquire", *["lapse"] * lapsed, "stall", "acquire", "complete", "process", "process"]
    spans = stage.wait_spans(cell, queue, "shift", *(f"{name} {queue}" for name in names))
    lost, kept = (s for s in spans if s.name == f"process {queue}")
    assert (lost.status, lost.attributes["emq.lock.token"]) == ("ERROR", granted["token"])
    assert (kept.status, kept.attributes["emq.lock.token"]) == ("UNSET", taken["token"])
    stall = next(s for s in spans if s.name == f"stall {queue}")
    assert (stall.kind, stall.parent_id) == ("INTERNAL", "")
    return lines


def the_lapse_is_told_unless_the_sweep_was_first(lines: list[Line], reap: Line) -> bool:
    """A sweep within a few milliseconds of the deadline proves the loss before time does; else time tells."""
    proof = [line for line in lines if line["effect"] in ("granted", "renewed") and line["seq"] < reap["seq"]][-1]
    slack_ms = 1 + proof["ttl_ms"] / 1000
    gone_ns = proof["closed_ns"] + int((proof["ttl_ms"] + slack_ms) * 1e6)
    lapses = [line for line in lines if line["op"] == "lapse"]
    assert len(lapses) <= 1
    assert lapses or reap["opened_ns"] <= gone_ns
    assert all(lapse["token"] == proof["token"] and lapse["seq"] < reap["seq"] for lapse in lapses)
    return bool(lapses)


def straggler(stage: Stage, cell: Cell, lines: list[Line]) -> None:
    """The first worker woke up while the second one held the job: refused, and named for what it is."""
    granted = lines[0]
    refused = [line for line in lines if line["outcome"] == "refused"]
    assert {line["op"] for line in refused} == {"renew", "finish"}
    for line in refused:
        assert line["token"] == granted["token"]
        assert line["finding"] == "straggler"
    assert {line["grade"] for line in refused if line["op"] == "renew"} == {"too_late"}
    finish = next(line for line in refused if line["op"] == "finish")
    assert (finish["code"], finish["code_name"], finish["effect"]) == (-6, "JobLockMismatch", "held_by_other")
    spans = stage.wait_spans(cell, "frozen", "shift", "complete frozen", "complete frozen", "renew frozen")
    failed = next(s for s in spans if s.attributes.get("emq.script.return_code") == -6)
    assert (failed.status, failed.attributes["error.type"]) == ("ERROR", "JobLockMismatch")
