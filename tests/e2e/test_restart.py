"""What dies, and what goes on: the observer, and the sidecar itself, killed while workers work."""

from __future__ import annotations

import os
import signal

from tests.e2e.stage import Cell, Line, Stage, job, open_proxy, open_stage
from tests.processes import children, eventually

HELD = "held"
# Longer than any client waits before it tries to connect again: redis-py doubles its pause each time.
LONG = {"lockDuration": 60_000, "lockRenewTime": 1000}


def test_a_killed_observer_is_missed_by_no_worker() -> None:
    cell, queue = Cell("python", "emq"), "orders"
    with open_stage() as stage:
        worker = stage.worker(cell, queue)
        stage.add(cell, queue, job("hold", HELD))
        worker.wait(event="active", job=HELD)
        renewal = stage.wait_line(cell, queue, HELD, op="renew")  # the next is half a second away: it reads nothing now
        (observer,) = children(stage.proxy.pid)
        os.kill(observer, signal.SIGSTOP)
        renewed = len(worker.find(event="renewed", job=HELD))
        worker.wait(event="renewed", job=HELD, count=renewed + 2)
        os.kill(observer, signal.SIGKILL)
        stage.proxy.wait_log(lambda said: said["event"] == "the observer ended and is started again")
        worker.tell(do="let", job=HELD)
        worker.wait(event="completed", job=HELD)

        stage.add(cell, queue, job("complete", "after"))
        worker.wait(event="completed", job="after")
        after = stage.wait_line(cell, queue, "after", op="finish")
        worker.close()
        assert not worker.find(event="error")
        assert after["run"] == renewal["run"]
        numbers = [line["seq"] for line in stage.proxy.journal()]
        assert numbers == list(range(1, len(numbers) + 1)), "what the dead one had not read, the next one did"
        eventually(lambda: set(children(stage.proxy.pid)) - {observer}, 20, "another observer")
        spans = stage.wait_spans(cell, queue, HELD, "complete orders", "process orders")
        (attempt,) = (span for span in spans if span.name == "process orders")
        assert attempt.attributes["emq.attempt.renewals"] >= 3
        assert attempt.attributes.get("emq.attempt.partial", False) is False
        stage.end_and_search()


def test_workers_come_back_to_a_sidecar_that_was_killed() -> None:
    cells = [Cell("ioredis", "emq"), Cell("node-redis", "bull"), Cell("python", "myapp")]
    with open_stage() as stage:
        workers = {cell: stage.worker(cell, "orders", **LONG) for cell in cells}
        for cell, worker in workers.items():
            stage.add(cell, "orders", job("hold", HELD))
            worker.wait(event="renewed", job=HELD)
        first = stage.proxy
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        with open_proxy(stage.redis, stage.receiver, "--listen", f"tcp://127.0.0.1:{first.port}") as second:
            stage.proxy = second
            seen = {cell: len(worker.find(event="renewed", job=HELD)) for cell, worker in workers.items()}
            for cell, worker in workers.items():
                worker.wait(event="renewed", job=HELD, count=seen[cell] + 1)
                worker.tell(do="let", job=HELD)
                worker.wait(event="completed", job=HELD)
                came_back(stage, cell)
                # A new job also shows that the blocking connection is back: ioredis never closes while it reconnects.
                stage.add(cell, "orders", job("complete", "next"))
                worker.wait(event="completed", job="next")
                worker.close()
            stage.end_and_search()
            stage.proxy = first


def came_back(stage: Stage, cell: Cell) -> None:
    """The new sidecar never saw the grant, says so, and accuses nobody."""
    stage.wait_line(cell, "orders", HELD, op="finish", outcome="ok")
    lines: list[Line] = stage.lines(cell, "orders", HELD)
    assert [line["op"] for line in lines if line["op"] != "renew"] == ["finish"]
    assert (lines[0]["op"], lines[0]["finding"], lines[0]["grade"]) == ("renew", "unwitnessed", "unknown")
    assert {line["finding"] for line in lines[1:]} == {"sound"}
    spans = stage.wait_spans(cell, "orders", HELD, "renew orders", "complete orders", "process orders")
    attempt = next(span for span in spans if span.name == "process orders")
    assert attempt.attributes["emq.attempt.partial"] is True
