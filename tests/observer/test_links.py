"""A producer may write anything into its carrier: what is well formed becomes a link, all else becomes none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.observer import ids, links
from emqproxy.records import JobFields

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_producers_context_is_a_link_with_its_state() -> None:
    job = JobFields(trace_context={"traceparent": TRACEPARENT, "tracestate": "vendor=1"})
    (link,) = links.of_job(job, "", 0)
    assert f"{link.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{link.context.span_id:016x}" == "b7ad6b7169203331"
    assert link.context.trace_state.get("vendor") == "1"


@pytest.mark.parametrize(
    "carrier",
    [
        {},
        {"traceparent": ""},
        {"traceparent": "ff" + TRACEPARENT[2:]},
        {"traceparent": TRACEPARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32)},
        {"traceparent": TRACEPARENT + "x" * 5_000},
        {"tracestate": "vendor=1"},
    ],
)
def test_a_malformed_one_is_none(carrier: dict[str, str]) -> None:
    assert links.of_job(JobFields(trace_context=carrier), "", 0) == []


@given(st.dictionaries(st.sampled_from(["traceparent", "tracestate", "baggage"]), st.text(max_size=80)))
def test_no_carrier_raises(carrier: dict[str, str]) -> None:
    links.of_job(JobFields(trace_context=carrier), "", 0)


def test_a_parent_job_is_a_link_to_its_trace() -> None:
    (link,) = links.of_job(JobFields(parent_key="emq:flows:9"), "prod", 3)
    assert link.context.trace_id == ids.trace_id("prod", 3, b"emq:flows:9")
    assert link.context.is_valid
