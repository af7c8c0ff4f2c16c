"""Two sidecars, one Redis, one job: a worker behind the first loses it, one behind the second takes it over.

Who produced the job and who works on it export bullmq's own spans, too. All goes to one collector, whichever it is.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.e2e.peers import Peer, produce
from tests.e2e.stage import ENOUGH_S, PASSWORD, SECRET, job
from tests.otlp_receiver import Span
from tests.processes import EmqProxy, RedisServer, environment, eventually

JOB = "shift"
PREFIX = "bull"
NAMESPACE = "e2e/two-sidecars"
TOKEN_KEY = "canary-token-key-61c2"
HOSTS = ("node-a", "node-b")
PRODUCER, WORKERS = "shop", ("worker-a", "worker-b")
"""By these names the collector knows who exports bullmq's spans."""
OPTIONS = {"lockRenewTime": 600, "stalledInterval": 800}
LOCKS_MS = (4000, 15_000)
"""By sidecar: what the first worker loses is soon over; the second does not lose its own on however slow a machine."""
ENDS = {
    "frozen": ["acquire", "renew", "renew", "complete", "process"],
    "killed": ["acquire", "renew", "process"],
}
"""By queue: what is at least told of an attempt that its worker lost. The frozen one speaks again when it wakes."""
KEPT = ["add", "stall", "acquire", "complete", "process"]

SpansOf = Callable[[str], Sequence[Span]]


class Handover:
    """The stage with two doors to one Redis. `open_handover` makes it and ends it."""

    def __init__(self, redis: RedisServer, doors: Sequence[EmqProxy], url: str, ends: contextlib.ExitStack) -> None:
        self.redis, self.doors = redis, doors
        self.tokens: dict[str, list[str]] = {}
        """By queue: as the workers told them, the loser's first."""
        self._url, self._ends = url, ends
        self.trace_id = functools.cache(_trace_id)
        """Of a queue's job."""

    def begin(self, queue: str) -> Peer:
        """A producer adds the job through the first sidecar, a worker behind it gets it and renews once."""
        worker = self.worker(0, queue)  # starts while the producer does
        produce("ioredis", self._config(0, queue, PRODUCER) | {"jobs": [job("hold", JOB)]})
        worker.wait(event="renewed", job=JOB)
        return worker

    def lose(self, queue: str) -> tuple[Peer, Peer]:
        """As `begin`; then the worker is gone. It, and one behind the second sidecar that waits for the job."""
        old = self.begin(queue)
        new = self.worker(1, queue)
        if queue == "frozen":
            old.stop()
        else:
            old.end()
        return old, new

    def take_over(self, queue: str, old: Peer, new: Peer) -> None:
        """The worker behind the second sidecar sweeps the job and gets it; the first one wakes, is told, and ends; then
        the job is done."""
        new.wait(event="active", job=JOB)
        if queue == "frozen":
            old.go_on()
            old.wait(event="renewal_refused", job=JOB)
            old.tell(do="let", job=JOB)
            refused = {"queue": queue, "op": "finish", "outcome": "refused"}
            self.doors[0].wait_journal(lambda line: line.items() >= refused.items(), ENOUGH_S)
            old.close()
        new.tell(do="let", job=JOB)
        new.wait(event="completed", job=JOB)
        new.close()
        self.tokens[queue] = [peer.find(event="active")[0]["token"] for peer in (old, new)]

    def worker(self, door: int, queue: str) -> Peer:
        """A worker behind this sidecar."""
        options = OPTIONS | {"lockDuration": LOCKS_MS[door]}
        peer = Peer("ioredis", "worker", self._config(door, queue, WORKERS[door]) | {"options": options})
        self._ends.callback(peer.end)
        return peer

    def _config(self, door: int, queue: str, service: str) -> dict[str, Any]:
        otlp = {"url": self._url, "service": service}
        port = self.doors[door].port
        return {"port": port, "password": PASSWORD, "prefix": PREFIX, "queue": queue, "otlp": otlp}


def resource(host: str) -> dict[str, str]:
    """As a sidecar on this host says it. `ip`: by that alone Jaeger 2.13's page knows which spans share a clock."""
    return {"OTEL_RESOURCE_ATTRIBUTES": f"host.name={host},ip={host}"}


