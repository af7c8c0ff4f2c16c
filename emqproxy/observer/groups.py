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

_OTHERS_MAX: Final = 4096
"""Scripts, clients, queues and turns of phrase that are kept as they are told."""


class Holder:
    """An attempt, as all its spans tell it."""

    __slots__ = ("span_id", "speaker", "trace_id")

    def __init__(self, trace_id: int, span_id: int, speaker: Group) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        """Of the attempt's own span."""
        self.speaker = speaker


class Groups:
    """Each method gives the group of what it is asked for."""

    def __init__(self, hello: Hello, tokens: Tokens) -> None:
        self._hello, self._tokens = hello, tokens
        self._namespace = hello.settings.namespace
        self.operation = lru_cache(_OTHERS_MAX)(self._operation)
        self.call = lru_cache(_OTHERS_MAX)(_call)
        self.peer = lru_cache(_OTHERS_MAX)(_peer)
        self.words = lru_cache(_OTHERS_MAX)(_words)
        self.summary = lru_cache(_OTHERS_MAX)(_summary)

    def holder(self, attempt: Attempt) -> Holder:
        """Made anew each time: whoever remembers the attempt keeps it."""
        trace_id = self.trace_id(attempt.lock)
        span_id = ids.span_of(self._namespace, attempt.lock, attempt.token, attempt.number)
        return Holder(trace_id, span_id, self.speaker(attempt.queue, attempt.lock, attempt.token))

    def trace_id(self, lock: Lock) -> int:
        """Of the job that this lock guards; made anew each time, as is `speaker`."""
        return ids.trace_of(self._namespace, lock)

    def speaker(self, queue: Queue, lock: Lock, token: bytes) -> Group:
        """Which job, and who speaks."""
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
