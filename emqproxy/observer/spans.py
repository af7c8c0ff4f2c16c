"""Records become spans, all of one job in one trace (TELEMETRY 2.1 to 2.5).

    process orders            the attempt, made once, when it is over
      ├ acquire orders        children of the attempt: what its token did
      ├ renew orders …
      ├ lapse orders          made by time
      └ complete orders
    stall orders              roots of the job's trace: what was done to the job by others

A sweep that named jobs has a trace of its own, with a link to each.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from opentelemetry.trace import Link, SpanKind

from emqproxy.locks.events import LockFact
from emqproxy.locks.verdicts import Attempt, End
from emqproxy.observer import attributes, links
from emqproxy.observer.board import Board, Notes
from emqproxy.observer.draft import Draft, Group
from emqproxy.observer.emitter import Emitter
from emqproxy.observer.groups import Groups
from emqproxy.observer.names import queue_name
from emqproxy.observer.sweeps import Sweeps
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import AttemptOver, Hello, Message, Record, Snapshot

_ENDED_MAX: Final = 16_384
"""Attempts remembered after their end, so that none is made twice."""


class Shape(NamedTuple):
    """How an operation is drawn."""

    name: str
    kind: SpanKind
    type: str | None
    """`messaging.operation.type`, where the standard has one for it."""


SHAPES: Final = {
    "add": Shape("add", SpanKind.PRODUCER, "send"),
    "acquire": Shape("acquire", SpanKind.CLIENT, "receive"),
    "renew": Shape("renew", SpanKind.CLIENT, None),
    "finish": Shape("finish", SpanKind.CLIENT, "settle"),
    "delay": Shape("delay", SpanKind.CLIENT, "settle"),
    "retry": Shape("retry", SpanKind.CLIENT, "settle"),
    "wait": Shape("wait", SpanKind.CLIENT, "settle"),
    "wait_children": Shape("wait_children", SpanKind.CLIENT, "settle"),
    "release": Shape("release", SpanKind.CLIENT, "settle"),
    "remove": Shape("remove", SpanKind.CLIENT, None),
    "reap": Shape("stall", SpanKind.INTERNAL, None),
    "lapse": Shape("lapse", SpanKind.INTERNAL, None),
}
"""By the journal's `op`; what is not here is no transition of a job and makes no span."""
_FINISHES: Final = {"completed": "complete", "failed": "fail"}
_ROOTS: Final = frozenset({"add", "reap", "remove"})
"""What is done to a job, not by its holder: never under an attempt."""


