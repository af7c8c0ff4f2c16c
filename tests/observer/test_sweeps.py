"""One sweep that named jobs is one span, with a link to each."""

from __future__ import annotations

from tests.observer.drawing import draw, names, one
from tests.observer.records_factory import Numbers, Story, wall_ns


def test_a_sweep_links_to_every_job_it_named() -> None:
    numbers = Numbers()
    stories = [Story(job=b"%d" % n, numbers=numbers) for n in range(3)]
    spans = draw([story.reap(5, batch_size=3, request=11) for story in stories])
    assert names(spans) == ["stall orders"] * 3 + ["sweep orders"]
    sweep, stalls = spans[-1], spans[:-1]
    assert [(link.context.trace_id, link.context.span_id) for link in sweep.links] == [
        (stall.context.trace_id, stall.context.span_id) for stall in stalls
    ]
    assert sweep.context.trace_id not in {stall.context.trace_id for stall in stalls}
    assert sweep.attributes["messaging.batch.message_count"] == 3
    assert (sweep.start_time, sweep.end_time) == (wall_ns(5) - 400_000, wall_ns(5))


def test_two_sweeps_are_two_spans_though_their_lines_mix() -> None:
    stories = [Story(job=b"%d" % n) for n in range(4)]
    batch = [story.reap(5, batch_size=2, request=11 + n % 2) for n, story in enumerate(stories)]
    sweeps = [span for span in draw(batch) if span.name == "sweep orders"]
    assert [len(sweep.links) for sweep in sweeps] == [2, 2]


def test_a_sweep_whose_line_was_dropped_is_made_at_the_end() -> None:
    assert len(one(draw([Story().reap(5, batch_size=2)]), "sweep orders").links) == 1


def test_sweeps_that_wait_for_ever_are_bounded() -> None:
    numbers = Numbers()
    batch = [Story(job=b"%d" % n, numbers=numbers).reap(5, batch_size=2, request=n + 1) for n in range(100)]
    spans = draw(batch)
    assert names(spans[:-64]).count("sweep orders") == 36, "the oldest were made when the bound was reached"
    assert names(spans).count("sweep orders") == 100
