"""What those who speak in a job's lines are called in its story: no two by one name, and no name of great length.

A token says who speaks only where each pickup has one of its own. Where two bring the same one (cause `fixed_token`),
their clients' names tell them apart, and where they have none, the addresses from which they picked up the job. The
connections of one worker, which has a token a pickup, are one.
"""

from __future__ import annotations

from typing import Final, TypeVar

from emqproxy.journal_lines import JournalLine

NAME_MAX: Final = 60
"""Characters; of a longer name the beginning and the end are told."""
_BEGIN, _END = 40, 15
_PROVES: Final = frozenset({"granted", "renewed"})
T = TypeVar("T", str, str | None)


class Names:
    """Of one story. Its lines go in, in their order, and each gives its speaker."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, int], str] = {}
        """By `run` and `seq`: what was said of each line."""
        self._of: dict[tuple[str | None, str | None], str] = {}
        """Speakers by worker and client's name; who has no worker, by its address."""
        self._at: dict[tuple[str | None, str], str] = {}
        """By address and worker."""
        self._of_worker: dict[str, str] = {}
        """The last one to speak for it."""
        self._of_token: dict[str, str] = {}
        """The last one to prove by it that it holds the lock."""
        self._nameless: set[str] = set()
        self._used: dict[str, int] = {}
        self._short: dict[str, str] = {}
        self._shorts: dict[str, int] = {}

    def of(self, line: JournalLine) -> str:
        """The client's name, else what is told of the worker or its token, else its address."""
        worker = line.worker or line.replay.worker or line.token
        if worker is None:
            if line.client_name:
                return self.shortened(line.client_name)  # of which connection of its name it comes is no matter
            key = None, line.client
            if key not in self._of:
                self._of[key] = self._new(line.client or "somebody")
            return self._of[key]
        speaker = self._speaker(line, worker)
        self._of_worker[worker] = speaker
        if line.client is not None:
            self._at[line.client, worker] = speaker
        if line.client_name:
            self._of[worker, line.client_name] = speaker
        if line.token is not None and line.effect in _PROVES:
            self._of_token[line.token] = speaker
        return speaker

    def shortened(self, name: str) -> str:
        """A name as it is told, which is no other's."""
        if len(name) <= NAME_MAX:
            return name
        if name not in self._short:
            short = f"{name[:_BEGIN]}…{name[-_END:]}"
            times = self._shorts[short] = self._shorts.get(short, 0) + 1
            self._short[name] = short if times == 1 else f"{short} ({times})"
        return self._short[name]

    def shortened_in(self, words: T) -> T:
        """A sentence, with the names in it as they are told; None of None."""
        if words is not None:
            for name in sorted(self._short, key=len, reverse=True):
                words = words.replace(name, self._short[name])
        return words

    def _speaker(self, line: JournalLine, worker: str) -> str:
        here = self._at.get((line.client, worker))
        last = self._of_token.get(line.token or "") or self._of_worker.get(worker)
        if line.client_name:
            name, known = self.shortened(line.client_name), self._of.get((worker, line.client_name))
            if known is None and here in self._nameless:
                self._nameless.discard(here)  # it says only now what it is called
                known = here
            return known or self._new(name)
        if here is not None:
            return here
        another = line.client is not None and line.effect == "granted" and line.token in self._of_token
        if last is not None and not another:
            return last
        speaker = self._new(f"worker {worker[:8]}")
        self._nameless.add(speaker)
        return speaker

    def _new(self, name: str) -> str:
        times = self._used[name] = self._used.get(name, 0) + 1
        return name if times == 1 else f"{name} ({times})"
