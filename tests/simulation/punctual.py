"""Threads that run when their time has come, also on a busy machine: where the kernel lets us ask for that."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from emqproxy.simulation.outcome import Outcome
from tests.processes import RedisServer
from tests.simulation.agreement import Instant, instants
from tests.simulation.real import RealCourse

_PRIORITY = 10


def prompt(pid: int = 0) -> None:
    """This thread (and those it starts), or a process, goes before others. Only root may; else nothing changes."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(_PRIORITY))


def play_all(
    server: RedisServer, outcomes: Sequence[Outcome], at_once: int
) -> list[tuple[Outcome, list[Instant], float]]:
    """Each outcome, all its instants as simulated and as real, and our own lateness in ms while it was played."""
    prompt(server.pid)

    def play(outcome: Outcome) -> tuple[Outcome, list[Instant], float]:
        real = RealCourse(server.port, outcome)
        real.play()
        return outcome, list(instants(outcome, real)), real.slack_ms

    with ThreadPoolExecutor(at_once, initializer=prompt) as pool:
        return list(pool.map(play, outcomes))
