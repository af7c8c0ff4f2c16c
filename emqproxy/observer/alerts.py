"""The log's share: one line for each violation and lapse as it happens, with its figures, in the journal's words; one
for each call that was blocked, however many jobs it named."""

from __future__ import annotations

import time
from typing import Final

from emqproxy import logs
from emqproxy.locks.events import LockFact
from emqproxy.observer import ids
from emqproxy.observer.attributes import violates
from emqproxy.observer.names import subject
from emqproxy.observer.timeline import rounded_ms
from emqproxy.observer.tokens import Tokens
from emqproxy.records import Message, Record

QUIET: Final = frozenset({"benign_renew_race", "pending_children", "renewal_late"})
"""Causes that say that nothing is wrong, or what the grade says already."""
_LINES_MAX: Final = 20
"""A second; what is above is counted and said with the next line. The journal has them all."""


class Alerts:
    """One consumer of messages."""

    def __init__(self, tokens: Tokens, namespace: str) -> None:
        self._tokens = tokens
        self._namespace = namespace
        self._second = 0
        self._lines = 0
        self._untold = 0
        self._blocked: tuple[int, int] | None = None
        """Connection and request of the call that was blocked last."""

    def on(self, message: Message) -> None:
        """Logs a record that a human should see."""
        if not isinstance(message, Record) or not self._wants(message):
            return
        if not self._may_speak():
            self._untold += 1
            return
        line, verdict, fact, call = message.line, message.verdict, message.verdict.fact, message.call
        untold, self._untold = self._untold, 0
        about = subject(fact)
        of_lock = fact if isinstance(fact, LockFact) else None
        figures = {
            "db": about.db,
            "prefix": about.prefix,
            "queue": about.queue,
            "job": about.job,
            "trace_id": f"{ids.trace_of(self._namespace, of_lock.lock):032x}" if of_lock else None,
            "code_name": line.code_name,
            "token": self._tokens.name(of_lock.token).token if of_lock else None,
            "client": message.peer.client if message.peer else None,
            "client_name": message.peer.client_name if message.peer else None,
            "script": (call.script or call.sha or None) if call else None,
            "action": message.action if message.rule else None,
            "rule": message.rule,
            "batch_size": line.batch_size,
            "grade": verdict.grade.value if verdict.grade else None,
            "age_ms": rounded_ms(verdict.age_ms),
            "remaining_ms": rounded_ms(verdict.remaining_ms),
            "ttl_ms": verdict.ttl_ms,
            "finding": verdict.finding.word if verdict.finding else None,
            "cause": message.cause,
            "because": message.because,
            "untold": untold or None,
        }
        log, harmless = logs.get(), message.cause == "script_mismatch" and line.outcome == "ok"
        (log.info if harmless else log.warning)(
            "lock lapsed" if line.op == "lapse" else f"{line.op} {line.outcome}",
            seq=message.seq,
            **{field: figure for field, figure in figures.items() if figure is not None},
        )

    def _wants(self, record: Record) -> bool:
        line, fact = record.line, record.verdict.fact
        if line.outcome == "blocked":
            call = fact.place.conn, fact.place.request
            known, self._blocked = self._blocked == call, call
            return not known
        if line.op == "watch" or (record.cause is not None and record.cause not in QUIET):
            return True
        return isinstance(fact, LockFact) and (line.op == "lapse" or violates(line, record.verdict))

    def _may_speak(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        return self._lines <= _LINES_MAX
