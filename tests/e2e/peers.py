"""Real workers and producers as processes: JSON lines out, commands in, and waiting for a line instead of sleeping."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import bullmq
import pytest

from tests.e2e.packages import NODE, go_worker, node_packages, python_packages, redis_7

HERE = Path(__file__).parent
BULLMQ_5_65 = HERE.parent / "lua" / "bullmq-5.65.txt"
WAIT_S = 45.0
WHEEL_SCRIPTS = Path(bullmq.__file__).parent / "commands"


class Peer:
    """A worker or producer process.

    `kind`: `ioredis`, `ioredis5`, `node-redis` (npm bullmq), `bullmq5`, `bullmq4` (npm bullmq of those lines, with
    ioredis 5), `python`, `python-redis7`, `python-bullmq2` (PyPI bullmq; the last one with the scripts of npm 5.65.1),
    `go` (our own worker on go-redis; no producer) or `reference` (emqproxy's reference worker; no producer).
    """

    def __init__(self, kind: str, program: str, config: dict[str, Any]) -> None:
        environment = dict(os.environ)
        if kind == "go":
            command = [str(go_worker())]
            config = {**config, "commands": str(WHEEL_SCRIPTS)}
        elif kind == "reference":
            command = [sys.executable, "-W", "ignore", str(HERE / "reference_worker.py")]
        elif kind.startswith("python"):
            script = f"python_{'worker' if program == 'producer' else program}.py"
            command = [sys.executable, "-W", "ignore", str(HERE / script)]
            if kind == "python-redis7":
                environment["PYTHONPATH"] = str(redis_7())
            elif kind == "python-bullmq2":
                older = [python_packages("bullmq", BULLMQ_5_65), redis_7()]  # it was made before redis-py 8
                environment["PYTHONPATH"] = os.pathsep.join(map(str, older))
        else:
            environment["E2E_PACKAGES"] = str(node_packages())
            command = ["node", str(NODE / f"{program}.mjs")]
        self.lines: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by end()
        self.process = subprocess.Popen(
            [*command, json.dumps({**config, "adapter": kind})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
            env=environment,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def find(self, **fields: Any) -> list[dict[str, Any]]:
        """The lines so far that hold these fields."""
        return [line for line in self.lines if all(line.get(name) == value for name, value in fields.items())]

    def wait(self, count: int = 1, timeout: float = WAIT_S, **fields: Any) -> dict[str, Any]:
        """Waits for the nth line that holds these fields."""
        until = time.monotonic() + timeout
        with self._news:
            while len(found := self.find(**fields)) < count:
                ended = not self._reader.is_alive()
                if ended or not self._news.wait(max(0.0, until - time.monotonic())):
                    when = "never" if ended else "not yet"
                    pytest.fail(f"{count} x {fields} {when} among {self.lines}\n{self.stderr}")
        return found[count - 1]

    @property
    def stderr(self) -> str:
        """What it said on stderr so far."""
        self._errors.seek(0)
        return self._errors.read()

    def tell(self, **command: Any) -> None:
        """Sends one command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """SIGSTOP: the whole process stands still, its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """A graceful end: the worker waits for its jobs and closes its connections."""
        self.tell(do="close")
        self.wait(event="closed")
        assert self.process.wait(timeout=10) == 0, self.stderr

    def end(self) -> None:
        """Certainly ended afterwards, whatever state it was in."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self._errors):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass


def produce(kind: str, config: dict[str, Any]) -> list[str]:
    """Runs a producer to its end; the ids of the jobs it added."""
    peer = Peer(kind, "producer", config)
    try:
        assert peer.process.wait(timeout=WAIT_S) == 0, peer.stderr
        peer._reader.join()
        return [line["job"] for line in peer.find(event="added")]
    finally:
        peer.end()
