"""Commands whose replies or effects the pairing must know, as data. All others have one reply and change nothing here.

Source: redis-server 7.0.15; `COMMAND INFO` and its sources for what runs inside MULTI and what CLIENT REPLY silences.
"""

from __future__ import annotations

import enum
from typing import Final


class Rule(enum.Enum):
    """What the pairing does with a command."""

    SCRIPT = "script"
    """A script call, one that brings a script's text, or one that wipes databases: handed to those who know them."""
    MULTI = "multi"
    EXEC = "exec"
    DISCARD = "discard"
    SELECT = "select"
    HELLO = "hello"
    RESET = "reset"
    CLIENT = "client"
    """REPLY decides on replies; SETNAME is remembered; the rest is plain."""
    SUBSCRIBE = "subscribe"
    """A confirmation a channel."""
    UNSUBSCRIBE = "unsubscribe"
    """A confirmation a channel; without arguments one for each that was subscribed, or one."""
    BLIND = "blind"
    """After it the connection speaks something else: nothing can be paired."""


RULES: Final = {
    b"EVAL": Rule.SCRIPT,
    b"EVALSHA": Rule.SCRIPT,
    b"SCRIPT": Rule.SCRIPT,
    b"FLUSHALL": Rule.SCRIPT,
    b"FLUSHDB": Rule.SCRIPT,
    b"SWAPDB": Rule.SCRIPT,
    b"MULTI": Rule.MULTI,
    b"EXEC": Rule.EXEC,
    b"DISCARD": Rule.DISCARD,
    b"SELECT": Rule.SELECT,
    b"HELLO": Rule.HELLO,
    b"RESET": Rule.RESET,
    b"CLIENT": Rule.CLIENT,
    b"SUBSCRIBE": Rule.SUBSCRIBE,
    b"PSUBSCRIBE": Rule.SUBSCRIBE,
    b"SSUBSCRIBE": Rule.SUBSCRIBE,
    b"UNSUBSCRIBE": Rule.UNSUBSCRIBE,
    b"PUNSUBSCRIBE": Rule.UNSUBSCRIBE,
    b"SUNSUBSCRIBE": Rule.UNSUBSCRIBE,
    b"MONITOR": Rule.BLIND,
    b"SYNC": Rule.BLIND,
    b"PSYNC": Rule.BLIND,
    b"POST": Rule.BLIND,
    b"HOST:": Rule.BLIND,
}
"""By upper-case name. POST and `Host:` are what an HTTP client says: Redis closes the connection without a reply."""

CHANNEL_KINDS: Final = {
    b"SUBSCRIBE": "channels",
    b"UNSUBSCRIBE": "channels",
    b"PSUBSCRIBE": "patterns",
    b"PUNSUBSCRIBE": "patterns",
    b"SSUBSCRIBE": "shards",
    b"SUNSUBSCRIBE": "shards",
}
"""Which of a connection's three sets of subscriptions a command works on."""

CONFIRMATIONS: Final = frozenset(name.lower() for name in CHANNEL_KINDS)
"""The first element of a confirmation: the command's name in lower case."""

MESSAGES: Final = frozenset({b"message", b"pmessage", b"smessage"})
"""The first element of what a subscribed RESP 2 connection is sent unasked; no command allowed there answers so."""

DENIALS: Final = frozenset({"NOAUTH", "NOPERM", "BUSY", "LOADING", "MASTERDOWN"})
"""Refused before it ran, whatever the command was: CLIENT REPLY among them would then have been answered."""


def blind_reason(name: bytes) -> str:
    """Why nothing can be paired after this command, in words."""
    if name in {b"POST", b"HOST:"}:
        return "an HTTP request on the Redis port"
    return f"{name.decode().upper()} turns the connection into a stream"
