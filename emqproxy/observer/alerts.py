"""The log's share: one line for each violation and lapse as it happens, with its figures, in the journal's words."""

from __future__ import annotations

import time
from typing import Final

from emqproxy import logs
from emqproxy.locks.events import LockFact
from emqproxy.observer import ids
from emqproxy.observer.attributes import violates
from emqproxy.observer.names import job_id, job_key, queue_name
from emqproxy.observer.timeline import rounded_ms
from emqproxy.observer.tokens import Tokens
from emqproxy.records import Message, Record

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

    def on(self, message: Message) -> None:
        """Logs a record that a human should see."""
        if not isinstance(message, Record) or not isinstance(message.verdict.fact, LockFact):
            return
        line, verdict, fact = message.line, message.verdict, message.verdict.fact
        if not (line.op == "lapse" or violates(line, verdict)):
            return
        if not self._may_speak():
            self._untold += 1
            return
        untold, self._untold = self._untold, 0
        name = queue_name(fact.queue)
        figures = {
            "code_name": line.code_name,
            "token": self._tokens.name(fact.token).token,
            "client": message.peer.client if message.peer else None,
            "grade": verdict.grade.value if verdict.grade else None,
            "age_ms": rounded_ms(verdict.age_ms),
            "remaining_ms": rounded_ms(verdict.remaining_ms),
            "ttl_ms": verdict.ttl_ms,
            "finding": verdict.finding.word if verdict.finding else None,
            "untold": untold or None,
        }
        logs.get().warning(
            "lock lapsed" if line.op == "lapse" else f"{line.op} {line.outcome}",
            seq=message.seq,
            db=fact.lock.db,
            prefix=name.prefix,
            queue=name.queue,
            job=job_id(fact.queue, fact.lock),
            trace_id=f"{ids.trace_id(self._namespace, fact.lock.db, job_key(fact.lock)):032x}",
            **{field: figure for field, figure in figures.items() if figure is not None},
        )

    def _may_speak(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        return self._lines <= _LINES_MAX
