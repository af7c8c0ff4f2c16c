"""What is said at the end: each job's lock drawn, its trace, and what was not seen."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from emqproxy.demo.plan import JOBS, KILLED, SLOW, STUCK
from emqproxy.demo.summary import sum_up, timeline
from emqproxy.observer.ids import trace_id
from tests.demo.lines import told

WHOLE = [line for job in JOBS for line in told(job)]


def said(missing: list[str], otlp: str | None = None, width: int = 80) -> str:
    text = io.StringIO()
    sum_up(Console(file=text, width=width), WHOLE, {job: job for job in JOBS}, missing, otlp)
    return text.getvalue()


def test_each_job_is_drawn_and_has_its_trace() -> None:
    words = said([])
    for job in JOBS:
        assert f"\n{job}: " in words
        assert f"{trace_id('', 0, f'emq:demo:{job}'.encode()):032x}" in words
    assert words.count("given back") == len(JOBS)
    assert "computed from its key" in words
    assert "NOT complete" not in words


def test_where_the_spans_went_is_said() -> None:
    assert "sent to http://127.0.0.1:4318:" in said([], "http://127.0.0.1:4318")


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, said([], width=width).splitlines())) <= width


def test_what_was_not_seen_is_said_with_what_was() -> None:
    words = said(["stuck: the sweep that puts it back", "killed: the pickup"])
    assert "NOT complete. Not seen: stuck: the sweep that puts it back; killed: the pickup." in words
    assert "op=finish outcome=refused code=-6 effect=held_by_other finding=straggler" in words
    assert "All of it was seen" not in words


def test_a_blocked_worker_s_silence_is_drawn() -> None:
    (pause,) = timeline(WHOLE, STUCK, STUCK).holdings[0].pauses
    assert (pause.from_ms, pause.to_ms) == (1000, 7000), "from its renewal to its late finish"
    (pause,) = timeline(WHOLE, SLOW, SLOW).holdings[0].pauses
    assert (pause.from_ms, pause.to_ms) == (0, 1000), "from its pickup to its late renewal"
    assert not timeline(WHOLE, KILLED, KILLED).holdings[0].pauses, "the dead are not blocked"


def test_a_story_that_never_began_is_summed_up_too() -> None:
    text = io.StringIO()
    sum_up(Console(file=text, width=80), [], {job: job for job in JOBS}, ["healthy: the pickup"], None)
    assert "Not seen: healthy: the pickup" in text.getvalue()


def test_a_job_that_was_played_again_is_drawn_as_it_was_played_last() -> None:
    text = io.StringIO()
    ids = {job: job for job in JOBS} | {SLOW: "slow-2"}
    again = [{**line, "job": "slow-2"} for line in told(SLOW)]
    sum_up(Console(file=text, width=80), [*WHOLE, *again], ids, [], None)
    assert f"emq:demo:slow-2    {trace_id('', 0, b'emq:demo:slow-2'):032x}" in text.getvalue()
    assert "emq:demo:slow " not in text.getvalue()