@contextlib.contextmanager
def open_handover(url: str) -> Iterator[Handover]:
    """Two sidecars as if on two hosts, before one Redis, that export to the collector at `url`."""
    with contextlib.ExitStack() as ends:
        redis = ends.enter_context(RedisServer(requirepass=PASSWORD))
        upstream = f"redis://:{PASSWORD}@127.0.0.1:{redis.port}"
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "EMQPROXY_TRACE__NAMESPACE": NAMESPACE,
            "EMQPROXY_TRACE__TOKEN_KEY": TOKEN_KEY,
        }
        doors = [ends.enter_context(EmqProxy(upstream, env=settings | resource(host), ready=False)) for host in HOSTS]
        for door in doors:
            door.wait_ready(60)
        yield Handover(redis, doors, url, ends)


def _trace_id(queue: str) -> str:
    """As a user computes it."""
    command = [sys.executable, "-m", "emqproxy", "trace-id", f"{PREFIX}:{queue}:{JOB}", "--namespace", NAMESPACE]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment(), timeout=60)
    return said.stdout.strip()


def fingerprint(token: str) -> str:
    """How a token is told, computed here from its published formula."""
    return hashlib.blake2b(
        token.encode(), digest_size=8, key=TOKEN_KEY.encode(), person=b"emqproxy.token.1"
    ).hexdigest()


def names(spans: Sequence[Span]) -> Counter[str]:
    """First words, counted."""
    return Counter(span.name.split(" ", 1)[0] for span in spans)


def wait_ended(spans_of: SpansOf, trace_id: str, queue: str) -> Sequence[Span]:
    """Waits until all that both sidecars have to tell of the job is with the collector."""

    def look() -> Sequence[Span]:
        spans = spans_of(trace_id)
        lacking = Counter([*ENDS[queue], *KEPT]) - names(spans)
        assert not lacking, f"{lacking} of {queue}"
        return spans

    return eventually(look, ENOUGH_S, f"the spans of {queue}")


def one_whole_trace(stage: Handover, queue: str, spans: Sequence[Span]) -> None:
    """Both sidecars' spans stand in it, each under an attempt that is there, or under nothing."""
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans), "a span's id was used twice"
    assert {span.resource["service.name"] for span in spans} == {"emqproxy"}
    assert {span.resource["host.name"] for span in spans} == set(HOSTS)
    lost, kept = (span for span in spans if span.name == f"process {queue}")
    roots = {span.name.split(" ")[0] for span in spans if not span.parent_id}
    assert roots == {"add", "stall", "process"}
    below = {
        attempt.span_id: names([span for span in spans if span.parent_id == attempt.span_id])
        for attempt in (lost, kept)
    }
    assert sum(map(Counter.total, below.values())) == len([span for span in spans if span.parent_id])
    assert below[lost.span_id] >= Counter(ENDS[queue][:-1])
    assert below[kept.span_id] >= Counter(["acquire", "complete"])
    assert set(below[lost.span_id]) <= {"acquire", "renew", "lapse", "complete", "fail"}
    assert set(below[kept.span_id]) <= {"acquire", "renew", "complete"}
    hosts = dict(zip((lost.span_id, kept.span_id), HOSTS, strict=True))
    for span in spans:
        owner = hosts.get(span.parent_id or span.span_id)
        if owner is not None:
            assert span.resource["host.name"] == owner, span.name
    lost_and_kept(stage, queue, lost, kept)
    told_as_is_the_standard(stage, queue, spans)


def lost_and_kept(stage: Handover, queue: str, lost: Span, kept: Span) -> None:
    """Two attempts under two tokens, told as fingerprints; the first one's loss is an error."""
    told = [fingerprint(token) for token in stage.tokens[queue]]
    assert [span.attributes["emq.lock.token"] for span in (lost, kept)] == told
    assert told[0] != told[1]
    assert (lost.status, lost.attributes["error.type"]) == ("ERROR", "LockLost")
    assert lost.attributes["emq.attempt.end"] == "lapsed"
    assert (kept.status, kept.attributes["emq.attempt.end"]) == ("UNSET", "released")
    assert "error.type" not in kept.attributes
    assert kept.attributes["emq.state.to"] == "completed"
    assert kept.attributes["emq.stall.count"] == 1


