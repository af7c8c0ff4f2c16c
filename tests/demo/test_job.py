"""What a pickup's reply says, and how long a job waits after a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emqproxy.demo.job import backoff_ms, read_job


def fields(**more: str) -> list[str]:
    found = {"name": "n", "data": '{"a": 1}', "opts": "{}", "timestamp": "1", "ats": "1"} | more
    return [word for pair in found.items() for word in pair]


def test_a_job_is_read_as_its_producer_and_its_attempts_left_it() -> None:
    opts = {"attempts": 3, "backoff": {"type": "exponential", "delay": 100}, "lifo": True}
    job = read_job("7", fields(opts=json.dumps(opts), atm="1", stc="2", stacktrace='["one"]'), "t")
    assert (job.id, job.name, job.data, job.token) == ("7", "n", {"a": 1}, "t")
    assert (job.attempts, job.attempts_made, job.stalled, job.retries) == (3, 1, 2, True)
    assert (job.backoff_ms, job.opts, job.stacktrace, job.deferred_failure) == (200, opts, ("one",), None)
    assert not read_job("7", fields(opts=json.dumps(opts), atm="2"), "t").retries


def test_a_job_that_says_nothing_of_attempts_has_one() -> None:
    for opts in ({}, {"attempts": 0}, {"attempts": None}):
        job = read_job("7", fields(opts=json.dumps(opts)), "t")
        assert (job.attempts, job.retries, job.backoff_ms) == (1, False, 0)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (["processedOn", "1", "ats", "1"], "gone"),
        (fields(data="no json"), "cannot be read"),
        (fields(opts="[]"), "cannot be read"),
        (fields(opts='{"attempts": "many"}'), "cannot be read"),
        (fields(opts='{"attempts": 2, "backoff": {"delay": [1]}}'), "cannot be read"),
        (fields(stacktrace="1"), "cannot be read"),
        (fields(data="no json", defa="it stalled"), "it stalled"),
        (fields(defa="it stalled"), "it stalled"),
    ],
)
def test_what_cannot_be_worked_on_says_why(found: list[str], why: str) -> None:
    job = read_job("7", found, "t")
    assert why in str(job.deferred_failure)
    assert (job.id, job.token) == ("7", "t")


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (0, [0, 0, 0]),
        (250, [250, 250, 250]),
        ({"type": "fixed", "delay": 250}, [250, 250, 250]),
        ({"type": "exponential", "delay": 250}, [250, 500, 1000]),
        ({"type": "made up", "delay": 250}, [250, 250, 250]),
        ({"type": "exponential"}, [0, 0, 0]),
    ],
)
def test_the_back_off(backoff: Any, waits: list[int]) -> None:
    assert [backoff_ms(backoff, made) for made in range(3)] == waits


def test_jitter_takes_up_to_its_share() -> None:
    waits = {backoff_ms({"type": "fixed", "delay": 1000, "jitter": 0.5}, 0) for _ in range(200)}
    assert min(waits) >= 500
    assert max(waits) <= 1000
    assert len(waits) > 1
    assert {backoff_ms({"type": "fixed", "delay": 1000, "jitter": 0}, 0) for _ in range(20)} == {1000}


def test_nobody_sees_a_token_by_accident() -> None:
    assert "secret" not in repr(read_job("7", fields(), "secret"))
