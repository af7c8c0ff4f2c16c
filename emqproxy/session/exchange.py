"""A request with its reply: what the session hands to those who know what it means.

The session keeps only requests that somebody may want to read (`Command`); all others are counted. A command that
nobody recognises goes back to being counted.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

Word: TypeAlias = bytes | None
"""An argument of a command; None where it was too large to be held (see `wire.reader`)."""


class ErrorReply(bytes):
    """An error reply, without its `-`: `NOSCRIPT No matching script.`"""

    @property
    def prefix(self) -> str:
        """Its first word, which is its kind: `NOSCRIPT`, `ERR`, `OOM`."""
        return self.split(b" ", 1)[0].decode("ascii", "replace")


class Missing:
    """A reply that is not there to be read. One value a reason, compared by identity."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __repr__(self) -> str:
        return f"<{self.why}>"


LOST: Final = Missing("the answer never came")
UNREAD: Final = Missing("the answer came, and could not be read")
SILENT: Final = Missing("no answer was asked for (CLIENT REPLY OFF or SKIP)")
NOT_RUN: Final = Missing("the transaction did not run: DISCARD, EXECABORT, a nil EXEC, or refused when queueing")

Reply: TypeAlias = "int | float | bool | bytes | ErrorReply | Missing | list[Reply] | dict[Reply, Reply] | None"
"""A decoded reply, RESP 2 or 3. Simple and bulk strings are bytes, a bulk past the reader's limit is None."""


class Command(msgspec.Struct, eq=False, gc=False):
    """A request of interest: a script or function call, SCRIPT LOAD, FLUSH* and SWAPDB, or a write on a queue's keys.

    Of the last, `table.key_positions(command.words)` tells which words are keys; at least one is a lock's, or may be a
    queue's list or a job's (`commands.on_a_queue`).
    """

    name: bytes
    """Upper case: `EVALSHA`, `EVAL`, `FCALL`, `SCRIPT`, `DEL`, `SET`."""
    words: list[Word]
    """As sent, the name first and in upper case: `[b"EVALSHA", b"99b6…", b"2", …]`. At most the first 64; of a write,
    words past 4 KiB may be None."""
    request: int
    """Its number on the connection: counts commands of interest, from 1."""
    db: int
    """The database it will run in, as far as the requests sent so far tell (a pipelined SELECT counts)."""
    opened: int
    """Instant (monotonic ns) at which its last byte was read from the client."""
    wanted: bool = False
    """Somebody reads its answer. Set by `Session.keep`."""
    held_bytes: int = 0
    """Size of its words, where they are held until the answer comes."""


class Exchange(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A command of interest, and what became of it.

    Inside MULTI the instants are EXEC's, and `in_exec` is True: a NOSCRIPT there is an outcome, not a retry.
    """

    command: Command
    reply: Reply
    opened: int
    closed: int
    """Instant at which the reply was read, or at which it was certain that none comes."""
    db: int
    """The database it ran in, as the replies proved it."""
    in_exec: bool
    resp: Literal[2, 3]
