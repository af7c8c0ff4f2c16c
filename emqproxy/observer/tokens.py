"""How a lock token is told. A token is a bearer capability: who knows it may finish the job.

`fingerprint`: 16 hex of BLAKE2b, keyed with `trace.token_key`; the same key on all sidecars, or fingerprints do not
match. Without a key it is unkeyed under our own person string: enough for random uuids, not for tokens that can be
guessed.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from emqproxy.observer.names import text

Policy: TypeAlias = Literal["fingerprint", "raw", "off"]

_PERSON: Final = b"emqproxy.token.1"
_KEY_BYTES_MAX: Final = 64
"""BLAKE2b takes no longer key; a longer one is hashed first."""
_TOKENS_MAX: Final = 1024
_WORKERS_MAX: Final = 4096
"""Tokens and workers whose names are kept at hand: one line asks more than once, one worker has many tokens."""
_UUID_AND_NUMBER: Final = re.compile(
    rb"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}):([0-9]{1,18})"
)


class TokenName(NamedTuple):
    """A token as it may be told; all None where the policy is `off`, or there is no token."""

    token: str | None
    worker: str | None
    """Of a `uuid:n` token: the uuid part, told by the same policy."""
    number: int | None
    """Of a `uuid:n` token: n, the worker's count of its fetches."""


_NOTHING: Final = TokenName(None, None, None)


class Tokens:
    """One policy with its key."""

    def __init__(self, policy: Policy, key: str = "") -> None:
        self._policy = policy
        raw = key.encode()
        key_bytes = raw if len(raw) <= _KEY_BYTES_MAX else hashlib.blake2b(raw).digest()
        self._begun = hashlib.blake2b(digest_size=8, key=key_bytes, person=_PERSON)
        self._worker = lru_cache(_WORKERS_MAX)(self._tell)
        self.name = lru_cache(_TOKENS_MAX)(self._name)
        """How a token is told, as a worker sent it; empty where the speaker needs none."""

    def worker(self, token: bytes) -> str | None:
        """What of a token may be its worker's, told by the same policy: what stands before its first colon."""
        worker, colon, _ = token.partition(b":")
        return self._worker(worker) if colon and worker and self._policy != "off" else None

    def _name(self, token: bytes) -> TokenName:
        if self._policy == "off" or not token:
            return _NOTHING
        parts = _UUID_AND_NUMBER.fullmatch(token)
        if parts is None:
            return TokenName(self._tell(token), None, None)
        return TokenName(self._tell(token), self._worker(parts[1]), int(parts[2]))

    def _tell(self, raw: bytes) -> str:
        if self._policy == "raw":
            return text(raw)
        own = self._begun.copy()
        own.update(raw)
        return own.hexdigest()
