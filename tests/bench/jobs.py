"""A real BullMQ worker as a client (`jobs.mjs`, npm bullmq as the end-to-end tests have it), and who adds its jobs."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.bench.contenders import Stage
from tests.e2e.peers import node_packages

CONCURRENCY: Final = 50
PER_S: Final = 1000
SPANS: Final = 3
"""For each job: `acquire`, `complete`, and the attempt's own, `process`."""


@dataclass(frozen=True)
class Done:
    """The worker's word when its last job is done."""

    jobs: int
    failed: int
    seconds: float
    cpu_s: float
    p50_ms: float
    """Between a job's processor being done and its being told completed: the call that finishes it."""
    p99_ms: float
    waited_p50_ms: float
    """Between a job's being added and its being told completed."""
    waited_p99_ms: float


class _Node:
    """One run of jobs.mjs; JSON lines come out of it."""

    def __init__(self, **config: Any) -> None:
        command = ["node", str(Path(__file__).with_name("jobs.mjs")), json.dumps(config)]
        environment = os.environ | {"E2E_PACKAGES": str(node_packages())}
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()
        for end in (self._popen.stdin, self._popen.stdout):
            assert end is not None
            end.close()

    def wait(self, event: str) -> dict[str, Any]:
        """Reads on to this event. An error is one of the run."""
        assert self._popen.stdout is not None
        for text in self._popen.stdout:
            line: dict[str, Any] = json.loads(text)
            if line.pop("event") == event:
                return line
            raise RuntimeError(f"the worker says {line}")
        raise RuntimeError(f"node ended before it was {event}: exit code {self._popen.wait()}")

    def say(self, what: str) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps({"do": what}) + "\n")


class Worker(_Node):
    """Connected through the contender, and waiting for `run`."""

    def __init__(self, stage: Stage, jobs: int) -> None:
        super().__init__(do="work", port=stage.port, jobs=jobs, concurrency=CONCURRENCY)
        self._jobs = jobs
        self.wait("ready")

    def run(self) -> Done:
        """Works until all jobs are done."""
        self.say("run")
        done = Done(**self.wait("done"))
        if done.failed or done.jobs != self._jobs:
            raise RuntimeError(f"not all jobs were completed: {done}")
        return done


class Producer(_Node):
    """Adds jobs at PER_S, past the contender, once it is told to `run`."""

    def __init__(self, stage: Stage, jobs: int) -> None:
        super().__init__(do="pace", port=stage.redis.port, jobs=jobs, per_s=PER_S)
        self.wait("ready")

    def run(self) -> None:
        self.say("run")


def fill(stage: Stage, jobs: int) -> None:
    """Adds jobs past the contender."""
    with _Node(do="fill", port=stage.redis.port, jobs=jobs) as node:
        node.wait("added")
