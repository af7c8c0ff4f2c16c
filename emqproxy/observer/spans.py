"""Records become spans, all of one job in one trace (TELEMETRY 2.1 to 2.5).

    process orders            the attempt, made once, when it is over
      ├ acquire orders        children of the attempt: what its token did
      ├ renew orders …
      ├ lapse orders          made by time
      └ complete orders
    add, remove, stall, raw orders   roots of the job's trace: what was done to the job by others

A sweep that named jobs has a trace of its own, with a link to each.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from opentelemetry.trace import Link, SpanKind

from emqproxy.locks.events import LockFact
from emqproxy.locks.verdicts import Attempt, End
from emqproxy.observer import attributes, ids, links
from emqproxy.observer.board import AttemptKey, Board, Notes, attempt_key
from emqproxy.observer.draft import Draft, Group
from emqproxy.observer.emitter import Emitter
from emqproxy.observer.groups import Groups, Holder
from emqproxy.observer.names import queue_name
from emqproxy.observer.sweeps import Sweeps
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import AttemptOver, Hello, Message, Record, Snapshot

_HOLDERS_MAX: Final = 16_384
"""Open attempts whose ids and names are kept at hand; about a kilobyte each."""
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
    "raw": Shape("raw", SpanKind.CLIENT, None),
    "reap": Shape("stall", SpanKind.INTERNAL, None),
    "lapse": Shape("lapse", SpanKind.INTERNAL, None),
}
"""By the journal's `op`; what is not here is no transition of a job and makes no span, unless a rule is broken."""
_WRITE: Final = Shape("write", SpanKind.CLIENT, None)
_FINISHES: Final = {"completed": "complete", "failed": "fail"}
_ROOTS: Final = frozenset({"add", "raw", "reap", "remove", "write"})
"""What is done to a job, not by its holder: never under an attempt."""


