"""A crowd of real workers and the jobs they are given, for tests in which everything else fails."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from typing import Any

import pytest
from bullmq import Queue

from tests.e2e.peers import Peer
from tests.processes import RedisServer, eventually

PREFIX = "emq"
OPTIONS = {
    "lockDuration": 30_000,
    "lockRenewTime": 4_000,
    "stalledInterval": 5_000,
    "maxStalledCount": 1_000_000,  # whoever is thrown out comes back: no job is given up
    "runRetryDelay": 500,
    "drainDelay": 2,
    "concurrency": 2,
}
WAITING_MAX = 100
"""Jobs of one queue; beyond them nothing is added until some are done."""
PACE_S = 0.2
CROWD = "../../long/crowd"
"""As `Peer` looks for a Node program."""


class Crowd:
    """`node` processes of `workers` bullmq workers each, and `python` PyPI workers; each worker has two connections."""

    def __init__(
        self, port: int, node: int, workers: int, python: int, reconnect_ms: int = 250, **options: Any
    ) -> None:
        self.connections = 2 * (node * workers + python)
        self.queues = [f"npm{number}" for number in range(node)] + ["pypi"] * bool(python)
        base = {"port": port, "prefix": PREFIX, "options": OPTIONS | options}
        self._ends = contextlib.ExitStack()
        self.node: list[Peer] = []
        self.python: list[Peer] = []
        try:
            for queue in self.queues[:node]:
                told = base | {"queue": queue, "workers": workers, "reconnect_ms": reconnect_ms}
                self.node.append(self._started("ioredis", CROWD, told))
            for _ in range(python):
                self.python.append(self._started("python", "worker", base | {"queue": "pypi"}))
            for peer in self.node + self.python:
                peer.wait(event="ready")
        except BaseException:
            self.end()
            raise

    def _started(self, kind: str, program: str, config: dict[str, Any]) -> Peer:
        peer = Peer(kind, program, config)
        self._ends.callback(peer.end)
        return peer

    def stir(self) -> None:
        """Connections are thrown away from now on."""
        for peer in self.node:
            peer.tell(do="stir")

    def calm(self) -> None:
        """No more connections are thrown away."""
        for peer in self.node:
            peer.tell(do="calm")

    def counts(self) -> dict[str, Any]:
        """What the npm workers count, together; `said`: their errors by their words."""
        total: dict[str, Any] = {"said": {}}
        for peer in self.node:
            seen = len(peer.find(event="counts"))
            peer.tell(do="count")
            for name, value in peer.wait(event="counts", count=seen + 1).items():
                if name == "said":
                    for words, times in value.items():
                        total["said"][words] = total["said"].get(words, 0) + times
                elif name != "event":
                    total[name] = total.get(name, 0) + value
        return total

    def close(self) -> None:
        """Each waits for its jobs and closes its connections; one that does not is ended: after many a reconnection a
        client may wait for itself, and all its jobs are done by now."""
        for peer in self.node + self.python:
            peer.tell(do="close")
        for peer in self.node + self.python:
            with contextlib.suppress(pytest.fail.Exception):
                peer.wait(event="closed", timeout=20)
        self.end()

    def end(self) -> None:
        """Certainly ended afterwards."""
        self._ends.close()


class Supply:
    """Adds jobs straight into Redis, so many a second, in a thread of its own, until told to stop."""

    def __init__(self, redis: RedisServer, queues: list[str], per_s: float, nap_ms_max: int, seed: int = 5) -> None:
        self.added = dict.fromkeys(queues, 0)
        self._redis, self._per_s, self._nap_ms_max = redis, per_s, nap_ms_max
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._supply()), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    async def _supply(self) -> None:
        connection = {"host": "127.0.0.1", "port": self._redis.port}
        queues = {name: Queue(name, {"connection": connection, "prefix": PREFIX}) for name in self.added}
        last, owed = time.monotonic(), dict.fromkeys(queues, 0.0)
        while not self._stop.is_set():
            now = time.monotonic()
            for name, queue in queues.items():
                owed[name] += (now - last) * self._per_s / len(queues)
                if self.added[name] - self._size(name, "completed") > WAITING_MAX:
                    owed[name] = 0.0
                jobs = [self._job(name, self.added[name] + place) for place in range(int(owed[name]))]
                if jobs:
                    await queue.addBulk(jobs)
                    self.added[name] += len(jobs)
                    owed[name] -= len(jobs)
            last = now
            await asyncio.to_thread(self._stop.wait, PACE_S)
        for queue in queues.values():
            await queue.close()

    def _job(self, queue: str, number: int) -> dict[str, Any]:
        ms = self._rng.randrange(1, self._nap_ms_max)
        return {"name": "nap", "data": {"ms": ms}, "opts": {"jobId": f"{queue}-{number}"}}

    def state(self) -> dict[str, tuple[int, int, int]]:
        """Of each queue: jobs added, completed, failed."""
        return {name: (added, self._size(name, "completed"), self._size(name, "failed"))
                for name, added in self.added.items()}  # fmt: skip

    def wait_done(self, timeout_s: float) -> None:
        """Until each job that was added is completed."""

        def look() -> bool:
            for name, (added, completed, failed) in self.state().items():
                assert (added, 0) == (completed, failed), f"{name}: {added} added, {completed} done, {failed} failed"
            return True

        eventually(look, timeout_s, "every job is done")

    def _size(self, queue: str, state: str) -> int:
        return int(self._redis.call("ZCARD", f"{PREFIX}:{queue}:{state}")[1:-2])
