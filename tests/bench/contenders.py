"""What stands between client and Redis in the benchmark: nothing, HAProxy, twemproxy, emqproxy in three ways.

Each is started afresh for each measurement, before a Redis that is fresh, too: what one run left behind (a warm
allocator, a queue of spans) is not the next one's. All listen on loopback and end by their pids.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tests.processes import LOOPBACK, EmqProxy, Process, RedisServer, children, eventually, free_port

Script: TypeAlias = Literal["own", "extendLock"]
"""Which of two scripts of the same work: a text nobody knows, or the protocol's own."""
EVERY_RENEWAL = "1000000000"


@dataclass(frozen=True)
class Contender:
    """One column of a comparison."""

    name: str
    script: Script
    """What it is measured with; it is compared with those measured with the same."""
    way: Literal["direct", "haproxy", "twemproxy", "emqproxy"]
    exports: bool = False

    @property
    def watches(self) -> bool:
        """Its locks must have been granted through it."""
        return self.way == "emqproxy" and self.script == "extendLock"

    @property
    def lacks(self) -> str | None:
        """The program that it needs and this machine has not."""
        program = {"haproxy": "haproxy", "twemproxy": "nutcracker"}.get(self.way)
        return program if program is not None and shutil.which(program) is None else None


CONTENDERS = (
    Contender("direct", "own", "direct"),
    Contender("haproxy", "own", "haproxy"),
    Contender("twemproxy", "own", "twemproxy"),
    Contender("relaying", "own", "emqproxy"),
    Contender("direct", "extendLock", "direct"),
    Contender("haproxy", "extendLock", "haproxy"),
    Contender("watching", "extendLock", "emqproxy"),
    Contender("tracing", "extendLock", "emqproxy", exports=True),
)


class Stage:
    """A Redis, a contender before it, and, where that exports, a collector. `open_stage` makes and ends it."""

    def __init__(self, redis: RedisServer, port: int) -> None:
        self.redis = redis
        self.port = port
        """Where the client connects."""
        self.proxy: Process | None = None
        self.receiver: Receiver | None = None
        self.ended: dict[str, Any] = {}
        """After `end`, of emqproxy: its last word, with `records` and `dropped`."""
        self.pids: dict[str, int] = {"redis": redis.pid}
        """By the part a process plays: `redis`, `proxy`, `observer`, `receiver`."""

    def end(self) -> None:
        """Ends the proxy, so that its last word can be read."""
        if isinstance(self.proxy, EmqProxy):
            self.proxy.end()
            self.ended = self.proxy.wait_log(lambda line: line.get("event") == "ended")


@contextlib.contextmanager
def open_stage(contender: Contender) -> Iterator[Stage]:
    """Everything started and ready."""
    with contextlib.ExitStack() as ends:
        redis = ends.enter_context(RedisServer(maxclients="10000"))
        stage = Stage(redis, redis.port)
        if contender.exports:
            stage.receiver = ends.enter_context(Receiver())
            stage.pids["receiver"] = stage.receiver.pid
        make = PROXIES.get(contender.way)
        if make is not None:
            stage.proxy, stage.port = make(stage)
            ends.callback(stage.proxy.stop)
            stage.pids["proxy"] = stage.proxy.pid
        if isinstance(stage.proxy, EmqProxy):
            stage.pids["observer"] = eventually(lambda: next(children(stage.pids["proxy"])), what="the observer")
        yield stage


class HaProxy(Process):
    """HAProxy in TCP mode, one thread, as emqproxy's data plane has one."""

    def __init__(self, upstream_port: int) -> None:
        super().__init__()
        self.port = free_port()
        (self.folder / "haproxy.cfg").write_text(
            "global\n    nbthread 1\n    maxconn 4000\n"
            "defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1h\n    timeout server 1h\n"
            f"listen redis\n    bind {LOOPBACK}:{self.port}\n    server redis {LOOPBACK}:{upstream_port}\n"
        )
        _start(self, ["haproxy", "-db", "-f", "haproxy.cfg"], self.port)


class Twemproxy(Process):
    """twemproxy with one Redis behind it: all clients share its one connection there."""

    def __init__(self, upstream_port: int) -> None:
        super().__init__()
        self.port = free_port()
        (self.folder / "nutcracker.yml").write_text(
            f"redis:\n  listen: {LOOPBACK}:{self.port}\n  redis: true\n  servers:\n   - {LOOPBACK}:{upstream_port}:1\n"
        )
        statistics = ["-s", str(free_port()), "-a", LOOPBACK]
        _start(self, ["nutcracker", "-c", "nutcracker.yml", *statistics], self.port)


class Receiver(Process):
    """A collector in a process of its own (`tests.bench.receiver`)."""

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        _start(self, [sys.executable, str(Path(__file__).with_name("receiver.py")), str(self.port)], self.port)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def counts(self) -> dict[str, int]:
        """Spans so far by the first word of their names."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/")
            counts: dict[str, int] = json.loads(connection.getresponse().read())
            return counts

    @property
    def spans(self) -> int:
        return sum(self.counts().values())


def _start(process: Process, command: list[str], port: int) -> None:
    """Starts it and waits until its port takes connections. What it says is in its folder's `log`."""
    try:
        with (process.folder / "log").open("wb") as log:
            process._spawn(command, stdout=log, stderr=subprocess.STDOUT)
        eventually(lambda: _accepts(process, port), what=f"{command[0]} listens")
    except BaseException:
        process.stop()
        raise


def _accepts(process: Process, port: int) -> bool:
    assert process.running, (process.folder / "log").read_text(errors="replace")[-300:]
    with socket.create_connection((LOOPBACK, port), timeout=5):
        return True


def _emqproxy(stage: Stage) -> tuple[Process, int]:
    environment = {"OTEL_TRACES_EXPORTER": "none"}
    if stage.receiver is not None:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": stage.receiver.url,
            "EMQPROXY_TRACE__RENEWALS_PER_ATTEMPT": EVERY_RENEWAL,
        }
    proxy = EmqProxy(stage.redis.url, "--journal", "", "--admin", f"{LOOPBACK}:{free_port()}", env=environment)
    return proxy, proxy.port


def _haproxy(stage: Stage) -> tuple[Process, int]:
    proxy = HaProxy(stage.redis.port)
    return proxy, proxy.port


def _twemproxy(stage: Stage) -> tuple[Process, int]:
    proxy = Twemproxy(stage.redis.port)
    return proxy, proxy.port


PROXIES: dict[str, Callable[[Stage], tuple[Process, int]]] = {
    "haproxy": _haproxy,
    "twemproxy": _twemproxy,
    "emqproxy": _emqproxy,
}
