"""Whether Redis does what a connection asks: as long as that is open, little is held for it.

Where a password is asked, Redis takes from a client that has not given it no command of more than 10 words and none
with a word of more than 16 KiB, so that it never holds much for nobody: it says so at the header, and closes. We cannot
know from the bytes whether a password is asked. So where a command that is to be held is past those limits, and Redis
has done nothing for its client yet, a command of ours goes on that is past them likewise, and changes nothing: either
Redis says to that what it would have said to the client's, and the client is given it; or it is answered, of which no
client hears, and all is well.
"""

from __future__ import annotations

from typing import Final

from emqproxy.wire.items import Held
from emqproxy.wire.replies import ERROR, Frame

UNASKED_WORDS_MAX: Final = 10
UNASKED_WORD_BYTES_MAX: Final = 16 * 1024
"""Redis's own limits for a client that has not given the password."""
UNPROVEN_BYTES_MAX: Final = 1024 * 1024
"""Held of one command where it stays open whether Redis does what it is asked, and no answer is to be had that would
tell: under CLIENT REPLY OFF from the first command on, or where SCRIPT is renamed."""
WAITING_BYTES: Final = 64 * 1024
"""With so much held, and an answer out that may tell, no more is read until it has come."""

_EXISTS: Final = b"$6\r\nSCRIPT\r\n$6\r\nEXISTS\r\n"
_RUN: Final = frozenset(
    b"NOSCRIPT NOPERM WRONGTYPE BUSY LOADING MASTERDOWN MISCONF OOM READONLY NOREPLICAS EXECABORT".split()
)
"""Errors that only a client is given who may send commands. All of Redis's own, and none of AUTH's or HELLO's."""


def proves(frame: Frame) -> bool | None:
    """Whether an answer shows that Redis does what it is asked; None where it leaves that as it was."""
    raw = frame.raw or b""
    if frame.kind != ERROR:
        return raw != b"+RESET\r\n"  # that is answered to anybody, and takes back what AUTH gave
    return True if raw[1:-2].partition(b" ")[0] in _RUN else None


def denies(frame: Frame) -> bool:
    """Whether a password is asked that was not given."""
    return frame.kind == ERROR and (frame.raw or b"").startswith(b"-NOAUTH")


def is_last_word(frame: Frame) -> bool:
    """Whether Redis will close the connection on account of its bytes."""
    return frame.kind == ERROR and (frame.raw or b"").startswith(b"-ERR Protocol error")


def trespasses(held: Held) -> bool:
    """Whether Redis would close the connection on such a command of nobody's."""
    return held.words > UNASKED_WORDS_MAX or held.longest > UNASKED_WORD_BYTES_MAX


def trespass(held: Held) -> bytes:
    """One command that is as much past the limits as needs be for the same words of Redis's; it only asks."""
    if held.words > UNASKED_WORDS_MAX:
        return b"*%d\r\n" % (UNASKED_WORDS_MAX + 1) + _EXISTS + b"$1\r\n0\r\n" * (UNASKED_WORDS_MAX - 1)
    size = UNASKED_WORD_BYTES_MAX + 1
    return b"*3\r\n" + _EXISTS + b"$%d\r\n" % size + b"0" * size + b"\r\n"
