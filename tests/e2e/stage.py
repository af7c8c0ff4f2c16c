"""One stage a test: a Redis with a password, an OTLP receiver, the proxy between workers and Redis, and the workers."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.e2e.peers import Peer, produce
from tests.otlp_receiver import OtlpReceiver, Span
from tests.processes import EmqProxy, RedisServer, eventually

SECRET = "canary-payload-5d0c"
PASSWORD = "canary-password-77ab"
LOCK_MS = 4000
OPTIONS = {"lockDuration": LOCK_MS, "lockRenewTime": 1000, "stalledInterval": 1000, "runRetryDelay": 500}
ENOUGH_S = 30.0

Line = dict[str, Any]


class Cell(NamedTuple):
    """One place of the matrix: a client library, and the prefix of its keys."""

    kind: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.prefix}"


class Stage:
    """What a test plays on. `open_stage` makes it and ends it."""

    def __init__(self, redis: RedisServer, receiver: OtlpReceiver, proxy: EmqProxy, ends: contextlib.ExitStack) -> None:
        self.redis = redis
        self.receiver = receiver
        self.proxy = proxy
        self.peers: list[Peer] = []
        self._ends = ends

    def worker(self, cell: Cell, queue: str, **options: Any) -> Peer:
        """Starts a worker that speaks through the proxy."""
        peer = Peer(cell.kind, "worker", self._config(cell, queue) | {"options": OPTIONS | options})
        self._ends.callback(peer.end)
        self.peers.append(peer)
        return peer

    def add(self, cell: Cell, queue: str, *jobs: dict[str, Any], flows: Sequence[dict[str, Any]] = ()) -> None:
        """Adds jobs through the proxy, as their producers do."""
        added = produce(cell.kind, self._config(cell, queue) | {"jobs": jobs, "flows": flows})
        assert len(added) == len(jobs) + len(flows)

    def lines(self, cell: Cell, queue: str, job: str) -> list[Line]:
        """The journal's lines of one job so far, its addition left out."""
        mine = {"prefix": cell.prefix, "queue": queue, "job": job}
        lines = [line for line in self.proxy.journal() if has(line, **mine) and line["op"] != "add"]
        return sorted(lines, key=lambda line: line["seq"])

    def wait_line(self, cell: Cell, queue: str, job: str, **fields: Any) -> Line:
        """The first line of this job with these fields, written already or to come."""
        wanted = {"prefix": cell.prefix, "queue": queue, "job": job} | fields
        return self.proxy.wait_journal(lambda line: has(line, **wanted), ENOUGH_S)

    def spans(self, cell: Cell, queue: str, job: str) -> list[Span]:
        """The spans in the job's trace so far, by start."""
        trace = trace_id(f"{cell.prefix}:{queue}:{job}")
        return sorted(
            (span for span in self.receiver.spans() if span.trace_id == trace), key=lambda span: span.start_ns
        )

    def wait_spans(self, cell: Cell, queue: str, job: str, *names: str) -> list[Span]:
        """Waits until spans with these names are there, as often as they are named; all of the trace."""

        def look() -> list[Span]:
            spans = self.spans(cell, queue, job)
            lacking = Counter(names) - Counter(span.name for span in spans)
            assert not lacking, f"{lacking} of {job}'s spans"
            return spans

        return eventually(look, ENOUGH_S, f"the spans of {job}")

    def end_and_search(self) -> None:
        """Ends workers and proxy, then searches all that was told for what must never be told."""
        for peer in self.peers:
            peer.end()
        code = self.proxy.end()
        assert code == 0, (code, self.proxy.raw[-3:])
        self.proxy._reader.join(5)
        tokens = {line["token"] for peer in self.peers for line in peer.find(event="active")}
        assert tokens, "no token to search for"
        canaries = {SECRET, PASSWORD} | tokens | {token.rpartition(":")[0] for token in tokens}
        told = {
            "journal": self.proxy.journal_path.read_bytes(),
            "export": b"\n".join(self.receiver.bodies()),
            "log": "\n".join(self.proxy.raw).encode(),
        }
        for where, data in told.items():
            assert data, f"nothing was told in the {where}"
            for canary in canaries - {""}:
                assert canary.encode() not in data, f"{canary} stands in the {where}"

    def _config(self, cell: Cell, queue: str) -> dict[str, Any]:
        return {"port": self.proxy.port, "password": PASSWORD, "prefix": cell.prefix, "queue": queue}


@contextlib.contextmanager
def open_stage(*arguments: str) -> Iterator[Stage]:
    """A fresh stage; everything on it is ended afterwards, by its pid."""
    with contextlib.ExitStack() as ends:
        redis = ends.enter_context(RedisServer(requirepass=PASSWORD))
        receiver = ends.enter_context(OtlpReceiver())
        proxy = ends.enter_context(open_proxy(redis, receiver, *arguments))
        yield Stage(redis, receiver, proxy, ends)


def open_proxy(redis: RedisServer, receiver: OtlpReceiver, *arguments: str) -> EmqProxy:
    """A proxy before this Redis that exports to this receiver, soon after each span."""
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    upstream = f"redis://:{PASSWORD}@127.0.0.1:{redis.port}"
    return EmqProxy(upstream, *arguments, env=environment)


def job(name: str, job_id: str, data: dict[str, Any] | None = None, **opts: Any) -> dict[str, Any]:
    """A job for a producer; its payload is a canary."""
    return {"name": name, "data": {"secret": SECRET} | (data or {}), "opts": {"jobId": job_id} | opts}


def has(line: Line, **fields: Any) -> bool:
    """Whether the line holds these values."""
    return all(line.get(name) == value for name, value in fields.items())


def trace_id(key: str) -> str:
    """The trace of a job, computed here from its published formula: no namespace, database 0."""
    return hashlib.blake2b(b"\x000\x00" + key.encode(), digest_size=16, person=b"emqproxy.trace.1").hexdigest()


def instant(line: Line) -> dt.datetime:
    """The line's time."""
    return dt.datetime.fromisoformat(line["time"])
