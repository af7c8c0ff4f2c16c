"""What a script itself answers to one who does not hold the lock: what a client is given in its place when we refuse.

Every client library reacts to it as it always does. Success is never invented; a script that has no such answer gets
an error line instead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from emqproxy.scripts.answers import CODE_NAMES, RENEW_REFUSED
from emqproxy.scripts.operation import Operation
from emqproxy.scripts.release import Ending
from emqproxy.scripts.renew import BatchRenewal, Renewal

_MISMATCH: Final = -6
_NOT_EXIST: Final = -2


class Refusal(NamedTuple):
    """An answer, in RESP (it is the same in 2 and 3), and the journal's words for it."""

    answer: bytes
    code: int
    code_name: str | None


def not_yours(operation: Operation) -> Refusal | None:
    """The answer of the operation's script to one whose lock is another's; None where it has none."""
    match operation:
        case Renewal():
            return Refusal(b":0\r\n", 0, RENEW_REFUSED)
        case BatchRenewal():
            ids = b"".join(b"$%d\r\n%b\r\n" % (len(one), one) for one in operation.ids)
            return Refusal(b"*%d\r\n%b" % (len(operation.ids), ids), 0, RENEW_REFUSED)
        case Ending():
            refused = operation.rule.refused
            code = next((code for code in (_MISMATCH, _NOT_EXIST, 0) if code in refused), None)
            if code is None:
                return None
            return Refusal(b":%d\r\n" % code, code, CODE_NAMES.get(code))
        case _:
            return None
