"""One job, told by two sidecars: a collector that only takes what it is sent has one whole trace of it."""

from __future__ import annotations

import pytest

from tests.e2e import handover
from tests.e2e.handover import open_handover
from tests.otlp_receiver import OtlpReceiver, Span


@pytest.mark.timeout(300)  # a dozen processes: on a machine that does much else they start slowly
def test_one_job_told_by_two_sidecars_is_one_whole_trace() -> None:
    with OtlpReceiver() as receiver:

        def spans_of(trace_id: str) -> list[Span]:
            return sorted((s for s in receiver.spans() if s.trace_id == trace_id), key=lambda span: span.start_ns)

        with open_handover(receiver.url) as stage:
            lost = {queue: stage.lose(queue) for queue in handover.ENDS}
            for queue, peers in lost.items():
                stage.take_over(queue, *peers)
            for queue in lost:
                spans = handover.wait_ended(spans_of, stage.trace_id(queue), queue)
                handover.one_whole_trace(stage, queue, spans)
                handover.linked_to_the_producer(queue, spans, spans_of)
                handover.nothing_secret(stage, spans)
            assert [door.end() for door in stage.doors] == [0, 0]
