"""Whether a call may pass: its own defects and what the ledger is certain of, weighed by the policy.

One Judge serves all connections. In observe mode nobody asks it. A fault of ours in judging is the caller's matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from emqproxy.locks.claims import NO_TOKENS, Claims
from emqproxy.locks.events import (
    AnyFact,
    AnyIntent,
    Instant,
    Intent,
    LockIntent,
    Place,
    Release,
    Renew,
    Sweep,
    Take,
    Wipe,
    Write,
)
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.policy import PASS, Action, Charge, Decision, Rule, Rules, Stance, decide
from emqproxy.proxy.surmised import Surmised
from emqproxy.records import Line
from emqproxy.scripts import defects
from emqproxy.scripts.answers import failure
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.operation import Happening, Operation
from emqproxy.scripts.raw import SCRIPT_CALLS
from emqproxy.scripts.refusals import not_yours
from emqproxy.scripts.remove import Orphans
from emqproxy.scripts.wipes import Wiping
from emqproxy.session.exchange import Command, ErrorReply, Exchange

STANCES: Final = {"observe": Stance.OBSERVE, "shadow": Stance.SHADOW, "enforce": Stance.ENFORCE}
_OPS: Final[dict[type[Intent], str]] = {Take: "acquire", Sweep: "sweep", Wipe: "wipe"}
"""The journal's words for calls whose lines need not have a job."""
_OWN_ANSWER: Final = frozenset({Rule.ZERO_TOKEN, Rule.LAPSED_HOLDER})
"""Their clients are given what the script itself would say."""
_GUARDS_NOTHING: Final = frozenset(("updateProgress", "updateData", "addLog", "saveStacktrace", "changePriority"))
"""Scripts that write to a job wherever it stands; what others do to one that is active, they refuse themselves."""


class Limits(Protocol):
    """Of the configuration."""

    @property
    def judge_bytes(self) -> int: ...
    @property
    def ttl_ms_min(self) -> int: ...
    @property
    def ttl_ms_max(self) -> int: ...


class Judged(NamedTuple):
    """What a call is, perhaps more than was recognised, and what becomes of it."""

    operation: Operation | None
    decision: Decision


