"""What goes wrong during a soak, at random and without end: connections, Redis itself, the observer."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections import Counter

from tests.processes import EmqProxy, RedisServer, children
from tests.proxy.faulty import Middleman


class Devil:
    """Does what goes wrong, at random, in a thread of its own."""

    def __init__(self, redis: RedisServer, between: Middleman, proxy: EmqProxy, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self._redis, self._between, self._proxy = redis, between, proxy
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._between.heal()

    def _run(self) -> None:
        faults = [self.reset] * 4 + [self.kill] * 4 + [self.cut] * 2 + [self.stand_still, self.kill_observer]
        while not self._stop.wait(self._rng.uniform(0.3, 1.2)):
            fault = self._rng.choice(faults)
            try:
                fault()
            except (OSError, AssertionError) as error:
                self.failed.append(f"{fault.__name__}: {error!r}")
            self.done[fault.__name__] += 1

    def reset(self) -> None:
        self.done["connections reset"] += self._between.reset(self._rng.randrange(1, 12), self._rng)

    def kill(self) -> None:
        """CLIENT KILL of some that came through the middleman."""
        ports = self._between.ports()
        for port in self._rng.sample(ports, min(len(ports), self._rng.randrange(1, 6))):
            self._redis.call("CLIENT", "KILL", f"127.0.0.1:{port}")

    def cut(self) -> None:
        """For a moment all answers end too soon, after so many bytes on each connection."""
        self._between.cut(self._rng.randrange(1, 3000), self._rng.choice(["reset", "close"]))
        self._stop.wait(self._rng.uniform(0.02, 0.1))
        self._between.heal()

    def stand_still(self) -> None:
        self._redis.freeze()
        self._stop.wait(self._rng.uniform(0.1, 0.5))
        self._redis.thaw()

    def kill_observer(self) -> None:
        for pid in children(self._proxy.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
