"""Everything that the story needs around it: the server, emqproxy before it, three workers, and the journal's lines."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from emqproxy.demo.children import Children
from emqproxy.demo.expected import Line
from emqproxy.demo.plan import PREFIX, QUEUE, WORKERS, gate_key
from emqproxy.demo.producer import add
from emqproxy.demo.server import find_server, free_ports, start_server

_READY_S: Final = 40.0
_ANSWER_S: Final = 10.0
"""How long a call of ours may take: a signal is heeded between two of them."""


class Stage(NamedTuple):
    """Where everything is, once it runs."""

    program: str
    """`redis-server` or `valkey-server`."""
    server_port: int
    sidecar_port: int
    health_port: int
    journal: Path

    @property
    def server_url(self) -> str:
        """The server itself."""
        return f"redis://127.0.0.1:{self.server_port}"

    @property
    def sidecar_url(self) -> str:
        """The server as the workers see it: through emqproxy."""
        return f"redis://127.0.0.1:{self.sidecar_port}"

    def add(self, job: str) -> None:
        """Adds a job, as a producer would."""
        asyncio.run(self._add(job))

    def call(self, name: str, *command: str) -> object:
        """One command through emqproxy, on a connection of this name."""
        with Redis.from_url(self.sidecar_url, client_name=name, socket_timeout=_ANSWER_S) as client:
            answer: object = client.execute_command(*command)
            return answer

    def open_gate(self, name: str) -> None:
        """Lets those who wait for it go on."""
        with Redis.from_url(self.server_url, socket_timeout=_ANSWER_S) as client:
            client.set(gate_key(name), "open")

    async def _add(self, job: str) -> None:
        async with AsyncRedis.from_url(self.sidecar_url, client_name="producer", socket_timeout=_ANSWER_S) as client:
            await add(client, QUEUE, "work", {}, prefix=PREFIX, job_id=job)


class JournalReader:
    """The lines of a journal that grows: each once, whole ones only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> Iterator[Line]:
        """What was written since."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                text = file.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for raw in whole.splitlines():
            yield json.loads(raw)


def set_up(children: Children, otlp: str | None) -> Stage:
    """Starts the server, and emqproxy before it. Raises CannotStartError, InterruptedDemo."""
    find_server()
    server_port, sidecar_port, health_port = free_ports(3)
    program = start_server(children, server_port, children.folder)
    stage = Stage(program, server_port, sidecar_port, health_port, children.folder / "journal.ndjson")
    argv = ["--listen", f"tcp://127.0.0.1:{stage.sidecar_port}", "--upstream", stage.server_url]
    argv += ["--journal", str(stage.journal), "--health", f"127.0.0.1:{stage.health_port}", "--admin", ""]
    environment = _environment()
    environment["OTEL_TRACES_EXPORTER"] = "none"
    environment["OTEL_METRICS_EXPORTER"] = "none"
    if otlp is not None:
        for name in ("OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
            environment.pop(name, None)
        environment |= {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": otlp}
    children.start("sidecar", [sys.executable, "-m", "emqproxy", "run", *argv], environment)
    children.wait_until(lambda: _is_ready(stage.health_port), "sidecar", _READY_S)
    return stage


def start_workers(children: Children, stage: Stage) -> None:
    """Starts the workers; returns when each of them waits for jobs."""
    for name in WORKERS:
        argv = [sys.executable, "-m", "emqproxy.demo.story_worker", name, stage.sidecar_url, stage.server_url]
        children.start(name, argv, _environment())
    with Redis.from_url(stage.server_url, socket_timeout=_ANSWER_S) as client:
        for name in WORKERS:
            children.wait_until(partial(_is_there, client, name), name, _READY_S)


def _environment() -> dict[str, str]:
    """Ours, less what would make another emqproxy of it than the one the story tells of."""
    return {name: value for name, value in os.environ.items() if not name.startswith("EMQPROXY_")}


def _is_there(client: Redis, name: str) -> bool:
    return client.exists(gate_key(name)) == 1


def _is_ready(port: int) -> bool:
    with suppress(OSError, http.client.HTTPException):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            link.request("GET", "/readyz")
            return link.getresponse().status == 200
        finally:
            link.close()
    return False
