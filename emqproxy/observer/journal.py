"""The journal: one NDJSON line for one thing that happened to one job, field for field as CONTRACT.md's table.

A field whose part is not built yet (`cause`, `because`, `evidence`, `action`, `rule`, `idle_ms`) is absent; a field
that is there and unknown is null.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy import logs
from emqproxy.locks.events import AnyFact, Instant, Lapsed, Lock, LockFact, PerhapsGranted, Wiped
from emqproxy.locks.verdicts import Verdict
from emqproxy.observer.journal_file import JournalFile
from emqproxy.observer.names import effect, job_id, queue_name, queue_of
from emqproxy.observer.timeline import Timeline, rounded_ms
from emqproxy.observer.tokens import Tokens
from emqproxy.records import Anchor, Message, Record

VERSION: Final = 1

_Cell = str | int | float | None


class _Last(msgspec.Struct):
    """What of a journal's last line tells where it ended."""

    run: str
    seq: int


class Journal:
    """Writes the records of a batch at its end, in one go."""

    def __init__(self, run: str, timeline: Timeline, tokens: Tokens, file: JournalFile) -> None:
        self._run = run
        self._timeline = timeline
        self._tokens = tokens
        self._file = file
        self._lines: list[bytes] = []
        self._encoder = msgspec.json.Encoder()
        self._log = logs.RateLimited(logs.get())
        self._seq = _last_seq(file.last_line(), run)
        self.missing = 0
        """Records of this run that never came: dropped on the way, or held by an observer that was killed."""

    def on(self, message: Message) -> None:
        """Takes a record's line; looks after the file at each heartbeat."""
        match message:
            case Record():
                self._count(message)
                self._lines.append(self._encoder.encode(self._fields(message)) + b"\n")
            case Anchor():
                self._file.look()
            case _:
                pass

    def flush(self) -> None:
        """Call at the end of each batch."""
        lines, self._lines = self._lines, []
        self._file.write(lines)

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

    def _fields(self, record: Record) -> dict[str, _Cell]:
        line, verdict = record.line, record.verdict
        fields: dict[str, _Cell] = {
            "v": VERSION,
            "run": self._run,
            "seq": record.seq,
            "time": self._timeline.rfc3339(_told_at(verdict)),
            "op": line.op,
            "outcome": line.outcome,
            "target": line.target,
            "code": line.code,
            "code_name": line.code_name,
        }
        fields |= self._names(verdict.fact)
        fields |= _site(record)
        fields |= _figures(verdict)
        fields["took_us"] = _took_us(verdict.fact)
        fields["lag_us"] = record.lag_ns // 1000
        return fields

    def _names(self, fact: AnyFact) -> dict[str, _Cell]:
        """What it is about: database, queue, job, and who spoke."""
        lock = _lock_of(fact)
        names: dict[str, _Cell] = dict.fromkeys(("db", "prefix", "queue", "job"))
        queue = queue_of(fact)
        if queue is not None:
            names["db"] = queue.db
            names["prefix"], names["queue"] = queue_name(queue)
            if lock is not None:
                names["job"] = job_id(queue, lock)
        elif isinstance(fact, Wiped):
            names["db"] = fact.db
        token = fact.token if isinstance(fact, LockFact | PerhapsGranted) else b""
        names["token"], names["worker"], _ = self._tokens.name(token)
        return names


def _last_seq(line: bytes, run: str) -> int:
    """The number of the last line that an observer before us wrote in this run; 0 where there was none."""
    try:
        last = msgspec.json.decode(line, type=_Last)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return 0
    return last.seq if last.run == run else 0


def _lock_of(fact: AnyFact) -> Lock | None:
    return fact.lock if isinstance(fact, LockFact) else None


def _site(record: Record) -> dict[str, _Cell]:
    """Where it was seen: the script and the connection."""
    call, peer = record.call, record.peer
    return {
        "script": call.script if call else None,
        "sha": call.sha if call else None,
        "match": call.match if call else None,
        "conn": peer.conn if peer else None,
        "client": peer.client if peer else None,
        "client_name": peer.client_name if peer else None,
    }


def _figures(verdict: Verdict) -> dict[str, _Cell]:
    """The window, the effect and the ledger's words and figures."""
    window = verdict.fact.window
    return {
        "opened_ns": window.opened,
        "closed_ns": window.closed,
        "effect": effect(verdict.fact),
        "ttl_ms": verdict.ttl_ms,
        "age_ms": rounded_ms(verdict.age_ms),
        "remaining_ms": rounded_ms(verdict.remaining_ms),
        "grade": verdict.grade.value if verdict.grade else None,
        "finding": verdict.finding.word if verdict.finding else None,
        "scope": verdict.scope,
    }


def _told_at(verdict: Verdict) -> Instant:
    """A lapse's Window lies around its deadline; it happened, for the reader, when it was told."""
    if isinstance(verdict.fact, Lapsed) and verdict.at:
        return verdict.at
    return verdict.fact.window.closed


def _took_us(fact: AnyFact) -> int | None:
    if isinstance(fact, Lapsed):
        return None
    return (fact.window.closed - fact.window.opened) // 1000
