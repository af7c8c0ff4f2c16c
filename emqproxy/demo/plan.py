"""What the demo will play: names and times, shared by its workers and by those who tell of them."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "emq"
QUEUE: Final = "demo"

HEALTHY: Final = "healthy"
SLOW: Final = "slow"
ROBBED: Final = "robbed"
STUCK: Final = "stuck"
KILLED: Final = "killed"
JOBS: Final = (HEALTHY, SLOW, ROBBED, STUCK, KILLED)
"""In the order in which they are played, one after the other."""
TITLES: Final = {
    HEALTHY: "a job as it should be: renewed at every quarter of its lock",
    SLOW: "a worker that computes for long without awaiting: it renews late",
    ROBBED: "a stranger deletes the lock of a job that is being worked on",
    STUCK: "a worker that computes for longer than its lock lives",
    KILLED: "a worker that is killed while it works",
}

WORKERS: Final = ("worker-1", "worker-2", "worker-3")
STRANGER: Final = "stranger"
"""Names that they give to their connections (CLIENT SETNAME), and by which the account tells them apart."""

LOCK_MS: Final = 3000
SWEEP_MS: Final = 1000
STALLS_MAX: Final = 9
"""How often a job may stall before it fails for good: on a machine that stands still now and then, none is to."""
BLOCKED_TO: Final = 0.70
"""The slow worker's event loop stands still until this share of its lock has passed: past 0.60 a renewal is late."""
LINGER_S: Final = 0.2
"""So long the blocked worker computes on when another has the job: that is known everywhere by then."""


def job_id(job: str, number: int) -> str:
    """The id under which a job is played for the first time, and again where the machine stood still for too long."""
    return job if number == 1 else f"{job}-{number}"


def played(job_id: str) -> str:
    """Which of JOBS is played under an id."""
    return job_id.partition("-")[0]


def job_key(job_id: str) -> str:
    """The key of a job's hash; its lock's is this and `:lock`."""
    return f"{PREFIX}:{QUEUE}:{job_id}"


def gate_key(name: str) -> str:
    """A key that is set when what waits for it may go on: the steps of the story wait for each other, not for time."""
    return f"emqproxy-demo:gate:{name}"


OVER: Final = "over"
"""The gate that lets the workers go home."""
