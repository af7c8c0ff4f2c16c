"""Release: the scripts that end a lock. moveToFinished, moveToDelayed, retryJob, moveToWaitingChildren,
moveJobFromActiveToWait, releaseLock.

What a return code proves is a table, by script and release. Four traps are in it:

- -3 comes after the lock was deleted; so does -4 of a finish before 5.45.2.
- Before 5.5.4, -2 of delay, retry and wait-children says "absent or another's".
- Up to 5.34.4, moveJobFromActiveToWait answers the rate limiter's PTTL, whatever it did; -1 and -2 are PTTLs too.
- From 5.42.0 to 5.56.6, moveToWaitingChildren also answers 0 when it fails a job whose children failed, and then it
  has looked at no token and left the lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from emqproxy.locks.events import (
    Absent,
    AnyIntent,
    AnyLockFact,
    Bypassed,
    HeldByOther,
    Lock,
    NoProof,
    NotMine,
    Perhaps,
    Place,
    Queue,
    Release,
    Released,
    Window,
)
from emqproxy.records import Line
from emqproxy.scripts.acquire import WILDCARD, Fetch, read_fetch
from emqproxy.scripts.answers import (
    CODE_NAMES,
    NO_PENDING_CHILDREN,
    answered,
    code_of,
    failure,
    nothing_ran,
    part,
    window,
)
from emqproxy.scripts.arguments import Call, entry, plain, unpack_options, whole
from emqproxy.scripts.layouts import LOCK_SUFFIX, Layout, release
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.session.exchange import Exchange, Reply

_About: TypeAlias = tuple[Place, Window, Lock, Queue, bytes]
Proof: TypeAlias = Callable[[Place, Window, Lock, Queue, bytes], AnyLockFact]
"""A fact's class, or what makes one, of the five things that every fact of a lock has."""


def perhaps_released(place: Place, span: Window, lock: Lock, queue: Queue, token: bytes) -> Perhaps:
    """The call may have ended the lock."""
    return Perhaps(place, span, lock, queue, token, None)


class Rule(msgspec.Struct, frozen=True):
    """What one script's return codes prove about the lock, in one range of its releases."""

    op: str
    """The journal's word."""
    done: Proof
    """A success."""
    refused: dict[int, Proof]
    """The codes with which the script says no."""
    success: range = range(1)
    """The codes with which it says yes."""
    wildcard: bool = True
    """The token "0" skips the check. Otherwise it is a token as any other."""
    by_lock_key: bool = False
    """The script is given the lock's key; otherwise it builds it from the job's."""


_SINCE_CODES: Final = release("5.5.4")
_SINCE_CHILDREN_FIRST: Final = release("5.45.2")
_SINCE_FENCED_FAILURE: Final = release("5.56.7")
_SINCE_WAIT_CODES: Final = release("5.34.5")

_FENCED: Final[dict[int, Proof]] = {-1: NoProof, -2: Absent, -3: Released, -6: HeldByOther}
_VAGUE: Final[dict[int, Proof]] = {-1: NoProof, -2: NotMine, -3: Released}
_CHILDREN_FIRST: Final[dict[int, Proof]] = {-4: NoProof, -9: NoProof}

FINISH: Final = Rule("finish", Released, _FENCED | _CHILDREN_FIRST)
FINISH_LOCK_FIRST: Final = Rule("finish", Released, _FENCED | {-4: Released})
FINISH_UNSETTLED: Final = Rule("finish", Released, _FENCED | {-4: perhaps_released, -9: NoProof})
"""Of a learned text: its keys and arguments do not tell which comes first."""
DELAY: Final = Rule("delay", Released, _FENCED)
DELAY_VAGUE: Final = Rule("delay", Released, _VAGUE)
RETRY: Final = Rule("retry", Released, _FENCED)
RETRY_VAGUE: Final = Rule("retry", Released, _VAGUE)
_NO_CHILDREN: Final[dict[int, Proof]] = {1: NoProof, -9: NoProof}
CHILDREN: Final = Rule("wait_children", Released, _FENCED | _NO_CHILDREN)
CHILDREN_UNFENCED: Final = Rule("wait_children", perhaps_released, _FENCED | _NO_CHILDREN)
CHILDREN_VAGUE: Final = Rule("wait_children", Released, _VAGUE | {1: NoProof}, by_lock_key=True)
WAIT: Final = Rule("wait", Released, {-1: NoProof, -2: Absent, -6: HeldByOther}, success=range(2**63))
WAIT_BLIND: Final = Rule(
    "wait", perhaps_released, {}, success=range(-(2**63), 2**63), wildcard=False, by_lock_key=True
)
RELEASE: Final = Rule("release", Released, {0: NotMine}, success=range(1, 2), wildcard=False, by_lock_key=True)


def rule_of(script: Script, layout: Layout) -> Rule:
    """The rule of a script. A published text is judged by its own releases, a learned one by its layout's.

    A published text never spans one of the releases at which a rule changes: the change would have changed the text.
    """
    first = release(script.releases.partition("-")[0]) if script.releases else layout.first
    match layout.script:
        case "moveToFinished":
            if not script.releases:
                return FINISH_UNSETTLED
            return FINISH if first >= _SINCE_CHILDREN_FIRST else FINISH_LOCK_FIRST
        case "moveToDelayed":
            return DELAY if first >= _SINCE_CODES else DELAY_VAGUE
        case "retryJob":
            return RETRY if first >= _SINCE_CODES else RETRY_VAGUE
        case "moveToWaitingChildren":
            if first < _SINCE_CODES:
                return CHILDREN_VAGUE
            return CHILDREN_UNFENCED if layout.has_key("failed") and first < _SINCE_FENCED_FAILURE else CHILDREN
        case "moveJobFromActiveToWait":
            return WAIT if first >= _SINCE_WAIT_CODES else WAIT_BLIND
        case _:
            return RELEASE


