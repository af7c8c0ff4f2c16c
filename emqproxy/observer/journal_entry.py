"""A record in the journal's words: field for field CONTRACT.md's table.

A field that is there and unknown is null. `replay` is for `emqproxy replay` alone (`journal_replay`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy.locks.events import Lapsed, LockFact, PerhapsGranted, effect
from emqproxy.observer.journal_replay import Replay, ReplayNotes
from emqproxy.observer.names import subject
from emqproxy.observer.timeline import Timeline, rounded_ms
from emqproxy.observer.tokens import Tokens
from emqproxy.records import ObserverSettings, Record

VERSION: Final = 1


class Entry(msgspec.Struct):
    """One line, its fields in the order in which they are written."""

    v: int
    run: str
    seq: int
    time: str
    op: str
    outcome: str
    target: str | None
    code: int | None
    code_name: str | None
    db: int | None
    prefix: str | None
    queue: str | None
    job: str | None
    token: str | None
    worker: str | None
    script: str | None
    sha: str | None
    match: str | None
    conn: int | None
    client: str | None
    client_name: str | None
    opened_ns: int
    closed_ns: int
    effect: str
    ttl_ms: int | None
    age_ms: float | None
    remaining_ms: float | None
    grade: str | None
    finding: str | None
    scope: str | None
    idle_ms: float | None
    burst: int | None
    cause: str | None
    because: str | None
    evidence: tuple[int, ...] | None
    action: str | None
    rule: str | None
    took_us: int | None
    lag_us: int
    replay: Replay


class Entries:
    """Makes lines of records, for one run."""

    def __init__(
        self, run: str, timeline: Timeline, tokens: Tokens, settings: ObserverSettings | None = None
    ) -> None:
        """`settings`: what the lines are to say that they were judged by."""
        self._run, self._timeline, self._tokens = run, timeline, tokens
        self.replay = ReplayNotes(tokens, settings)

    def of(self, record: Record) -> Entry:
        """One line."""
        line, verdict, call, peer = record.line, record.verdict, record.call, record.peer
        fact, finding, grade = verdict.fact, verdict.finding, verdict.grade
        window, lapsed = fact.window, isinstance(fact, Lapsed)
        db, prefix, queue, job = subject(fact)
        token, worker, _ = self._tokens.name(fact.token if isinstance(fact, LockFact | PerhapsGranted) else b"")
        return Entry(
            VERSION,
            self._run,
            record.seq,
            # A lapse's Window lies around its deadline; it happened, for the reader, when it was told.
            self._timeline.rfc3339((lapsed and verdict.at) or window.closed),
            line.op,
            line.outcome,
            line.target,
            line.code,
            line.code_name,
            db,
            prefix,
            queue,
            job,
            token,
            worker,
            (call.script or None) if call else None,
            (call.sha or None) if call else None,
            (call.match or None) if call else None,
            peer.conn if peer else None,
            peer.client if peer else None,
            peer.client_name if peer else None,
            window.opened,
            window.closed,
            effect(fact),
            verdict.ttl_ms,
            rounded_ms(verdict.age_ms),
            rounded_ms(verdict.remaining_ms),
            grade.value if grade else None,
            finding.word if finding else None,
            verdict.scope,
            rounded_ms(record.idle_ms),
            record.burst or None,
            record.cause,
            record.because,
            record.evidence or None,
            record.action or None,
            record.rule,
            None if lapsed else (window.closed - window.opened) // 1000,
            record.lag_ns // 1000,
            self.replay.of(record, worker),
        )
