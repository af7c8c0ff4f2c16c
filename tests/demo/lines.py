"""The journal of a story as it should be, for tests of those who read it: each job's steps, with tokens and times."""

from __future__ import annotations

import datetime as dt
from typing import Any

from emqproxy.demo.expected import FINISH, LAPSE, REFUSAL, STEPS, SWEEP, TAKEOVER, Step
from emqproxy.demo.plan import LOCK_MS, PREFIX, QUEUE, STRANGER, STUCK

BEGAN = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)
STEP_S = 1.0
"""From one line to the next; a lapse comes a whole lock after the line before."""


def told(job: str) -> list[dict[str, Any]]:
    """The lines of one job, one for each of its steps, in order."""
    lines: list[dict[str, Any]] = []
    at_s = 0.0
    for step in STEPS[job]:
        at_s += LOCK_MS / 1000 if step.name == LAPSE else STEP_S
        lines.append(line(job, step, at_s))
    return lines


def line(job: str, step: Step, at_s: float) -> dict[str, Any]:
    """The line that a step asks for; of alternatives the first."""
    fields = {name: value[0] if isinstance(value, tuple) else value for name, value in step.fields.items()}
    second = step.name in (TAKEOVER, FINISH) and any(other.name == TAKEOVER for other in STEPS[job])
    nobody = fields["op"] in ("raw", "reap")
    closed_ns = round(at_s * 1e9)
    return {
        "time": (BEGAN + dt.timedelta(seconds=at_s)).isoformat(),
        "db": 0,
        "prefix": PREFIX,
        "queue": QUEUE,
        "job": job,
        "token": None if nobody else "other" if second else "first",
        "client_name": STRANGER if fields["op"] == "raw" else "worker-2" if second else "worker-1",
        "opened_ns": closed_ns - 1_000_000,
        "closed_ns": closed_ns,
        "ttl_ms": LOCK_MS,
        "age_ms": 2100.5,
        "remaining_ms": -900.5 if job == STUCK and step.name == REFUSAL else 899.5,
        "effect": {LAPSE: "lapsed", SWEEP: "absent", REFUSAL: "held_by_other"}.get(step.name, ""),
        **fields,
    }
