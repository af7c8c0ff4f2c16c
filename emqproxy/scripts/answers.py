"""What every family shares in reading an answer: whether anything ran, and the journal's words where no code came."""

from __future__ import annotations

import re
from typing import Final

from emqproxy.locks.events import Place, Window
from emqproxy.records import Line
from emqproxy.session.exchange import NOT_RUN, ErrorReply, Exchange, Missing, Reply

CODE_NAMES: Final = {
    -1: "JobNotExist",
    -2: "JobLockNotExist",
    -3: "JobNotInState",
    -4: "JobPendingChildren",
    -5: "ParentJobNotExist",
    -6: "JobLockMismatch",
    -7: "ParentJobCannotBeReplaced",
    -8: "JobBelongsToJobScheduler",
    -9: "JobHasFailedChildren",
    -10: "SchedulerJobIdCollision",
    -11: "SchedulerJobSlotsBusy",
}
"""The closed set of the transitions. Other scripts give the same numbers other meanings."""

OBLITERATE_CODES: Final = {-1: "NotPaused", -2: "HasActiveJobs"}
JOB_LOCKED: Final = "JobLocked"
RENEW_REFUSED: Final = "RenewRefused"
NO_PENDING_CHILDREN: Final = "NoPendingChildren"

NOTHING_RAN: Final = frozenset(
    (
        "ASK",
        "BUSY",
        "CLUSTERDOWN",
        "CROSSSLOT",
        "EMQPROXY",
        "EXECABORT",
        "LOADING",
        "MASTERDOWN",
        "MISCONF",
        "MOVED",
        "NOAUTH",
        "NOPERM",
        "NOREPLICAS",
        "NOSCRIPT",
        "OOM",
        "READONLY",
        "TRYAGAIN",
    )
)
"""Errors that Redis gives before a script, or before its first write: once a script has written, it is let finish, so
OOM, READONLY, MISCONF and NOREPLICAS mean that nothing was written."""

ERROR_NAMES: Final = NOTHING_RAN | {
    "BUSYGROUP",
    "BUSYKEY",
    "ERR",
    "IOERR",
    "NOGROUP",
    "NOPROTO",
    "NOTBUSY",
    "UNBLOCKED",
    "UNKILLABLE",
    "WRONGPASS",
    "WRONGTYPE",
}
"""Redis's own first words of an error. A script may answer any word it likes, which is then no name for a journal."""

_BEFORE_THE_SCRIPT: Final = re.compile(
    rb"ERR (Error compiling script|Function not found|Number of keys can't be |"
    rb"(Unexpected engine|Unexpected flag|Invalid) [a-z ]*shebang|(Invalid engine|Unknown lua shebang option)|"
    rb"(wrong number of arguments for|unknown command) ['`](eval|evalsha|fcall)['`])",
    re.IGNORECASE,
)
"""Texts of Redis's when a script or a function did not begin. What fails in its middle reads otherwise."""

_NO_ANSWERS: Final = (ErrorReply, Missing)


def nothing_ran(reply: Reply) -> bool:
    """Whether it is certain that no write happened."""
    if isinstance(reply, ErrorReply):
        # A missing permission is also met in the middle of a script, and then the text says so.
        if reply.prefix == "ERR":
            return _BEFORE_THE_SCRIPT.match(reply) is not None
        return reply.prefix in NOTHING_RAN and not (reply.prefix == "NOPERM" and reply.find(b" script") >= 0)
    return reply is NOT_RUN


def answered(reply: Reply) -> bool:
    """Whether the script itself answered."""
    return not isinstance(reply, _NO_ANSWERS)


def named(op: str, reply: Reply) -> Line:
    """The line of a script that answers a code of the closed set where it refuses, else nil or what it did."""
    code = code_of(reply)
    if code is not None and code < 0:
        return Line(op, "refused", code=code, code_name=CODE_NAMES.get(code))
    return Line(op, "ok", code=code)


def code_of(reply: Reply) -> int | None:
    """A return code; None where the reply is something else."""
    return reply if isinstance(reply, int) and not isinstance(reply, bool) else None


def failure(
    exchange: Exchange,
    op: str,
    *,
    target: str | None = None,
    delay_ms: int | None = None,
    batch_size: int | None = None,
) -> Line | None:
    """The line of a call that the script did not answer.

    None where the call did not happen: a transaction that did not run, and a NOSCRIPT, which the client follows with
    the text (inside EXEC nobody does, and it is an outcome).
    """
    reply = exchange.reply
    code_name = None
    if isinstance(reply, ErrorReply):
        prefix = reply.prefix
        if prefix == "NOSCRIPT" and not exchange.in_exec:
            return None
        outcome, code_name = "error", prefix if prefix in ERROR_NAMES else "ERR"
    elif reply is NOT_RUN:
        return None
    else:
        outcome = "unknown"
    return Line(op, outcome, target=target, code_name=code_name, delay_ms=delay_ms, batch_size=batch_size)


def window(exchange: Exchange) -> Window:
    """When it can have happened."""
    return Window(exchange.opened, exchange.closed)


def part(at: Place, number: int) -> Place:
    """The place of one part of a request."""
    return Place(at.conn, at.request, number)
