"""What is kept: the same jobs on every sidecar, whole attempts, and every violation with the attempt above it."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from opentelemetry.trace import StatusCode

from emqproxy.locks.verdicts import Grade
from emqproxy.observer import ids
from emqproxy.observer.sampling import sampler_from_environment
from tests.observer.drawing import draw, memory, names, one, parent_id
from tests.observer.records_factory import Story, decided


def test_a_trace_is_whole_or_absent_and_the_trace_id_decides() -> None:
    sampler = TraceIdRatioBased(0.5)
    kept = 0
    for number in range(40):
        story = Story(job=b"%d" % number)
        spans = draw([story.acquire(0), story.renew(7_500), story.finish(9_000)], sampler=sampler)
        with memory(sampler) as (emitter, _):
            wanted = emitter.samples(ids.trace_of("", story.lock))
        assert len(spans) == (4 if wanted else 0)
        kept += wanted
    assert 0 < kept < 40


def test_a_violation_is_kept_with_its_attempt() -> None:
    story = Story()
    batch = [story.acquire(0), story.renew(7_500), story.renew(25_500, Grade.LATE), story.finish(26_000)]
    spans = draw(batch, sampler=ALWAYS_OFF)
    assert names(spans) == ["renew orders", "process orders"]
    process = one(spans, "process orders")
    assert parent_id(spans[0]) == process.context.span_id
    assert process.attributes["emq.violation"] is True


def test_a_lapse_is_kept_with_its_attempt_even_if_it_ends_well() -> None:
    story = Story()
    spans = draw([story.acquire(0), story.lapse(30_031), story.finish(30_040)], sampler=ALWAYS_OFF)
    assert names(spans) == ["lapse orders", "process orders"]


def test_a_straggler_brings_the_attempt_that_was_not_kept() -> None:
    story = Story()
    spans = draw([story.acquire(0), story.finish(5), story.finish_refused(9)], sampler=ALWAYS_OFF)
    assert names(spans) == ["complete orders", "process orders"]
    assert parent_id(spans[0]) == spans[1].context.span_id


def test_what_breaks_a_rule_is_kept_with_its_attempt_and_need_be_no_violation() -> None:
    story = Story()
    batch = [story.acquire(0), decided(story.renew(5), "would_block", "bad_duration"), story.finish(9)]
    spans = draw(batch, sampler=ALWAYS_OFF)
    assert names(spans) == ["renew orders", "process orders"]
    assert "emq.violation" not in one(spans, "process orders").attributes
    story = Story()
    spans = draw([story.acquire(0), story.finish(5), story.finish_blocked(9)], sampler=ALWAYS_OFF)
    assert names(spans) == ["complete orders", "process orders"]
    assert parent_id(spans[0]) == spans[1].context.span_id
    assert spans[0].attributes["emq.enforcement.rule"] == "lapsed_holder"
    assert spans[0].status.status_code is StatusCode.ERROR


def test_in_observe_mode_nothing_is_said_of_rules_and_in_the_others_of_every_call() -> None:
    story = Story()
    plain = draw([story.acquire(0), story.lapse(60_000)])
    assert not [span for span in plain if "emq.enforcement.action" in span.attributes]
    judged = draw([decided(Story().acquire(0), "passed")])
    assert [span.attributes["emq.enforcement.action"] for span in judged] == ["passed"]
    assert "emq.enforcement.rule" not in judged[0].attributes


@pytest.mark.parametrize(
    ("name", "argument", "description"),
    [
        ("", "", "ParentBased{root:AlwaysOnSampler"),
        ("always_off", "", "AlwaysOffSampler"),
        ("traceidratio", "0.25", "TraceIdRatioBased{0.25}"),
        ("parentbased_traceidratio", "0.5", "ParentBased{root:TraceIdRatioBased{0.5}"),
    ],
)
def test_the_standards_variables_choose(
    monkeypatch: pytest.MonkeyPatch, name: str, argument: str, description: str
) -> None:
    for variable, value in {"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument}.items():
        monkeypatch.delenv(variable, raising=False)
        if value:
            monkeypatch.setenv(variable, value)
    assert sampler_from_environment().get_description().startswith(description)