class Ending(msgspec.Struct, frozen=True):
    """A call that ends a lock, part 0 of its place, and perhaps fetches the next job, part 1."""

    script: Script
    rule: Rule
    key: bytes
    """The lock's."""
    prefix: bytes
    token: bytes
    target: str | None = None
    delay_ms: int | None = None
    fetch: Fetch | None = None

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        ending = Release(at, Queue(db, self.prefix), Lock(db, self.key), self.token)
        return (ending,) if self.fetch is None else (ending, self.fetch.intent(part(at, 1), db))

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        about = (at, window(exchange), Lock(exchange.db, self.key), Queue(exchange.db, self.prefix), self.token)
        fact, line = self._read(exchange, about)
        ending = Happening(fact, line)
        if self.fetch is None:
            return (ending,)
        if code_of(exchange.reply) is not None and line is not None and line.outcome != "unknown":
            # A number is the whole answer: done with nothing to fetch, or refused before fetching.
            return (ending, self.fetch.nothing(exchange, part(at, 1)))
        return (ending, self.fetch.after(exchange, part(at, 1)))

    def _read(self, exchange: Exchange, about: _About) -> tuple[AnyLockFact, Line | None]:
        """The ending's own fact and line."""
        reply, token_skips = exchange.reply, self.rule.wildcard and self.token == WILDCARD
        if not answered(reply):
            certain = token_skips or nothing_ran(reply)
            line = failure(exchange, self.rule.op, target=self.target, delay_ms=self.delay_ms)
            return (NoProof if certain else perhaps_released)(*about), line
        code = code_of(reply)
        if self._says_yes(reply, code):
            # An array is the next job's: the code behind it would have been 0.
            return (Bypassed if token_skips else self.rule.done)(*about), self._line("ok", code or 0)
        proof = self.rule.refused.get(code) if code is not None else None
        if proof is not None:
            name = NO_PENDING_CHILDREN if code == 1 else CODE_NAMES.get(code or 0)
            return (NoProof if token_skips else proof)(*about), self._line("refused", code, name)
        # A code outside the closed set, or no code: what such a script did with the lock is not known.
        unknown = self._line("unknown", code, CODE_NAMES.get(code or 0))
        return (NoProof if token_skips else perhaps_released)(*about), unknown

    def _says_yes(self, reply: Reply, code: int | None) -> bool:
        if code is None:
            return isinstance(reply, list) and self.fetch is not None
        return code in self.rule.success

    def _line(self, outcome: str, code: int | None, code_name: str | None = None) -> Line:
        return Line(
            self.rule.op, outcome, target=self.target, code=code, code_name=code_name, delay_ms=self.delay_ms
        )


def recognise_finish(script: Script, layout: Layout, call: Call) -> Operation | None:
    """A moveToFinished; its token stands in the packed options, which the fetch-next shares."""
    options = unpack_options(layout.word(call, "packed_options"))
    token, target = plain(entry(options, b"token")), layout.word(call, "target")
    fetch = None
    if layout.word(call, "fetch_next") == b"1":
        fetch = read_fetch(layout.word(call, "prefix"), options, fetched=True)
    told = target.decode() if target in (b"completed", b"failed") else None
    return _ending(script, layout, call, token, target=told, fetch=fetch)


def recognise_move(script: Script, layout: Layout, call: Call) -> Operation | None:
    """One of the others; the token stands plainly in ARGV."""
    fetch = None
    if layout.word(call, "fetch_next") == b"1":
        options = unpack_options(layout.word(call, "packed_options"))
        fetch = read_fetch(layout.word(call, "prefix"), options, fetched=True)
    return _ending(script, layout, call, layout.word(call, "token"), delay_ms=_delay_ms(layout, call), fetch=fetch)


def _ending(
    script: Script,
    layout: Layout,
    call: Call,
    token: bytes | None,
    *,
    target: str | None = None,
    delay_ms: int | None = None,
    fetch: Fetch | None = None,
) -> Operation | None:
    rule = rule_of(script, layout)
    job, key = layout.word(call, "job"), layout.word(call, "lock")
    if not rule.by_lock_key:
        key = None if job is None else job + LOCK_SUFFIX
    if key is None or token is None or not key.endswith(LOCK_SUFFIX):
        return None
    prefix = layout.prefix_of(call, key[: -len(LOCK_SUFFIX)])
    return Ending(script, rule, key, prefix, token, target, delay_ms, fetch)


def _delay_ms(layout: Layout, call: Call) -> int | None:
    """How long the job is to wait; in the oldest releases told only by when, in 1/4096 ms, and how late it is now."""
    delay = whole(layout.word(call, "delay_ms"))
    if delay is not None:
        return delay
    score, now_ms = whole(layout.word(call, "delayed_timestamp")), whole(layout.word(call, "timestamp"))
    return None if score is None or now_ms is None else max(0, score // 4096 - now_ms)
