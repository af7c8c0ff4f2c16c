"""What a player knows beside the keyspace: the clock that ARGV carries, tokens that were given out; how it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.lua.calls import key
from tests.lua.choices import Choices
from tests.lua.queues import QUEUES, Job, Queues

START_MS: Final = 1_700_000_000_000
PASSES_MS: Final = (0, 0, 0, 0, 0, 0, 1, 7, 900, 5_000, 5_000, 61_000, 290_000, 3_700_000)
LOCKS_MS: Final = (100_000, 300_000, 900_000)
"""Times to live: none ends by itself while a test runs, and each is told from the others by far."""


class World:
    """Told the outcome of every step."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.queues = Queues()
        self.tokens: list[str] = []
        """All that were made, held or not."""

    def new_token(self) -> str:
        self.tokens.append(f"t{len(self.tokens) + 1}")
        return self.tokens[-1]

    def passes(self, choices: Choices) -> None:
        self.now_ms += choices.of(PASSES_MS)

    def some_job(self, choices: Choices, state: str = "active") -> Job:
        """Mostly one that is in this state, now and then any job, or none that there is."""
        kind = choices.below(16)
        listed = self.queues.all_listed(state)
        if kind == 15:
            return Job(choices.of(QUEUES), "nope")
        if (kind == 14 or not listed) and (known := self.queues.jobs()):
            return choices.of(known)
        return choices.of(listed) if listed else Job(choices.of(QUEUES), "nope")

    def some_token(self, choices: Choices, job: Job) -> str:
        """Mostly the one that holds the job's lock, else "0", a wrong one, another's, one that was."""
        held = self.queues.lock(job)
        kind = choices.below(12)
        if kind == 11:
            return "0"
        if kind == 10:
            return choices.of(["wrong", "", *self.tokens[-6:]])
        return held.decode() if held is not None else choices.of([*self.tokens[-2:], "0", "wrong"])

    def some_delay_ms(self, choices: Choices, options: Sequence[int]) -> int:
        """One of these, or one that falls due in the same millisecond as another job's."""
        delay_ms = choices.of(options)
        scores = [float(score) for queue in QUEUES for score in (self.queues.value(key(queue, "delayed")) or ())[1::2]]
        if scores and choices.once_in(3):
            return max(0, int(choices.of(scores) // 4096) - self.now_ms)
        return delay_ms

    def fields(self, choices: Choices) -> list[Any] | None:
        """Fields that a move writes into the job's hash; None: the caller sends none."""
        if choices.once_in(40):
            return []
        went_wrong = ["failedReason", "went wrong", "stacktrace", '["at 1"]']
        return choices.of((None, None, went_wrong, ["tm", "{}"], ["atm", 7]))
