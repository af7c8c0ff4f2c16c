"""Script calls on keys that look like a queue's, and that nobody knew: said once a minute, with their shas."""

from __future__ import annotations

import hashlib
from typing import Final

from emqproxy.locks.events import Instant
from emqproxy.logs import Log, RateLimited
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.session.exchange import Command

SHAS_MAX: Final = 16
"""Named in one line."""


class Unrecognised:
    """Counts them; `prefixes` bound what looks like a queue's key."""

    def __init__(self, prefixes: tuple[str, ...], log: Log) -> None:
        self.count = 0
        self._starts = tuple(f"{prefix}:".encode() for prefix in prefixes)
        self._log = RateLimited(log)
        self._shas: dict[str, None] = {}

    def saw(self, command: Command, catalogue: Catalogue, now: Instant) -> None:
        """A script call that is no lock operation: one of the protocol's other scripts, or a stranger."""
        words = command.words
        if command.name not in {b"EVALSHA", b"EVAL"} or not any(w and w.startswith(self._starts) for w in words[3:7]):
            return
        body = words[1] or b""
        if catalogue.identify(body) is not None:
            return
        self.count += 1
        if command.name == b"EVAL":
            sha = hashlib.sha1(body, usedforsecurity=False).hexdigest() if body else "a text too large to hash"
        else:
            sha = body[:40].decode("ascii", "replace").lower()
        if len(self._shas) < SHAS_MAX:
            self._shas[sha] = None
        said = self._log.warning(
            "script calls on queue-like keys are not recognised: their locks are not seen",
            now=now,
            shas=list(self._shas),
            calls=self.count,
            hint="emqproxy scripts identify SHA tells whether this release knows a script",
        )
        if said:
            self._shas.clear()