class Judge:
    """`weigh` each call before it goes on, then tell it what goes on (`passed`) and what the answers proved
    (`observed`)."""

    def __init__(self, catalogue: Catalogue, ledger: LockLedger, surmised: Surmised) -> None:
        self.rules = Rules()
        self.judge_bytes, self.ttl_ms_min, self.ttl_ms_max = 8_388_608, 1, 86_400_000
        self._catalogue, self._ledger, self._surmised = catalogue, ledger, surmised
        self._prefixes = catalogue.strangers.prefixes
        self._claims = Claims(ledger.locks_max)

    @property
    def sits(self) -> bool:
        """Whether there is anything to judge."""
        return self.rules.mode is not Stance.OBSERVE

    @property
    def enforces(self) -> bool:
        """Whether calls wait for a judgement before they go on."""
        return self.rules.mode is Stance.ENFORCE

    def use(self, mode: str, rules: Mapping[str, str], limits: Limits, allowed: Iterable[str]) -> None:
        """From now on. Claims from before a time in which nobody was judged are forgotten."""
        self._catalogue.allowed = frozenset(allowed)
        sat = self.sits
        self.rules = Rules(STANCES[mode], {rule: STANCES[rules[rule.value]] for rule in Rule if rule.value in rules})
        self.judge_bytes, self.ttl_ms_min, self.ttl_ms_max = limits.judge_bytes, limits.ttl_ms_min, limits.ttl_ms_max
        if self.sits and not sat:
            self._claims = Claims(self._ledger.locks_max)

    # ---------------------------------------------------------------- facts in

    def passed(self, intents: Iterable[AnyIntent], decision: Decision) -> None:
        """A call goes on. One that would be refused as stale is no use of its token: enforced, it would not run."""
        if decision.charge is None or decision.charge.rule is not Rule.LAPSED_HOLDER:
            for intent in intents:
                self._claims.spoke(intent)

    def observed(self, fact: AnyFact) -> None:
        """An answer proved something."""
        self._claims.observed(fact)

    # ---------------------------------------------------------------- the question

    def weigh(self, command: Command, operation: Operation | None, conn: int, now: Instant) -> Judged:
        """What becomes of a command that was recognised as `operation`, or as none."""
        known = defects.KnownScripts(None, None)
        if command.name in SCRIPT_CALLS:
            known = self._catalogue.known(command)
        charges: list[Charge] = []
        if (defect := defects.of_call(command, operation, known, self._prefixes)) is not None:
            charges.append(_charge(defect))
            if operation is None:
                operation = defects.stranger(command, known, self._prefixes)
        if operation is not None:
            intents = operation.intents(Place(conn, command.request), command.db)
            defect = defects.of_pickup(intents, self.ttl_ms_min, self.ttl_ms_max)
            if defect is not None and operation.script.match != "shape":
                charges.append(_charge(defect))
            charges += self._charges(operation, intents, now)
        return Judged(operation, decide(charges, self.rules) if charges else PASS)

    def _charges(self, operation: Operation, intents: tuple[AnyIntent, ...], now: Instant) -> Iterator[Charge]:
        """What a call is charged with on account of what is certain. A batch only where each of its ids is."""
        named = [intent for intent in intents if isinstance(intent, (Renew, Release))]
        found = [self._of_speaker(intent, now) for intent in named]
        rules = {charge.rule for charge in found if charge is not None}
        if found and None not in found and len(rules) == 1 and not_yours(operation) is not None:
            yield from (charge for charge in found[:1] if charge is not None)
        for intent in intents:
            charge = None
            if isinstance(intent, Write) and operation.script.name in _GUARDS_NOTHING:
                charge = self._of_write(intent, now)
            elif isinstance(intent, Wipe):
                charge = self._of_wipe(operation, intent, now)
            if charge is not None:
                yield charge

    def _of_speaker(self, intent: Renew | Release, now: Instant) -> Charge | None:
        """Of a renewal, finish or move."""
        holder = self._holder(intent, now)
        if holder is None:
            return None
        if intent.token in NO_TOKENS and holder != intent.token:
            if self._claims.was_bypassed(intent.lock):
                return None
            what = 'the token "0"' if intent.token else "an empty token"
            return Charge(Rule.ZERO_TOKEN, f"{what} against a lock that another holds")
        conn = intent.place.conn
        if holder != intent.token or not self._claims.is_stale(intent.lock, holder, conn):
            return None
        if self._ledger.certain.may_take(intent.queue, intent.token, conn):
            return None
        return Charge(Rule.LAPSED_HOLDER, "the job was given to another connection since, under the same token")

    def _of_write(self, intent: Write, now: Instant) -> Charge | None:
        conn = intent.place.conn
        since = self._claims.holder_since(intent.lock, conn)
        if since is None or self._holder(intent, now) != since.token:
            return None
        if self._ledger.certain.may_take(intent.queue, None, conn):
            return None
        return Charge(Rule.ZOMBIE_WRITE, "a write to a job that this connection has lost, and another holds")

    def _of_wipe(self, operation: Operation, intent: Wipe, now: Instant) -> Charge | None:
        if isinstance(operation, Orphans):
            return None  # it deletes the locks of jobs that are in no list: nobody works on those
        certain, queue = self._ledger.certain, intent.queue
        if queue.prefix:
            held = certain.held_among(queue, None, now)
        else:
            dbs = operation.dbs if isinstance(operation, Wiping) else ()
            held = certain.held_among(None, (queue.db,) if dbs is None else dbs or None, now)
        if held is None:
            return None
        return Charge(Rule.MASS_DELETE, f"{operation.script.label} while locks are held")

    def _holder(self, intent: LockIntent, now: Instant) -> bytes | None:
        if self._surmised.covers(intent.queue):
            return None
        return self._ledger.certain.holder(intent.lock, now)


def refusal(operation: Operation | None, charge: Charge) -> bytes:
    """What the client of a refused call is given: the script's own answer, or one error line."""
    if charge.rule in _OWN_ANSWER and operation is not None and (own := not_yours(operation)) is not None:
        return own.answer
    return b"-" + _error(charge) + b"\r\n"


def blocked(command: Command, operation: Operation, charge: Charge, conn: int, now: Instant) -> list[Happening]:
    """What is told of a refused call: each of its facts, which prove nothing, and at least one line."""
    exchange = Exchange(command, ErrorReply(_error(charge)), now, now, command.db, False, 2)
    own = not_yours(operation) if charge.rule in _OWN_ANSWER else None
    code, code_name = (own.code, own.code_name) if own is not None else (None, None)
    told = []
    for happening in charged(operation, exchange, conn):
        line = happening.line
        if line is not None:
            line = replace(line, outcome=Action.BLOCKED.value, code=code, code_name=code_name)
        told.append(Happening(happening.fact, line))
    return told


def charged(operation: Operation, exchange: Exchange, conn: int) -> list[Happening]:
    """The happenings of a call that breaks a rule. There is always one with a line: a pickup that gave out nothing, or
    a sweep that named nobody, has a queue and no job then."""
    at, command = Place(conn, exchange.command.request), exchange.command
    told = list(operation.happenings(exchange, at))
    if not told or any(happening.line is not None for happening in told):
        return told
    first, op = told[0], "write"
    for intent in operation.intents(at, command.db):
        op = _OPS.get(type(intent), op)
    return [Happening(first.fact, failure(exchange, op) or Line(op, "ok")), *told[1:]]


def _error(charge: Charge) -> bytes:
    return f"EMQPROXY {charge.rule.value} {charge.words}".encode()


def _charge(defect: defects.Defect) -> Charge:
    return Charge(Rule(defect.rule), defect.words)
