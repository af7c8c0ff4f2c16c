"""Queues on which some script is known by its shape only: there nobody is accused.

A script that looks like one of a lock family may be another, and then what the account has of the queue's locks is
wrong. So a finding on such a queue that would suspect anybody, whoever speaks, is told as doubtful.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from emqproxy.locks.events import AnyIntent, LockFact, Queue, Release, Remove, Renew, Sweep, Take
from emqproxy.locks.verdicts import Finding, Suspect, Verdict

QUEUES_MAX: Final = 10_000
"""Past it every queue counts as one of them."""


class Surmised:
    """Remembers those queues as long as the process lives."""

    def __init__(self) -> None:
        self._queues: set[Queue] = set()

    def __len__(self) -> int:
        return len(self._queues)

    def note(self, intents: Iterable[AnyIntent]) -> None:
        """A call that is known by its shape only is about to attempt this. What claims nothing of a lock is no matter:
        a write, or an unknown hand."""
        if len(self._queues) < QUEUES_MAX:
            self._queues.update(
                intent.queue for intent in intents if isinstance(intent, (Take, Sweep, Renew, Release, Remove))
            )

    def covers(self, queue: Queue) -> bool:
        """Whether it is one of those queues."""
        return queue in self._queues or len(self._queues) >= QUEUES_MAX

    def soften(self, verdict: Verdict) -> Verdict:
        """The verdict, or on such a queue a doubtful one in the place of one that suspects anybody."""
        finding = verdict.finding
        if not self._queues or finding is None or finding.suspects is Suspect.NOBODY:
            return verdict
        fact = verdict.fact
        spared = len(self._queues) >= QUEUES_MAX or (isinstance(fact, LockFact) and fact.queue in self._queues)
        return msgspec.structs.replace(verdict, finding=Finding.DOUBTFUL, scope=None) if spared else verdict
