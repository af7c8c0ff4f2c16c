"""What is told on many spans, and made once: ids, and groups of attributes. Bounded: the least used are forgotten."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from emqproxy.locks.events import Lock, Queue
from emqproxy.locks.verdicts import Attempt
from emqproxy.observer import attributes, ids
from emqproxy.observer.draft import Group
from emqproxy.observer.tokens import Tokens
from emqproxy.records import CallSite, Hello, Peer

_JOBS_MAX: Final = 16_384
"""Jobs and attempts whose ids and names are kept at hand."""
_OTHERS_MAX: Final = 4096
"""Scripts, clients, queues and turns of phrase that are kept as they are told."""


class Groups:
    """Each method gives the group of what it is asked for."""

    def __init__(self, hello: Hello, tokens: Tokens) -> None:
        self._hello, self._tokens = hello, tokens
        self._namespace = hello.settings.namespace
        self.trace_id = lru_cache(_JOBS_MAX)(self._trace_id)
        self.speaker = lru_cache(_JOBS_MAX)(self._speaker)
        self._attempt_id = lru_cache(_JOBS_MAX)(self._hashed)
        self.operation = lru_cache(_OTHERS_MAX)(self._operation)
        self.call = lru_cache(_OTHERS_MAX)(_call)
        self.peer = lru_cache(_OTHERS_MAX)(_peer)
        self.words = lru_cache(_OTHERS_MAX)(_words)
        self.summary = lru_cache(_OTHERS_MAX)(_summary)

    def span_id(self, attempt: Attempt) -> int:
        """Of the attempt's own span."""
        return self._attempt_id(attempt.lock, attempt.token, attempt.number)

    def _trace_id(self, lock: Lock) -> int:
        return ids.trace_of(self._namespace, lock)

    def _hashed(self, lock: Lock, token: bytes, number: int) -> int:
        return ids.span_of(self._namespace, lock, token, number)

    def _speaker(self, queue: Queue, lock: Lock, token: bytes) -> Group:
        return Group(attributes.of_lock(queue, lock) | attributes.of_token(self._tokens, token))

    def _operation(self, name: str, kind: str | None, queue: Queue) -> Group:
        return Group(attributes.of_operation(name, kind, queue, self._hello))


def _call(call: CallSite | None) -> Group:
    return Group(attributes.of_call(call))


def _peer(peer: Peer | None) -> Group:
    return Group(attributes.of_peer(peer))


def _words(words: attributes.Words) -> Group:
    return Group(attributes.of_words(words))


def _summary(attempt: attributes.Summary) -> Group:
    return Group(attributes.of_summary(attempt))
