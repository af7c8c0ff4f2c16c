"""Attributes of spans: the standard's names, and ours under `emq.` (CONTRACT, "Spans and metrics"; TELEMETRY 2.2).

Never a job's data, a return value, or an argument that is not named here. None: not known, left out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from emqproxy.locks.events import Lock, Queue
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade, Verdict
from emqproxy.observer.draft import Cells
from emqproxy.observer.names import job_id, job_key, messaging_system, queue_name, text
from emqproxy.observer.timeline import rounded_ms
from emqproxy.observer.tokens import Tokens
from emqproxy.records import CallSite, Hello, JobFields, Line, Peer, Record

LATE: Final = frozenset({Grade.LATE, Grade.CRITICAL, Grade.TOO_LATE})
MOVES: Final = {
    "acquire": ("wait", "active"),
    "delay": ("active", "delayed"),
    "retry": ("active", "wait"),
    "wait": ("active", "wait"),
    "wait_children": ("active", "waiting-children"),
}
LOCK_LOST: Final = "LockLost"
BLOCKED: Final = "enforcement_blocked"
OTHER_ERROR: Final = "_OTHER"
FAILED: Final = frozenset({"refused", "error"})
"""Outcomes that the script or Redis answered."""


def violates(line: Line, verdict: Verdict) -> bool:
    """`emq.violation`: a grade late or worse, refused or blocked, or a finding above doubtful."""
    return (
        line.outcome in ("refused", "blocked")
        or verdict.grade in LATE
        or (verdict.finding is not None and verdict.finding < Finding.DOUBTFUL)
    )


def error_type(line: Line) -> str | None:
    """`error.type`, of few values: what the script, Redis or we answered. None where nothing failed."""
    if line.outcome in FAILED:
        return line.code_name or OTHER_ERROR
    if line.outcome == "blocked":
        return BLOCKED
    return LOCK_LOST if line.op == "lapse" else None


def state_after(line: Line | Words) -> str | None:
    """The state that the job is in after this line; None where it did not move."""
    if line.outcome != "ok":
        return None
    if line.op in ("finish", "reap"):
        return line.target
    return MOVES[line.op][1] if line.op in MOVES else None


class Words(NamedTuple):
    """Of one line and the verdict on it, what many others have in common."""

    op: str
    outcome: str
    target: str | None
    code: int | None
    code_name: str | None
    batch_size: int | None
    delay_ms: int | None
    ttl_ms: int | None
    grade: Grade | None
    finding: int | None
    """A Finding's number, which is sooner hashed."""
    scope: str | None
    cause: str | None
    action: str
    rule: str | None
    violated: bool


def words_of(record: Record, *, violated: bool) -> Words:
    """What `of_words` tells of it."""
    line, verdict = record.line, record.verdict
    return Words(
        line.op,
        line.outcome,
        line.target,
        line.code,
        line.code_name,
        line.batch_size,
        line.delay_ms,
        verdict.ttl_ms,
        verdict.grade,
        None if verdict.finding is None else int(verdict.finding),
        verdict.scope,
        record.cause,
        record.action,
        record.rule,
        violated,
    )


def of_words(words: Words) -> Cells:
    """What one line says of itself: the answer, and the ledger's words."""
    after = state_after(words)
    before = None if after is None else MOVES.get(words.op, ("active", ""))[0]
    return {
        "db.response.status_code": words.code_name if words.outcome == "error" else None,
        "emq.script.return_code": words.code,
        "emq.script.return_name": words.code_name if words.outcome != "error" else None,
        "emq.outcome": None if words.outcome in ("ok", "told") else words.outcome,
        "emq.batch.size": words.batch_size,
        "emq.retry.delay_ms": words.delay_ms,
        "emq.state.from": before,
        "emq.state.to": after,
        "emq.lock.duration_ms": words.ttl_ms,
        "emq.lock.grade": words.grade.value if words.grade else None,
        "emq.lock.finding": Finding(words.finding).word if words.finding else None,
        "emq.lock.scope": words.scope,
        "emq.lock.cause": words.cause,
        "emq.enforcement.action": words.action or None,
        "emq.enforcement.rule": words.rule,
        "emq.violation": True if words.violated else None,
    }