class Spans:
    """One consumer of messages, in order."""

    def __init__(self, hello: Hello, timeline: Timeline, tokens: Tokens, board: Board, emitter: Emitter) -> None:
        self._hello = hello
        self._namespace = hello.settings.namespace
        self._renewals_max = hello.settings.renewals_per_attempt
        self._timeline = timeline
        self._tokens = tokens
        self._board = board
        self._emitter = emitter
        self._sweeps = Sweeps(hello, timeline, emitter)
        self._ended: OrderedDict[int, bool] = OrderedDict()
        """Span id of an attempt that is over, and whether its span was made (it may not have been sampled)."""
        self._told = Groups(hello, tokens)

    def on(self, message: Message) -> None:
        """Makes the spans that this message is the end of."""
        match message:
            case Record():
                self._record(message)
            case AttemptOver():
                self._attempt_over(message.attempt)
            case Snapshot():
                self._board.restore(message)
            case _:
                pass

    def close(self) -> None:
        """Makes what was waiting for more."""
        self._sweeps.close()

    # ------------------------------------------------------------------ records

    def _record(self, record: Record) -> None:
        fact, verdict = record.verdict.fact, record.verdict
        violated = attributes.violates(record.line, verdict)
        if not self._is_over(verdict.attempt):  # a verdict that waited may come after its attempt's end
            self._board.seen(record, violated=violated, failed=attributes.error_type(record.line) is not None)
        if isinstance(fact, LockFact) and record.line.op in SHAPES and self._draws(record, violated=violated):
            made = self._operation(record, fact, violated=violated)
            if record.line.op == "reap":
                self._sweeps.named(record, fact, self._told.trace_id(fact.lock), made)
        for attempt in verdict.over:
            own = isinstance(fact, LockFact) and attempt.token == fact.token and attempt.lock == fact.lock
            self._attempt_over(attempt, attributes.state_after(record.line) if own else None)
        if violated and verdict.attempt is not None and verdict.attempt.end is not None:
            self._keep_late(verdict.attempt)

    def _draws(self, record: Record, *, violated: bool) -> bool:
        """The first renewal, every flagged one, and healthy ones up to the limit: judged from the attempt's own count,
        so that a restart of ours changes nothing."""
        attempt = record.verdict.attempt
        if record.line.op != "renew" or violated or record.line.outcome != "ok" or attempt is None:
            return True
        return attempt.renewals <= 1 or attempt.renewals - attempt.late <= self._renewals_max

    def _operation(self, record: Record, fact: LockFact, *, violated: bool) -> int | None:
        """Makes the span of one line; its id, or None where it was not sampled."""
        line, verdict, told = record.line, record.verdict, self._told
        trace_id, error = told.trace_id(fact.lock), attributes.error_type(line)
        if not self._emitter.wants(trace_id, keep=violated or error is not None):
            return None
        shape = SHAPES[line.op]
        name = _FINISHES.get(line.target or "", shape.name) if line.op == "finish" else shape.name
        groups = [
            told.operation(name, shape.type, fact.queue),
            told.speaker(fact.queue, fact.lock, fact.token),
            told.call(record.call),
            told.peer(record.peer),
            told.words(attributes.words_of(line, verdict, violated=violated)),
        ]
        if verdict.age_ms is not None or verdict.remaining_ms is not None or line.op == "renew":
            groups.append(Group(attributes.of_figures(line, verdict)))
        if line.job is not None:
            groups.append(Group(attributes.of_job(line.job)))
        start_ns = self._timeline.wall_ns(fact.window.opened)
        end_ns = self._timeline.wall_ns(fact.window.closed)
        if line.op == "lapse":
            start_ns = end_ns = self._timeline.wall_ns(verdict.at or fact.window.closed)
        span_id = self._emitter.random_span()
        self._emitter.make(
            Draft(
                name=f"{name} {queue_name(fact.queue).queue}",
                kind=shape.kind,
                trace_id=trace_id,
                parent_id=None if line.op in _ROOTS else self._parent_id(record, fact),
                span_id=span_id,
                start_ns=start_ns,
                end_ns=end_ns,
                attributes=tuple(groups),
                error=error,
            )
        )
        return span_id

    def _parent_id(self, record: Record, fact: LockFact) -> int | None:
        """The attempt of the speaker's token; of a lapse, which nobody spoke, the attempt that it ended."""
        attempt = record.verdict.attempt
        if attempt is None and record.line.op == "lapse":
            attempt = next((over for over in record.verdict.over if over.lock == fact.lock), None)
        if attempt is None or attempt.lock != fact.lock:
            return None
        return self._told.span_id(attempt)

    # ------------------------------------------------------------------ attempts

    def _attempt_over(self, attempt: Attempt, state: str | None = None) -> None:
        span_id = self._told.span_id(attempt)
        if span_id in self._ended:
            return
        made = self._process(attempt, self._board.over(attempt), span_id, state)
        self._ended[span_id] = made
        if len(self._ended) > _ENDED_MAX:
            self._ended.popitem(last=False)

    def _is_over(self, attempt: Attempt | None) -> bool:
        return attempt is not None and self._told.span_id(attempt) in self._ended

    def _keep_late(self, attempt: Attempt) -> None:
        """A violation after the end of an attempt that was not sampled: its span is made now, or the violation would
        stand below a parent that nobody made."""
        span_id = self._told.span_id(attempt)
        if self._ended.get(span_id) is False:
            notes = Notes(attempt, self._timeline.wall_ns(attempt.started.closed), violated=True)
            self._ended[span_id] = self._process(attempt, notes, span_id, None)

    def _process(self, attempt: Attempt, notes: Notes, span_id: int, state: str | None) -> bool:
        violated = notes.violated or attempt.late > 0 or attempt.refused > 0
        trace_id, told = self._told.trace_id(attempt.lock), self._told
        error = None if attempt.end is End.RELEASED else attributes.LOCK_LOST
        keep = violated or notes.failed or attempt.lapsed or error is not None
        if not self._emitter.wants(trace_id, keep=keep):
            return False
        groups = [
            told.operation("process", "process", attempt.queue),
            told.speaker(attempt.queue, attempt.lock, attempt.token),
            told.peer(notes.peer),
            told.summary(attributes.summary_of(attempt, state, violated=violated)),
        ]
        found: list[Link] = []
        if notes.job is not None:
            groups.append(Group(attributes.of_job(notes.job)))
            found = links.of_job(notes.job, self._namespace, attempt.lock.db)
        self._emitter.make(
            Draft(
                name=f"process {queue_name(attempt.queue).queue}",
                kind=SpanKind.CONSUMER,
                trace_id=trace_id,
                span_id=span_id,
                start_ns=notes.started_wall_ns,
                end_ns=self._timeline.wall_ns(_ended_at(attempt)),
                attributes=tuple(groups),
                links=tuple(found),
                error=error,
            )
        )
        return True


def _ended_at(attempt: Attempt) -> int:
    if attempt.ended is not None:
        return attempt.ended.closed
    return attempt.proved.closed + attempt.ttl_ms * 1_000_000
