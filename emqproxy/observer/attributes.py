"""Attributes of spans: the standard's names, and ours under `emq.` (CONTRACT, "Spans and metrics"; TELEMETRY 2.2).

Never a job's data, a return value, or an argument that is not named here. None: not known, left out.
"""

from __future__ import annotations

from typing import Final

from emqproxy.locks.events import Lock, Queue
from emqproxy.locks.verdicts import Attempt, Finding, Grade, Verdict
from emqproxy.observer.emitter import Value
from emqproxy.observer.names import job_id, job_key, messaging_system, queue_name, text
from emqproxy.observer.timeline import rounded_ms
from emqproxy.observer.tokens import Tokens
from emqproxy.records import CallSite, Hello, JobFields, Line, Peer, Record

Cells = dict[str, Value | None]

_LATE: Final = frozenset({Grade.LATE, Grade.CRITICAL, Grade.TOO_LATE})
_MOVES: Final = {
    "acquire": ("wait", "active"),
    "delay": ("active", "delayed"),
    "retry": ("active", "wait"),
    "wait": ("active", "wait"),
    "wait_children": ("active", "waiting-children"),
}
LOCK_LOST: Final = "LockLost"


def violates(line: Line, verdict: Verdict) -> bool:
    """`emq.violation`: a grade late or worse, refused or blocked, or a finding above doubtful."""
    return (
        line.outcome in ("refused", "blocked")
        or verdict.grade in _LATE
        or (verdict.finding is not None and verdict.finding < Finding.DOUBTFUL)
    )


def error_type(line: Line) -> str | None:
    """`error.type`, of few values: what the script, Redis or we answered. None where nothing failed."""
    match line.outcome:
        case "refused" | "error":
            return line.code_name or "_OTHER"
        case "blocked":
            return "enforcement_blocked"
        case _:
            return LOCK_LOST if line.op == "lapse" else None


def state_after(line: Line) -> str | None:
    """The state that the job is in after this line; None where it did not move."""
    if line.outcome != "ok":
        return None
    if line.op in ("finish", "reap"):
        return line.target
    return _MOVES[line.op][1] if line.op in _MOVES else None


def of_record(record: Record) -> Cells:
    """What one line says of itself: the call, the answer and the ledger's words."""
    line, verdict = record.line, record.verdict
    after = state_after(line)
    before = None if after is None else _MOVES.get(line.op, ("active", ""))[0]
    cells: Cells = {
        "db.response.status_code": line.code_name if line.outcome == "error" else None,
        "emq.script.return_code": line.code,
        "emq.script.return_name": line.code_name if line.outcome != "error" else None,
        "emq.outcome": None if line.outcome in ("ok", "told") else line.outcome,
        "emq.batch.size": line.batch_size,
        "emq.retry.delay_ms": line.delay_ms,
        "emq.state.from": before,
        "emq.state.to": after,
        "emq.lock.duration_ms": verdict.ttl_ms,
        "emq.lock.age_ms": rounded_ms(verdict.age_ms),
        "emq.lock.remaining_ms": rounded_ms(verdict.remaining_ms),
        "emq.lock.grade": verdict.grade.value if verdict.grade else None,
        "emq.lock.finding": verdict.finding.word if verdict.finding else None,
        "emq.lock.scope": verdict.scope,
        "emq.violation": True if violates(line, verdict) else None,
    }
    if line.op == "renew" and line.outcome == "ok" and verdict.attempt is not None:
        cells["emq.lock.seq"] = verdict.attempt.renewals
    return cells | of_job(line.job)


def of_queue(queue: Queue, hello: Hello) -> Cells:
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
        "db.stored_procedure.name": call.script or call.sha,
        "emq.script.sha1": call.sha,
        "emq.script.version": call.releases or None,
        "emq.script.match": call.match,
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


def of_attempt(attempt: Attempt) -> Cells:
    """An attempt's summary, told at its end."""
    return {
        "emq.attempt.end": attempt.end.value if attempt.end else None,
        "emq.attempt.partial": True if attempt.partial else None,
        "emq.attempt.renewals": attempt.renewals,
        "emq.attempt.renewals_late": attempt.late or None,
        "emq.attempt.renewals_refused": attempt.refused or None,
        "emq.lock.duration_ms": attempt.ttl_ms,
    }
