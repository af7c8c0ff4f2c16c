"""The span of a sweep that named jobs: a trace of its own, with a link to each job's `stall` span.

Its lines come one by one, one for each job named; the span is made when as many have come as the sweep named, or when
later sweeps have pushed it out (a line was dropped).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from opentelemetry.trace import Link, SpanKind

from emqproxy.locks.events import LockFact
from emqproxy.observer import attributes
from emqproxy.observer.draft import Draft, Group, context_of
from emqproxy.observer.emitter import Emitter
from emqproxy.observer.names import queue_name
from emqproxy.observer.timeline import Timeline
from emqproxy.records import Hello, Record

_WAITING_MAX: Final = 64
_LINKS_MAX: Final = 128
"""What the SDK keeps of a span's links."""


class _Call(NamedTuple):
    conn: int
    request: int


class _Group:
    def __init__(self, record: Record, fact: LockFact) -> None:
        self.record = record
        self.fact = fact
        self.links: list[Link] = []
        self.seen = 0


class Sweeps:
    """Gathers the lines of one call."""

    def __init__(self, hello: Hello, timeline: Timeline, emitter: Emitter) -> None:
        self._hello = hello
        self._timeline = timeline
        self._emitter = emitter
        self._waiting: OrderedDict[_Call, _Group] = OrderedDict()

    def named(self, record: Record, fact: LockFact, trace_id: int, span_id: int | None) -> None:
        """A sweep named this job. `span_id` is its `stall` span's, None where that was not sampled."""
        call = _Call(fact.place.conn, fact.place.request)
        group = self._waiting.get(call)
        if group is None:
            group = self._waiting[call] = _Group(record, fact)
            if len(self._waiting) > _WAITING_MAX:
                self._make(self._waiting.popitem(last=False)[1])
        group.seen += 1
        if span_id is not None and len(group.links) < _LINKS_MAX:
            group.links.append(Link(context_of(trace_id, span_id), {"emq.link": "stalled"}))
        if group.seen >= (record.line.batch_size or 1):
            del self._waiting[call]
            self._make(group)

    def close(self) -> None:
        """Makes what was waiting for more lines."""
        while self._waiting:
            self._make(self._waiting.popitem(last=False)[1])

    def _make(self, group: _Group) -> None:
        record, fact = group.record, group.fact
        trace_id = self._emitter.random_trace()
        if not self._emitter.wants(trace_id, keep=False):
            return
        cells = attributes.of_operation("sweep", None, fact.queue, self._hello)
        cells |= attributes.of_call(record.call)
        cells |= attributes.of_peer(record.peer)
        cells["messaging.batch.message_count"] = record.line.batch_size or group.seen
        self._emitter.make(
            Draft(
                name=f"sweep {queue_name(fact.queue).queue}",
                kind=SpanKind.CLIENT,
                trace_id=trace_id,
                span_id=self._emitter.random_span(),
                start_ns=self._timeline.wall_ns(fact.window.opened),
                end_ns=self._timeline.wall_ns(fact.window.closed),
                attributes=(Group(cells),),
                links=tuple(group.links),
            )
        )
