"""Script calls on keys that look like a queue's, and that nobody knew, or knew by their shape only: said once a minute,
with their shas.
"""

from __future__ import annotations

from typing import Final

from emqproxy.locks.events import Instant
from emqproxy.logs import Log, RateLimited
from emqproxy.scripts.arguments import sha_of
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.operation import Script
from emqproxy.session.exchange import Command

SHAS_MAX: Final = 16
"""Named in one line."""
HINT: Final = (
    "emqproxy scripts add PATH learns the scripts of a package or folder into the file of scripts.catalogue; "
    "emqproxy scripts identify SHA tells whether one is known"
)


_CALLS: Final = frozenset((b"EVALSHA", b"EVAL", b"FCALL"))


class Unrecognised:
    """Counts them; `prefixes` bound what looks like a queue's key."""

    def __init__(self, prefixes: tuple[str, ...], log: Log) -> None:
        self.count = 0
        """Calls that nobody knew."""
        self.guesses = 0
        """Calls that were known by their shape only."""
        self._starts = tuple(f"{prefix}:".encode() for prefix in prefixes)
        self._log = RateLimited(log)
        self._shas: dict[str, None] = {}
        self._guessed: dict[str, None] = {}

    def saw(self, command: Command, catalogue: Catalogue, now: Instant) -> None:
        """A script call that is no lock operation, or a hand on lock keys: one of the protocol's other scripts, or a
        stranger; or a call of a function, which is always one."""
        words = command.words
        if command.name not in _CALLS or not any(w and w.startswith(self._starts) for w in words[3:7]):
            return
        body = words[1] or b""
        if command.name != b"FCALL" and catalogue.identify(body) is not None:
            return
        self.count += 1
        if command.name == b"EVAL":
            sha = sha_of(body).decode() if body else "a text too large to hash"
        elif command.name == b"FCALL":
            sha = f"function {body[:40].decode('utf-8', 'replace')}"
        else:
            sha = body[:40].decode("ascii", "replace").lower()
        if len(self._shas) < SHAS_MAX:
            self._shas[sha] = None
        said = self._log.warning(
            "script calls on queue-like keys are not recognised: what they do to locks is not seen",
            now=now,
            shas=list(self._shas),
            calls=self.count,
            hint=HINT,
        )
        if said:
            self._shas.clear()

    def guessed(self, script: Script, now: Instant) -> None:
        """A call that is told as one of a family, though nobody knows its script."""
        self.guesses += 1
        if len(self._guessed) < SHAS_MAX:
            self._guessed[f"{script.label or 'one of several'} {script.sha}"] = None
        said = self._log.warning(
            "scripts are known by the shape of their calls only: where they handle locks nobody is accused",
            now=now,
            key="guessed",
            scripts=list(self._guessed),
            calls=self.guesses,
            hint=HINT,
        )
        if said:
            self._guessed.clear()
