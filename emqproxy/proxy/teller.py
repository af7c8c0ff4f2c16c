"""From verdicts to records: what was said of a call waits here until its verdict has come, and goes to the bus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from emqproxy.locks.events import (
    AnyFact,
    Instant,
    Lapsed,
    Lock,
    LockFact,
    Met,
    NoProof,
    Nothing,
    Place,
    Sighted,
    Untouched,
    Window,
)
from emqproxy.locks.evictions import Memory
from emqproxy.locks.policy import Decision
from emqproxy.locks.verdicts import Verdict
from emqproxy.proxy import clock
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.consulting import Consulting
from emqproxy.proxy.surmised import Surmised
from emqproxy.records import AttemptOver, CallSite, Line, Peer, Record


class Spoken(msgspec.Struct, frozen=True, gc=False):
    """What a line needs beside its verdict, kept from the fact to the verdict on it."""

    line: Line
    peer: Peer
    call: CallSite
    decision: Decision | None
    """What became of the call; None where nobody was asked."""
    idle_ms: float | None = None
    sent: Instant = 0
    """When it was sent at the earliest; 0: when it was read."""
    heard: Instant = 0
    """As `Teller.heard` has it."""


BESIDES_MAX: Final = 256
_NO_CAUSE: Final = (None, None, ())
_SAY_NOTHING: Final = (Nothing, NoProof, Untouched, Met)
"""Facts that change nothing in what is found later."""


class Teller:
    """One data plane's."""

    def __init__(self, bus: Bus, lag: clock.LoopLag, surmised: Surmised, consulting: Consulting) -> None:
        self._bus, self._lag, self._surmised, self._consulting = bus, lag, surmised, consulting
        self._waiting: dict[tuple[Place, Lock | None], Spoken] = {}
        """Lines whose verdict has not come: with every verdict given at once, none outlives `tell`."""
        self._besides: deque[tuple[Instant, AnyFact]] = deque(maxlen=BESIDES_MAX)
        """Facts without a line of their own since the last line, each with when it was heard."""
        self._memory: deque[Memory] = deque(maxlen=BESIDES_MAX)
        """What Redis said of its memory since the last line."""
        self._latest: Instant = 0
        self._blind: set[int] = set()

    @property
    def waiting(self) -> int:
        """Lines whose verdict has not come."""
        return len(self._waiting)

    def tell(self, verdicts: Iterable[Verdict], now: Instant) -> None:
        """Verdicts on facts of any time; those that nothing waits for end attempts at most."""
        lag_ns = self._lag.lag_ns(now)
        for verdict in map(self._surmised.soften, verdicts):
            fact = verdict.fact
            told = None
            if isinstance(fact, Lapsed):
                self._made(Line("lapse", "told"), verdict, None, lag_ns)
                continue
            if self._waiting:
                told = self._waiting.pop((fact.place, fact.lock if isinstance(fact, LockFact) else None), None)
            if told is not None:
                self._record(told, verdict, lag_ns)
            else:
                for attempt in verdict.over:
                    self._bus.tell(AttemptOver(attempt))

    def beside(self, fact: AnyFact) -> None:
        """A fact that has no line of its own, before the verdicts on it are told: it goes with the next line."""
        if isinstance(fact, Sighted):
            if fact.place.conn not in self._blind:
                return
            self._blind.remove(fact.place.conn)
        heard = self.heard(fact)
        if not isinstance(fact, _SAY_NOTHING):
            self._besides.append((heard, fact))

    def heard(self, fact: AnyFact) -> Instant:
        """Behind which instant a fact was heard that was closed before it; 0 for nearly all, heard in their order. Of a
        connection that closed, what nobody answered is heard when its turn has come."""
        closed, latest = fact.window.closed, self._latest
        if closed < latest:
            return latest
        self._latest = closed
        return 0

    def tell_of(self, told: Spoken, verdicts: list[Verdict], fact: object, now: Instant) -> None:
        """A line, and what was said when its fact was observed; its own verdict may come later."""
        if len(verdicts) == 1 and (verdict := verdicts[0]).fact is fact:  # nearly always
            self._record(told, self._surmised.soften(verdict), self._lag.lag_ns(now))
            return
        assert isinstance(fact, msgspec.Struct)
        place: Place = fact.place  # type: ignore[attr-defined]  # every fact has one
        self._waiting[place, fact.lock if isinstance(fact, LockFact) else None] = told
        self.tell(verdicts, now)

    def connection(self, target: str, fact: AnyFact, peer: Peer | None) -> None:
        """A client's connection was made or closed; without a peer, Redis was lost or another one answers."""
        heard = self.heard(fact) if target == "closed" else 0
        self._made(Line("conn", "told", target=target), Verdict(fact, None, at=fact.window.closed), peer, 0, heard)

    def watch(self, now: Instant) -> None:
        """What only time tells: of jobs that nobody sweeps, and of jobs that are renewed and no more."""
        for lock, queue, token, (cause, because, evidence) in self._consulting.watches.due(now):
            fact = Untouched(Place(0, 0), Window(now, now), lock, queue, token)
            number, line, verdict = self._bus.number(), Line("watch", "told"), Verdict(fact, None, at=now)
            told = Record(number, line, verdict, None, None, cause=cause, because=because, evidence=evidence)
            self._bus.tell(self._with_since(told))

    def memory(self, memory: Memory) -> None:
        """Redis said how it is with its memory: what is new goes with the next line."""
        self._memory.extend(self._consulting.memory(memory))

    def blind(self, peer: Peer, verdict: Verdict, reason: str) -> None:
        """A connection cannot be followed any more."""
        self._blind.add(peer.conn)
        line, number, heard = Line("blind", "told"), self._bus.number(), self.heard(verdict.fact)
        self._bus.tell(self._with_since(Record(number, line, verdict, peer, None, reason, heard_ns=heard)))

    def _record(self, told: Spoken, verdict: Verdict, lag_ns: int) -> None:
        action, rule, decision = "", None, told.decision
        if decision is not None:
            action = decision.action.value
            rule = decision.charge.rule.value if decision.charge is not None else None
        number, line, peer, call, idle_ms = self._bus.number(), told.line, told.peer, told.call, told.idle_ms
        found, burst = self._consulting.line(number, line, verdict, peer, call, lag_ns, idle_ms)
        cause, because, evidence = found or _NO_CAUSE
        pauses, besides, memory = self._since()
        self._bus.tell(
            Record(
                number, line, verdict, peer, call, None, lag_ns, action, rule, idle_ms, burst, cause, because, evidence,
                told.sent, pauses, besides, told.heard, memory,
            )
        )  # fmt: skip

    def _made(self, line: Line, verdict: Verdict, peer: Peer | None, lag_ns: int, heard: Instant = 0) -> None:
        """A line that no call made."""
        number = self._bus.number()
        found, _ = self._consulting.line(number, line, verdict, peer, None, lag_ns, None)
        record = self._with_since(Record(number, line, verdict, peer, None, lag_ns=lag_ns, heard_ns=heard))
        if found is not None:
            cause, because, evidence = found
            record = msgspec.structs.replace(record, cause=cause, because=because, evidence=evidence)
        self._bus.tell(record)

    def _with_since(self, record: Record) -> Record:
        pauses, besides, memory = self._since()
        return msgspec.structs.replace(record, pauses=pauses, besides=besides, memory=memory)

    def _since(self) -> tuple[tuple[Window, ...], tuple[tuple[Instant, AnyFact], ...], tuple[Memory, ...]]:
        """Our own pauses, the facts without a line, and what was heard of memory, since the last line: whoever judges
        the lines again needs them."""
        pauses, besides, memory = self._lag.pauses, self._besides, self._memory
        if not pauses and not besides and not memory:  # nearly always
            return (), (), ()
        told = tuple(pauses), tuple(besides), tuple(memory)
        pauses.clear()
        besides.clear()
        memory.clear()
        return told
