"""A real Jaeger is told of one job by two sidecars and by bullmq itself, and shows one whole trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e import handover
from tests.e2e.handover import HOSTS, JOB, PREFIX, PRODUCER, WORKERS, Handover, open_handover
from tests.e2e.jaeger import BUILD, VARIABLE, Jaeger, missing, warnings
from tests.otlp_receiver import Span
from tests.processes import eventually


@pytest.fixture(name="jaeger")
def _jaeger() -> Iterator[Jaeger]:
    if lacking := missing():
        pytest.skip(lacking)
    # More than any clock here differs, so that what does not fit would be moved, not only warned of.
    with Jaeger(skew_max_s=60) as jaeger:
        yield jaeger


@pytest.mark.timeout(300)  # a dozen processes: on a machine that does much else they start slowly
def test_one_job_told_by_two_sidecars_is_one_whole_trace(jaeger: Jaeger) -> None:
    with open_handover(jaeger.url) as stage:
        lost = {queue: stage.lose(queue) for queue in handover.ENDS}
        for queue, peers in lost.items():
            stage.take_over(queue, *peers)
        for queue in lost:
            trace_id = stage.trace_id(queue)
            as_sent = handover.wait_ended(jaeger.spans, trace_id, queue)
            handover.one_whole_trace(stage, queue, as_sent)
            handover.linked_to_the_producer(queue, as_sent, jaeger.spans)
            handover.nothing_secret(stage, as_sent)
            shown_as_it_was_sent(jaeger, trace_id, as_sent)
        found_by_who_searches(jaeger, {queue: stage.trace_id(queue) for queue in lost})
        seen_if_it_were_not_whole(jaeger, stage)
        assert [door.end() for door in stage.doors] == [0, 0]


def shown_as_it_was_sent(jaeger: Jaeger, trace_id: str, as_sent: Sequence[Span]) -> None:
    """Jaeger finds nothing wrong with it, neither a parent that is missing nor an id used twice, and moves nothing."""
    shown = jaeger.shown(trace_id)
    assert warnings(shown) == []
    assert {(s.span_id, s.parent_id, s.start_ns, s.end_ns) for s in shown} == {
        (s.span_id, s.parent_id, s.start_ns, s.end_ns) for s in as_sent
    }
    assert jaeger.page_warnings(trace_id) == []


def found_by_who_searches(jaeger: Jaeger, traces: dict[str, str]) -> None:
    """By service and operation, by tags of the page's search; a lost job that nobody spoke for is found, too."""
    frozen, killed = traces["frozen"], traces["killed"]
    assert {"emqproxy", PRODUCER, *WORKERS} <= jaeger.services()
    assert jaeger.find("emqproxy", "process frozen") == {frozen}
    assert jaeger.find("emqproxy", "stall killed") == {killed}
    assert jaeger.search("emqproxy", emq__violation="true", emq__lock__finding="straggler") == {frozen}
    assert jaeger.search("emqproxy", emq__lock__grade="too_late") == {frozen}
    assert jaeger.search("emqproxy", error__type="LockLost") == {frozen, killed}
    assert jaeger.search("emqproxy", emq__job__key=f"{PREFIX}:killed:{JOB}") == {killed}
    assert jaeger.search("emqproxy", host__name=HOSTS[1], emq__attempt__end="released") == {frozen, killed}
    assert jaeger.search("emqproxy", emq__lock__finding="foreign") == set()


def seen_if_it_were_not_whole(jaeger: Jaeger, stage: Handover) -> None:
    """Of a job that is still worked on, Jaeger says that parents are missing: it would have said so above, too."""
    worker = stage.begin("open")
    trace_id = stage.trace_id("open")
    eventually(lambda: "renew open" in {span.name for span in jaeger.spans(trace_id)}, 30, "its first spans")
    assert any("is not in the trace" in warning for warning in warnings(jaeger.shown(trace_id)))
    worker.tell(do="let", job=JOB)
    worker.wait(event="completed", job=JOB)
    worker.close()


def test_without_one_it_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install Go" in str(missing())
    (tmp_path / "go").write_text("#!/bin/sh\n")
    (tmp_path / "go").chmod(0o755)
    said = str(missing())
    assert BUILD in said
    assert "install Go" not in said
    monkeypatch.setenv(VARIABLE, "/opt/jaeger")
    assert missing() is None
