"""What can be compared behind a gap in a journal: lines whose whole history is seen since, and no others.

A job is known from its first line on if that says itself that nothing came before: it is added, or given out for the
first time by its own count. A worker is known if all that is heard of it comes over connections that were made since.
In doubt nothing is compared.
"""

from __future__ import annotations

from typing import Final

from emqproxy.journal_lines import JournalLine
from emqproxy.locks.verdicts import Finding

KNOWN_MAX: Final = 200_000
"""Jobs, tokens, workers and connections; of more, nothing is compared any longer."""
_FAILED: Final = frozenset({"refused", "error", "blocked", "unknown"})
_OF_REDIS: Final = frozenset({"lock_vanished_early", "eviction_suspected"})
"""They rest on what Redis said of its memory, which is told only when it is new."""


class KnownSince:
    """Of one stretch that does not begin where its run began. Each line goes in, in the order in which it was told."""

    def __init__(self) -> None:
        self._jobs: dict[str, bool] = {}
        """Whether all of it is seen."""
        self._taken: set[tuple[str, str | None]] = set()
        """By job: the tokens that took it since."""
        self._workers: dict[str, bool] = {}
        self._met: set[int] = set()
        """Connections that were made since."""
        self._full = False

    def line(self, line: JournalLine, cause: str | None) -> bool:
        """Whether a line can be compared. `cause`: what is said of it today."""
        if self._full:
            return False
        if line.op == "conn" and line.conn is not None:
            (self._met.add if line.target == "opened" else self._met.discard)(line.conn)
        fresh = self._speaks(line)
        key = f"{line.db}:{line.key}"
        known = self._jobs.get(key, False) if line.job is not None else line.op != "sweep"
        if line.job is not None and key not in self._jobs:
            self._jobs[key] = _begins(line)
        held = line.token is None or (key, line.token) in self._taken
        if line.effect == "granted":
            held = True
            self._taken.add((key, line.token))
        if len(self._jobs) + len(self._taken) + len(self._workers) + len(self._met) > KNOWN_MAX:
            self._full = True
            for each in (self._jobs, self._taken, self._workers, self._met):
                each.clear()
        if line.job is None:
            return known
        vague = line.finding == Finding.DOUBTFUL.word or not _OF_REDIS.isdisjoint((line.cause, cause))
        return known and held and not vague and (fresh or line.outcome not in _FAILED)

    def beside(self, key: str) -> None:
        """A job is spoken of that has no line yet: what comes first is not its beginning."""
        self._jobs.setdefault(key, False)

    def _speaks(self, line: JournalLine) -> bool:
        """Whether all is known of who speaks; of a line without a token there is nothing to know."""
        worker = line.worker or line.replay.worker or line.token
        if worker is None:
            return True
        if line.conn is not None:
            self._workers[worker] = self._workers.get(worker, True) and line.conn in self._met
        return self._workers.get(worker, False)


def _begins(line: JournalLine) -> bool:
    if line.op == "add":
        return line.outcome == "ok"
    pickup = line.replay.pickup
    return line.effect == "granted" and pickup is not None and pickup.starts == 1
