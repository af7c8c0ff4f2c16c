"""Calls of scripts as words, and transactions of them."""

from __future__ import annotations

from tests.proxy.hand import Hand
from tests.scripts.talk import text_of


def words_of(call: list[bytes | None]) -> list[bytes]:
    return [word for word in call if word is not None]


def evals(call: list[bytes | None], label: str) -> list[bytes]:
    """A call with the script's text."""
    return [b"EVAL", text_of(label), *words_of(call)[2:]]


def queued(hand: Hand, *commands: list[bytes]) -> object:
    """A transaction; what EXEC said."""
    assert hand.wire.call("MULTI") == b"OK"
    for command in commands:
        assert hand.wire.call(*command) == b"QUEUED"
    return hand.wire.call("EXEC")
