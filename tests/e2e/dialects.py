"""How clients in other languages put the scripts on the wire: connections, order of calls, tokens. No client's code.

A dialect is a worker of one process (`languages` has them). It calls the published texts, read where their packages
lie; what differs is how a text gets to the server (EVALSHA first, EVAL always, SCRIPT LOAD ahead), over which
connections, and whose token it is.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import socket
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import hiredis
import msgpack

from tests.processes import LOOPBACK, eventually, inline
from tests.scripts import talk
from tests.scripts.older import old_texts
from tests.scripts.talk import PICK_KEYS, keys

Words = Sequence[Any]
HEALTHY_MS = 30_000
NOW_MS = 1_700_000_000_000
PROPERTY = {"completed": "returnvalue", "failed": "failedReason"}
REMEMBERED = 1000
"""Commands, and answers: some wires speak for hours."""


class Wire:
    """One connection: what is written in one go, and the answers in their order."""

    def __init__(self, port: int) -> None:
        self._begin(socket.create_connection((LOOPBACK, port), timeout=30))

    def _begin(self, connected: socket.socket) -> None:
        self._socket = connected
        self._reader = hiredis.Reader()
        self.asked: deque[str] = deque(maxlen=REMEMBERED)
        """The names of what was written."""
        self.heard: deque[Any] = deque(maxlen=REMEMBERED)
        """Its answers, in their order."""

    def write(self, *commands: Words) -> None:
        self.asked += [str(words[0]) for words in commands]
        parts = (inline(*(w if isinstance(w, bytes) else str(w) for w in words)) for words in commands)
        self._socket.sendall(b"".join(parts))

    def read(self) -> Any:
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(65_536)
            assert data, "the connection was closed"
            self._reader.feed(data)
        self.heard.append(reply)
        return reply

    def pipeline(self, *commands: Words) -> list[Any]:
        self.write(*commands)
        return [self.read() for _ in commands]

    def call(self, *words: Any) -> Any:
        return self.pipeline(words)[0]

    def close(self) -> None:
        self._socket.close()


class Dialect:
    """A worker process on `prefix` (with its colon), through `port`."""

    package = ""
    """The npm package whose scripts it calls; empty: those of the wheel."""
    sizes: tuple[int, ...] = (1,)
    one_token = False
    """It has one token for all its jobs."""
    gives_up = False
    """After a refused renewal it leaves the job alone."""
    fetches = "0"
    """ARGV 6 of its finish."""

    def __init__(self, port: int, prefix: bytes) -> None:
        self.prefix = prefix
        self.wires = [Wire(port) for _ in range(self.sizes[0])]
        self._turn = itertools.cycle(self.wires)
        self._id = str(uuid.uuid4())
        self._count = itertools.count(1)
        self.hello()

    def close(self) -> None:
        for wire in self.wires:
            wire.close()

    def hello(self) -> None:
        """What it says on connecting."""

    def wire(self) -> Wire:
        """The connection of the next call."""
        return next(self._turn)

    def token(self) -> str:
        return f"{self._id}:{next(self._count)}"

    def text(self, label: str) -> bytes:
        return old_texts(self.package)[label.rpartition("-")[0]][0] if self.package else talk.text_of(label)

    def run(self, label: str, rest: Words) -> Any:
        """EVALSHA; EVAL where the server does not know the script. `rest`: the number of keys, keys, arguments."""
        wire = self.wire()
        reply = wire.call("EVALSHA", sha(self.text(label)), *rest)
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT"):
            reply = wire.call("EVAL", self.text(label), *rest)
        assert not isinstance(reply, hiredis.ReplyError), reply
        return reply

    # ------------------------------------------------------------ the calls, as since 5.0

    def pick(self, token: str, ttl_ms: int = HEALTHY_MS) -> str | None:
        """Asks for a job; its id, None where there is none."""
        return job_id(self.run("moveToActive-11", talk.pick(token, ttl_ms, self.prefix)[2:]))

    def renew(self, jobs: dict[str, str], ttl_ms: int = HEALTHY_MS) -> list[str]:
        """Renews by job and token, one call each; those refused."""
        return [job for job, token in jobs.items() if not self.run("extendLock-2", self._renewal(job, token, ttl_ms))]

    def finish(self, job: str, token: str, target: str = "completed") -> Any:
        return self.run("moveToFinished-14", self._finish(job, token, target))

    def sweep(self) -> list[str]:
        """The ids that it moved to wait. Its guard holds for a millisecond."""
        names = ("stalled", "wait", "active", "stalled-check", "meta", "paused", "marker", "events", "repeat")
        if self.package:
            moved = self.run("moveStalledJobsToWait-8", self._keyed(names[:8], 1, self.prefix, NOW_MS, 1))
        else:
            moved = self.run("moveStalledJobsToWait-9", self._keyed(names, 1, self.prefix, NOW_MS, 1))
        return [job.decode() for job in moved]

    # ------------------------------------------------------------ their keys and arguments

    def _keyed(self, names: Iterable[str], *args: Any) -> Words:
        found = keys(*names, prefix=self.prefix)
        return [len(found), *found, *args]

    def _renewal(self, job: str, token: str, ttl_ms: int) -> Words:
        return self._keyed((f"{job}:lock", "stalled"), token, ttl_ms, job)

    def _renewals(self, jobs: dict[str, str], ttl_ms: int) -> Words:
        packed = (msgpack.packb(list(jobs.values())), msgpack.packb(list(jobs)))
        return self._keyed(("stalled",), self.prefix, *packed, ttl_ms)

    def _finish(self, job: str, token: str, target: str) -> Words:
        names = (*PICK_KEYS[:10], target, job, f"metrics:{target}", "marker")
        return self._keyed(
            names, job, NOW_MS, PROPERTY[target], "null", target, self.fetches, self.prefix, self._packed(token), ""
        )

    def _packed(self, token: str) -> bytes:
        keep = {"count": -1}
        told = {"token": token, "keepJobs": keep, "lockDuration": HEALTHY_MS}
        told |= {"attempts": 1, "attemptsMade": 0, "maxMetricsSize": ""}
        return msgpack.packb(told)


@functools.cache
def sha(text: bytes) -> bytes:
    return hashlib.sha1(text).hexdigest().encode()


def job_id(reply: Any) -> str | None:
    """Of a pickup's answer, or of a finish's that fetched the next job."""
    return reply[1].decode() if isinstance(reply, list) and reply[0] else None


def swept(dialect: Dialect, job: str) -> None:
    """A sweep marks what is active, the next one moves what has no lock."""
    eventually(lambda: job in dialect.sweep(), 30, f"{job} swept")


def take(worker: Dialect, *jobs: str) -> dict[str, str]:
    """Takes these jobs, each under the token of its turn."""
    held = {}
    for _ in jobs:
        token = worker.token()
        job = worker.pick(token)
        assert job is not None
        held[job] = token
    assert set(held) == set(jobs)
    return held
