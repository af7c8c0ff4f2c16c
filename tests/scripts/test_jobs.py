"""What of a job's hash may be told, and that nothing else is."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.records import JobFields
from emqproxy.scripts.jobs import CARRIER_CHARS_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, OPTS_BYTES_MAX, read_job
from emqproxy.scripts.jobs import trace_context as context

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CANARY = "payloadCANARYpayload"


def opts(carrier: object, **more: object) -> bytes:
    return json.dumps({"tm": carrier, "attempts": 3, "note": CANARY} | more).encode()


def test_the_fields_and_nothing_else():
    flat = [
        *(b"name", b"resize", b"data", CANARY.encode(), b"timestamp", b"1700000000000", b"atm", b"2", b"ats", b"3"),
        *(b"stc", b"1", b"parentKey", b"emq:parents:7", b"returnvalue", CANARY.encode()),
        *(b"opts", opts(json.dumps({"traceparent": PARENT, "tracestate": "a=1", "baggage": CANARY}))),
    ]
    job = read_job(flat)
    assert job == JobFields(
        name="resize",
        attempts_made=2,
        attempts_started=3,
        stalled_count=1,
        timestamp=1_700_000_000_000,
        trace_context={"traceparent": PARENT, "tracestate": "a=1"},
        parent_key="emq:parents:7",
    )
    assert CANARY.encode() not in msgspec.json.encode(job)
    assert read_job(dict(zip(flat[::2], flat[1::2], strict=True))) == job, "RESP 3 may give a map"


def test_the_counters_of_4_x_have_other_names():
    job = read_job([b"attemptsMade", b"4", b"stalledCounter", b"2"])
    assert (job.attempts_made, job.stalled_count) == (4, 2)


def test_a_ghost_job_has_no_fields():
    assert read_job([b"processedOn", b"1"]) == JobFields()


def test_long_and_broken_fields_are_cut_or_left_out():
    job = read_job([b"name", b"\xff" * 999, b"atm", b"many", b"timestamp", None, b"parentKey", b"k" * 9999, b"odd"])
    assert job.name == "\ufffd" * NAME_BYTES_MAX
    assert (job.attempts_made, job.timestamp) == (None, None)
    assert job.parent_key == "k" * KEY_BYTES_MAX


@pytest.mark.parametrize(
    "carrier",
    [
        json.dumps({"traceparent": PARENT}),
        json.dumps([["traceparent", PARENT]]),  # the older form
        [["traceparent", PARENT]],
        {"traceparent": PARENT},
        json.dumps({"Traceparent": PARENT, "tracestate": "x" * 600}),  # a tracestate past its limit is no part of it
        json.dumps({"traceparent": PARENT, "tracestate": "a\nb"}),
        json.dumps([["traceparent", PARENT], ["tracestate"], 7]),
    ],
)
def test_forms_of_a_carrier(carrier):
    assert context(opts(carrier)) == {"traceparent": PARENT}


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b'{"tm"',
        b'["tm"]',
        opts(None),
        opts(7),
        opts(json.dumps({"traceparent": PARENT}), omc=True),
        opts(json.dumps({"tracestate": "a=1"})),
        opts("not json"),
        opts(json.dumps({"traceparent": PARENT.upper()})),
        opts(json.dumps({"traceparent": PARENT + "\n"})),
        opts(json.dumps({"traceparent": "ff" + PARENT[2:]})),
        opts(json.dumps({"traceparent": "00-" + "0" * 32 + PARENT[35:]})),
        opts(json.dumps({"traceparent": PARENT[:36] + "0" * 16 + "-01"})),
        opts(json.dumps({"traceparent": PARENT, "x": "y" * CARRIER_CHARS_MAX})),
        opts(json.dumps({"traceparent": PARENT}), x="y" * OPTS_BYTES_MAX),
        b'{"tm":' + b"[" * 50_000,
        b'{"tm":"' + b"[" * 4_000 + b'"}',
        b'{"tm":"\xff"}',
    ],
)
def test_no_carrier(raw):
    assert context(raw) is None


@given(st.binary(max_size=200))
def test_no_options_make_it_raise(raw):
    context(b'{"tm":' + raw)
