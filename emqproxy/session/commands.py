"""Commands whose replies or effects the pairing must know: what `table` says, as rules. All others have one.

Source: redis-server 7.0.15; `COMMAND` and its sources for what runs inside MULTI and what CLIENT REPLY silences.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from emqproxy.session.exchange import Word
from emqproxy.session.table import COMMANDS, KEY_ENDS, LIST_MARKS, key_positions, option_of


class Rule(enum.Enum):
    """What the pairing does with a command."""

    SCRIPT = "script"
    """A script or function call, one that brings a script's text, or one that wipes databases: handed to those who know
    them."""
    WRITE = "write"
    """Handed to them if one of its keys is a lock's, or may be a queue's list or a job's; else plain."""
    MULTI = "multi"
    EXEC = "exec"
    DISCARD = "discard"
    SELECT = "select"
    HELLO = "hello"
    RESET = "reset"
    QUIT = "quit"
    """Answered, and nothing behind it is."""
    REPLCONF = "replconf"
    """One reply, but for what a replica reports: that has none."""
    CLIENT = "client"
    """REPLY decides on replies; SETNAME is remembered; the rest is plain."""
    SUBSCRIBE = "subscribe"
    """A confirmation a channel."""
    UNSUBSCRIBE = "unsubscribe"
    """A confirmation a channel; without arguments one for each that was subscribed, or one."""
    BLIND = "blind"
    """After it the connection speaks something else: nothing can be paired."""
    REFUSED = "refused"
    """No command's: it was refused, and what stands in its place upstream has one reply, which is replaced by ours."""


RULES: Final = {
    name: Rule(spec.pairing) for name, spec in COMMANDS.items() if spec.pairing not in {"one", Rule.WRITE.value}
} | {b"POST": Rule.BLIND, b"HOST:": Rule.BLIND}
"""By upper-case name. POST and `Host:` are what an HTTP client says: Redis closes the connection without a reply."""

WRITES: Final = frozenset(name for name, spec in COMMANDS.items() if spec.pairing == Rule.WRITE.value)
"""Commands that may change a key, and are looked at where a key of a queue's may stand in what the client sent."""

LOCK_MARK: Final = b":lock"
"""The end of every lock's key."""

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


def on_a_queue(words: Sequence[Word], length: int, prefixes: tuple[bytes, ...] = ()) -> bool:
    """Whether one of the command's keys is a lock's; or, within the prefixes, a list of a queue's, or what may be a job
    where it is deleted."""
    if not any(word is not None and (word.endswith(LOCK_MARK) or word.startswith(prefixes)) for word in words[1:]):
        return False
    ends = (b"",) if words[0] in KEY_ENDS else LIST_MARKS  # a job's own key has no mark
    for key in (words[at] for at in key_positions(words, length)):
        if key is not None and (key.endswith(LOCK_MARK) or (key.startswith(prefixes) and key.endswith(ends))):
            return True
    return False


def unanswered(words: Sequence[Word]) -> bool:
    """Whether a REPLCONF may be one of those that a replica is not answered to."""
    return any(option_of(word) in {b"ACK", b"GETACK"} for word in words[1::2])


def setname(words: Sequence[Word]) -> bytes | None:
    """The name in `HELLO 3 AUTH user password SETNAME name`; nothing else of it is kept."""
    at = 2
    while at < len(words):
        option = option_of(words[at])
        if option == b"SETNAME" and at + 1 < len(words):
            return words[at + 1]
        at += 3 if option == b"AUTH" else 1
    return None