SHAPES = {
    "add": ("PRODUCER", "send"),
    "acquire": ("CLIENT", "receive"),
    "process": ("CONSUMER", "process"),
    "renew": ("CLIENT", None),
    "lapse": ("INTERNAL", None),
    "stall": ("INTERNAL", None),
    "complete": ("CLIENT", "settle"),
    "fail": ("CLIENT", "settle"),
}
SCRIPTS = {
    "add": "addStandardJob-9",
    "acquire": "moveToActive-11",
    "renew": "extendLocks-1",
    "stall": "moveStalledJobsToWait-9",
    "complete": "moveToFinished-14",
    "fail": "moveToFinished-14",
}


def told_as_is_the_standard(stage: Handover, queue: str, spans: Sequence[Span]) -> None:
    """Kind and attributes of each; what the woken worker was refused stands as an error."""
    key = f"{PREFIX}:{queue}:{JOB}"
    for span in spans:
        name, told = span.name.split(" ")[0], span.attributes
        assert (span.name, span.kind) == (f"{name} {queue}", SHAPES[name][0])
        assert span.scope == "emqproxy"
        assert told["messaging.operation.name"] == name
        assert told.get("messaging.operation.type") == SHAPES[name][1]
        assert (told["messaging.system"], told["messaging.destination.name"]) == ("bullmq", queue)
        assert (told["messaging.message.id"], told["emq.job.key"]) == (JOB, key)
        assert (told["db.system.name"], told["db.namespace"]) == ("redis", "0")
        assert (told["server.address"], told["server.port"]) == ("127.0.0.1", stage.redis.port)
        assert told.get("db.stored_procedure.name") == SCRIPTS.get(name), name
        assert told.get("emq.script.match") == ("catalogue" if name in SCRIPTS else None)
    if queue == "frozen":
        refused_in_words([span for span in spans if span.status == "ERROR" and "emq.outcome" in span.attributes])
    else:
        assert not any("emq.outcome" in span.attributes for span in spans)


def refused_in_words(refused: Sequence[Span]) -> None:
    """The woken worker's calls: its renewals, its completion and, as bullmq tries that next, its failure."""
    assert {span.name for span in refused} - {"fail frozen"} == {"renew frozen", "complete frozen"}
    for span in refused:
        told = span.attributes
        assert (told["emq.outcome"], told["emq.lock.finding"], told["emq.violation"]) == ("refused", "straggler", True)
        if span.name == "renew frozen":
            assert (told["emq.lock.grade"], told["error.type"]) == ("too_late", "RenewRefused")
            assert told["emq.lock.remaining_ms"] < 0
        else:
            assert (told["emq.script.return_code"], told["error.type"]) == (-6, "JobLockMismatch")


def linked_to_the_producer(queue: str, spans: Sequence[Span], spans_of: SpansOf) -> None:
    """What added the job, and each attempt on it, is linked to the producer's own span; the workers' own spans stand
    below that. A killed worker exported none: only here is its attempt told."""
    linked = [span for span in spans if span.links]
    assert names(linked) == Counter(add=1, process=2)
    (link,) = {(link.trace_id, link.span_id, link.attributes["emq.link"]) for span in linked for link in span.links}
    trace, span_id, kind = link
    assert kind == "producer"
    assert trace != spans[0].trace_id
    survivors = WORKERS if queue == "frozen" else WORKERS[1:]

    def look() -> Sequence[Span]:
        found = spans_of(trace)
        have = {span.resource["service.name"] for span in found if span.name == f"process {queue}"}
        assert have == set(survivors), have
        return found

    theirs = eventually(look, ENOUGH_S, "bullmq's own spans")
    (added,) = (span for span in theirs if span.span_id == span_id)
    assert (added.resource["service.name"], added.kind, added.name) == (PRODUCER, "PRODUCER", f"add {queue}.hold")
    own = [span for span in theirs if span.name == f"process {queue}"]
    assert [(span.kind, span.parent_id) for span in own] == [("CONSUMER", span_id)] * len(survivors)


def nothing_secret(stage: Handover, spans: Sequence[Span]) -> None:
    """No token, no password, no payload in anything that a span of ours tells."""
    tokens = [token for pair in stage.tokens.values() for token in pair]
    told = repr([(span, span.resource) for span in spans])
    for canary in (SECRET, PASSWORD, TOKEN_KEY, *tokens, *(token.rpartition(":")[0] for token in tokens)):
        assert canary, "no token to search for"
        assert canary not in told