class Spans:
    """One consumer of messages, in order."""

    def __init__(self, hello: Hello, timeline: Timeline, tokens: Tokens, board: Board, emitter: Emitter) -> None:
        self._hello = hello
        self._namespace = hello.settings.namespace
        self.renewals_max = hello.settings.renewals_per_attempt
        self._timeline = timeline
        self._tokens = tokens
        self._board = board
        self._emitter = emitter
        self._sweeps = Sweeps(hello, timeline, emitter)
        self._ended: OrderedDict[AttemptKey, bool] = OrderedDict()
        """Attempts that are over, and whether their spans were made (they may not have been sampled)."""
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
        line, verdict = record.line, record.verdict
        fact, attempt = verdict.fact, verdict.attempt
        violated, error = attributes.violates(line, verdict), attributes.error_type(line)
        keep = violated or error is not None or record.rule is not None
        notes = None
        if attempt is not None and attempt_key(attempt) not in self._ended:
            # Otherwise it is a verdict that waited, and comes after its attempt's end.
            notes = self._board.seen(record, violated=violated, keep=keep)
        if isinstance(fact, LockFact) and self._draws(record, keep=keep):
            holder = self._holder(attempt, notes) if attempt is not None else None
            made = self._operation(record, fact, holder, violated=violated, keep=keep)
            if line.op == "reap":
                self._sweeps.named(record, fact, self._told.trace_id(fact.lock), made)
        for over in verdict.over:
            own = isinstance(fact, LockFact) and over.token == fact.token and over.lock == fact.lock
            self._attempt_over(over, attributes.state_after(line) if own else None)
        if (violated or record.rule is not None) and attempt is not None and attempt.end is not None:
            self._keep_late(attempt, violated=violated)

    def _draws(self, record: Record, *, keep: bool) -> bool:
        """The first renewal, every flagged one, and healthy ones up to the limit: judged from the attempt's own count,
        so that a restart of ours changes nothing."""
        attempt = record.verdict.attempt
        if record.line.op not in SHAPES:
            return record.rule is not None
        if record.line.op != "renew" or keep or record.line.outcome != "ok" or attempt is None:
            return True
        return attempt.renewals <= 1 or attempt.renewals - attempt.late <= self.renewals_max

    def _operation(
        self, record: Record, fact: LockFact, holder: Holder | None, *, violated: bool, keep: bool
    ) -> int | None:
        """Makes the span of one line; its id, or None where it was not sampled. `holder`: of the record's attempt."""
        line, verdict, told = record.line, record.verdict, self._told
        attempt = verdict.attempt
        if attempt is None or attempt.lock != fact.lock:
            holder = None
        trace_id = holder.trace_id if holder is not None else told.trace_id(fact.lock)
        if not self._emitter.wants(trace_id, keep=keep):
            return None
        if holder is not None and attempt is not None and attempt.token == fact.token:
            speaker = holder.speaker
        else:
            speaker = told.speaker(fact.queue, fact.lock, fact.token)
        parent_id = holder.span_id if holder is not None else self._ended_by(record, fact)
        shape = SHAPES.get(line.op, _WRITE)
        name = _FINISHES.get(line.target or "", shape.name) if line.op == "finish" else shape.name
        groups = [
            told.operation(name, shape.type, fact.queue),
            speaker,
            told.call(record.call),
            told.peer(record.peer),
            told.words(attributes.words_of(record, violated=violated)),
        ]
        if verdict.age_ms is not None or verdict.remaining_ms is not None or line.op == "renew":
            groups.append(Group(attributes.of_figures(line, verdict)))
        found: list[Link] = []
        if line.job is not None:
            groups.append(Group(attributes.of_job(line.job)))
            if line.op == "add":  # an acquire's are the attempt's
                found = links.of_job(line.job, self._namespace, fact.lock.db)
        start_ns = self._timeline.wall_ns(fact.window.opened)
        end_ns = self._timeline.wall_ns(fact.window.closed)
        if line.op == "lapse":
            start_ns = self._timeline.wall_ns(verdict.at or fact.window.closed)
            end_ns = start_ns + 1  # of no length at all, it would be shown by Jaeger with a warning
        span_id = self._emitter.random_span()
        self._emitter.make(
            Draft(
                name=f"{name} {queue_name(fact.queue).queue}",
                kind=shape.kind,
                trace_id=trace_id,
                parent_id=None if line.op in _ROOTS else parent_id,
                span_id=span_id,
                start_ns=start_ns,
                end_ns=end_ns,
                attributes=tuple(groups),
                links=tuple(found),
                error=attributes.error_type(line),
            )
        )
        return span_id

    def _ended_by(self, record: Record, fact: LockFact) -> int | None:
        """Of a lapse, which nobody spoke, the attempt that it ended."""
        for attempt in record.verdict.over if record.line.op == "lapse" else ():
            if attempt.lock == fact.lock:
                return ids.span_of(self._namespace, attempt.lock, attempt.token, attempt.number)
        return None

    # ------------------------------------------------------------------ attempts

    def _holder(self, attempt: Attempt, notes: Notes | None) -> Holder:
        if notes is None:
            return self._told.holder(attempt)
        if notes.holder is None:
            holder = self._told.holder(attempt)
            if len(self._board) > _HOLDERS_MAX:
                return holder
            notes.holder = holder
        return notes.holder

    def _attempt_over(self, attempt: Attempt, state: str | None = None) -> None:
        key = attempt_key(attempt)
        if key in self._ended:
            return
        self._ended[key] = self._process(attempt, self._board.over(attempt), state)
        if len(self._ended) > _ENDED_MAX:
            self._ended.popitem(last=False)

    def _keep_late(self, attempt: Attempt, *, violated: bool) -> None:
        """A violation after the end of an attempt that was not sampled: its span is made now, or the violation would
        stand below a parent that nobody made. So it is with a broken rule."""
        key = attempt_key(attempt)
        if self._ended.get(key) is False:
            notes = Notes(attempt, self._timeline.wall_ns(attempt.started.closed), violated=violated, keep=True)
            self._ended[key] = self._process(attempt, notes, None)

    def _process(self, attempt: Attempt, notes: Notes, state: str | None) -> bool:
        violated = notes.violated or attempt.late > 0 or attempt.refused > 0
        told, holder = self._told, self._holder(attempt, notes)
        error = None if attempt.end is End.RELEASED else attributes.LOCK_LOST
        keep = violated or notes.keep or attempt.lapsed or error is not None
        if not self._emitter.wants(holder.trace_id, keep=keep):
            return False
        groups = [
            told.operation("process", "process", attempt.queue),
            holder.speaker,
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
                trace_id=holder.trace_id,
                span_id=holder.span_id,
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