def of_figures(line: Line, verdict: Verdict) -> Cells:
    """What is another number on every line."""
    renewal = line.op == "renew" and line.outcome == "ok" and verdict.attempt is not None
    return {
        "emq.lock.age_ms": rounded_ms(verdict.age_ms),
        "emq.lock.remaining_ms": rounded_ms(verdict.remaining_ms),
        "emq.lock.seq": verdict.attempt.renewals if renewal and verdict.attempt else None,
    }


def of_operation(name: str, kind: str | None, queue: Queue, hello: Hello) -> Cells:
    """What was done, in the standard's words, and where. `kind`: `messaging.operation.type`, where there is one."""
    return {"messaging.operation.name": name, "messaging.operation.type": kind} | _of_queue(queue, hello)


def _of_queue(queue: Queue, hello: Hello) -> Cells:
    """Where: the queue, its database and the Redis behind us."""
    prefix, name = queue_name(queue)
    return {
        "messaging.system": messaging_system(prefix),
        "messaging.destination.name": name,
        "db.system.name": "redis",
        "db.namespace": str(queue.db),
        "server.address": hello.server_address,
        "server.port": hello.server_port,
    }


def of_lock(queue: Queue, lock: Lock) -> Cells:
    """Which job."""
    return {"messaging.message.id": job_id(queue, lock), "emq.job.key": text(job_key(lock))}


def of_token(tokens: Tokens, token: bytes) -> Cells:
    """Who spoke, as `trace.token` allows."""
    name = tokens.name(token)
    return {
        "emq.lock.token": name.token,
        "emq.worker.fingerprint": name.worker,
        "emq.worker.fetch": name.number,
    }


def of_call(call: CallSite | None) -> Cells:
    """Which script was called, and how it was known."""
    if call is None:
        return {}
    return {
        "db.operation.name": call.command,
        "db.stored_procedure.name": (call.script or call.sha) if call.sha else None,  # else it is no script
        "emq.script.sha1": call.sha or None,
        "emq.script.version": call.releases or None,
        "emq.script.match": call.match or None,
    }


def of_peer(peer: Peer | None) -> Cells:
    """Who called: the name it gave itself, else its address."""
    return {"messaging.client.id": (peer.client_name or peer.client) if peer else None}


def of_job(job: JobFields | None) -> Cells:
    """What a grant told of the job."""
    if job is None:
        return {}
    return {
        "emq.job.name": job.name,
        "emq.job.attempt": job.attempts_made if job.attempts_started is None else job.attempts_started,
        "emq.job.timestamp": job.timestamp,
        "emq.stall.count": job.stalled_count,
    }


class Summary(NamedTuple):
    """Of an attempt at its end, what many others have in common."""

    end: End | None
    partial: bool
    renewals: int
    late: int
    refused: int
    ttl_ms: int
    state: str | None
    """The state that its end left the job in, where that is known."""
    violated: bool


def summary_of(attempt: Attempt, state: str | None, *, violated: bool) -> Summary:
    """What `of_summary` tells of it."""
    end, ttl_ms = attempt.end, attempt.ttl_ms
    return Summary(end, attempt.partial, attempt.renewals, attempt.late, attempt.refused, ttl_ms, state, violated)


def of_summary(attempt: Summary) -> Cells:
    """An attempt, told at its end."""
    return {
        "emq.attempt.end": attempt.end.value if attempt.end else None,
        "emq.attempt.partial": True if attempt.partial else None,
        "emq.attempt.renewals": attempt.renewals,
        "emq.attempt.renewals_late": attempt.late or None,
        "emq.attempt.renewals_refused": attempt.refused or None,
        "emq.lock.duration_ms": attempt.ttl_ms,
        "emq.state.to": attempt.state,
        "emq.violation": True if attempt.violated else None,
    }
