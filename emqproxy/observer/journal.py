"""The journal: one NDJSON line for one thing that happened to one job, field for field as CONTRACT.md's table.

A field that is there and unknown is null. `replay` is for `emqproxy replay` alone (`journal_replay`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy import logs
from emqproxy.locks.events import Lapsed, LockFact, PerhapsGranted, effect
from emqproxy.observer.journal_file import JournalFile
from emqproxy.observer.journal_replay import Replay, ReplayNotes
from emqproxy.observer.names import subject
from emqproxy.observer.timeline import Timeline, rounded_ms
from emqproxy.observer.tokens import Tokens
from emqproxy.records import Anchor, Message, ObserverSettings, Record

VERSION: Final = 1


class _Entry(msgspec.Struct):
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


class _Last(msgspec.Struct):
    """What of a journal's last line tells where it ended."""

    run: str
    seq: int


class Journal:
    """Writes the records of a batch at its end, in one go."""

    def __init__(
        self,
        run: str,
        timeline: Timeline,
        tokens: Tokens,
        file: JournalFile,
        settings: ObserverSettings | None = None,
    ) -> None:
        self._run = run
        self._timeline = timeline
        self._tokens = tokens
        self._file = file
        self._lines: list[bytes] = []
        self._encoder = msgspec.json.Encoder()
        self._replay = ReplayNotes(tokens, settings)
        self._log = logs.RateLimited(logs.get())
        self._seq = _last_seq(file.last_line(), run)
        self.missing = 0
        """Records of this run that never came: dropped on the way, or held by an observer that was killed."""

    def on(self, message: Message) -> None:
        """Takes a record's line; looks after the file at each heartbeat."""
        match message:
            case Record():
                self._count(message)
                self._lines.append(self._encoder.encode(self._entry(message)) + b"\n")
            case Anchor():
                self._file.look()
                self._replay.beat()
            case _:
                pass

    def flush(self) -> None:
        """Call at the end of each batch."""
        lines, self._lines = self._lines, []
        self._file.write(lines)

    def use(self, settings: ObserverSettings) -> None:
        """From the next line on it goes there; the same path is opened anew."""
        self._file.use(settings.journal, settings.journal_max_bytes)
        self._replay.use(settings)

    def close(self) -> None:
        """Writes what is left and lets go of the file."""
        self.flush()
        self._file.close()

    @property
    def lost(self) -> int:
        """Lines that came and could not be written."""
        return self._file.lost

    # ------------------------------------------------------------------ private

    def _count(self, record: Record) -> None:
        """Every record has a number, dropped or not: what is skipped is missing."""
        skipped, self._seq = record.seq - self._seq - 1, record.seq
        if skipped > 0:
            self.missing += skipped
            now = record.verdict.at
            self._log.warning("records are missing from the journal", now=now, before=record.seq, missing=self.missing)

    def _entry(self, record: Record) -> _Entry:
        line, verdict, call, peer = record.line, record.verdict, record.call, record.peer
        fact, finding, grade = verdict.fact, verdict.finding, verdict.grade
        window, lapsed = fact.window, isinstance(fact, Lapsed)
        db, prefix, queue, job = subject(fact)
        token, worker, _ = self._tokens.name(fact.token if isinstance(fact, LockFact | PerhapsGranted) else b"")
        return _Entry(
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
            self._replay.of(record, worker),
        )


def _last_seq(line: bytes, run: str) -> int:
    """The number of the last line that an observer before us wrote in this run; 0 where there was none."""
    try:
        last = msgspec.json.decode(line, type=_Last)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return 0
    return last.seq if last.run == run else 0
