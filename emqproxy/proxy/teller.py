"""From verdicts to records: what was said of a call waits here until its verdict has come, and goes to the bus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from emqproxy.locks.events import (
    AnyFact,
    Instant,
    Lapsed,
    Lock,
    LockFact,
    Met,
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
from emqproxy.proxy.watched import Asked
from emqproxy.records import AttemptOver, CallSite, FactBeside, Line, Peer, Record


class Spoken(msgspec.Struct, frozen=True, gc=False):
    """What a line needs beside its verdict, kept from the fact to the verdict on it."""

    line: Line
    peer: Peer
    call: CallSite
    decision: Decision | None
    """What became of the call; None where nobody was asked."""
    asked: Asked | None = None
    """None where it was not sent."""
    turn: int = 0
    """When its fact was weighed, where its verdict came later."""


BESIDES_MAX: Final = 256
_NO_CAUSE: Final = (None, None, ())
_SAY_NOTHING: Final = (Nothing, Untouched, Met)
"""Facts that change nothing in what is found later, unless something waited for them."""


class Teller:
    """One data plane's."""

    def __init__(self, bus: Bus, lag: clock.LoopLag, surmised: Surmised, consulting: Consulting) -> None:
        self._bus, self._lag, self._surmised, self._consulting = bus, lag, surmised, consulting
        self._waiting: dict[tuple[Place, Lock | None], Spoken] = {}
        """Lines whose verdict has not come: with every verdict given at once, none outlives `tell`."""
        self._besides: deque[FactBeside] = deque(maxlen=BESIDES_MAX)
        """Facts without a line of their own since the last line."""
        self._memory: deque[Memory] = deque(maxlen=BESIDES_MAX)
        """What Redis said of its memory since the last line."""
        self._turn = 0
        """How often the ledger was asked or told anything."""
        self._pauses: list[tuple[Window, int]] = []
        """Our own since the last line, and after which turn each was known."""
        self._blind: set[int] = set()

    @property
    def waiting(self) -> int:
        """Lines whose verdict has not come."""
        return len(self._waiting)

    def turn(self) -> int:
        """Is counted whenever the ledger is asked the intents of a call, or told a fact: whoever judges the lines again
        does all of it in this order."""
        if self._lag.pauses:
            self._pauses += [(pause, self._turn) for pause in self._lag.pauses]
            self._lag.pauses.clear()
        self._turn += 1
        return self._turn

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

    def beside(self, fact: AnyFact, asked: Asked | None = None, *, waited: bool = False) -> None:
        """A fact that has no line of its own, before the verdicts on it are told: it goes with the next line. `waited`:
        other facts did, for this one."""
        turn = self.turn()
        if isinstance(fact, Sighted):
            if fact.place.conn not in self._blind:
                return
            self._blind.remove(fact.place.conn)
        if not waited and isinstance(fact, _SAY_NOTHING):
            return
        if asked is None:
            self._besides.append(FactBeside(fact, turn))
        else:
            intent = next((intent for intent in asked.intents if intent.place == fact.place), None)
            self._besides.append(FactBeside(fact, turn, intent, asked.sent, asked.turn, asked.queued))

    def tell_of(self, told: Spoken, verdicts: list[Verdict], fact: object, now: Instant) -> None:
        """A line, and what was said when its fact was observed; its own verdict may come later."""
        turn = self.turn()
        if len(verdicts) == 1 and (verdict := verdicts[0]).fact is fact:  # nearly always
            self._record(told, self._surmised.soften(verdict), self._lag.lag_ns(now))
            return
        assert isinstance(fact, msgspec.Struct)
        place: Place = fact.place  # type: ignore[attr-defined]  # every fact has one
        self._waiting[place, fact.lock if isinstance(fact, LockFact) else None] = replace(told, turn=turn)
        self.tell(verdicts, now)

    def connection(self, target: str, fact: AnyFact, peer: Peer | None) -> None:
        """A client's connection was made or closed; without a peer, Redis was lost or another one answers."""
        if target == "closed":
            self.turn()
        self._made(Line("conn", "told", target=target), Verdict(fact, None, at=fact.window.closed), peer, 0)

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
        self.turn()
        line, number = Line("blind", "told"), self._bus.number()
        self._bus.tell(self._with_since(Record(number, line, verdict, peer, None, reason)))

    def _record(self, told: Spoken, verdict: Verdict, lag_ns: int) -> None:
        action, rule, decision = "", None, told.decision
        if decision is not None:
            action = decision.action.value
            rule = decision.charge.rule.value if decision.charge is not None else None
        number, line, peer, call, idle_ms = self._bus.number(), told.line, told.peer, told.call, None
        sent, asked, queued = 0, 0, 0
        if (known := told.asked) is not None:
            idle_ms, sent, asked, queued = known.idle_ms, known.sent, known.turn, known.queued
        found, burst = self._consulting.line(number, line, verdict, peer, call, lag_ns, idle_ms)
        cause, because, evidence = found or _NO_CAUSE
        pauses, besides, memory, paused_at = self._since()
        self._bus.tell(
            Record(
                number, line, verdict, peer, call, None, lag_ns, action, rule, idle_ms, burst, cause, because, evidence,
                sent, pauses, besides, memory, told.turn or self._turn, asked, queued, paused_at,
            )
        )  # fmt: skip

    def _made(self, line: Line, verdict: Verdict, peer: Peer | None, lag_ns: int) -> None:
        """A line that no call made."""
        number = self._bus.number()
        found, _ = self._consulting.line(number, line, verdict, peer, None, lag_ns, None)
        record = self._with_since(Record(number, line, verdict, peer, None, lag_ns=lag_ns))
        if found is not None:
            cause, because, evidence = found
            record = replace(record, cause=cause, because=because, evidence=evidence)
        self._bus.tell(record)

    def _with_since(self, record: Record) -> Record:
        pauses, besides, memory, paused_at = self._since()
        return replace(
            record, pauses=pauses, besides=besides, memory=memory, turn=self._turn, paused_at=paused_at
        )

    def _since(self) -> tuple[tuple[Window, ...], tuple[FactBeside, ...], tuple[Memory, ...], tuple[int, ...]]:
        """Our own pauses, the facts without a line, and what was heard of memory, since the last line: whoever judges
        the lines again needs them."""
        pauses, besides, memory = self._pauses, self._besides, self._memory
        if not pauses and not besides and not memory:  # nearly always
            return (), (), (), ()
        known = tuple(pause for pause, _ in pauses)
        told = known, tuple(besides), tuple(memory), tuple(turn for _, turn in pauses)
        pauses.clear()
        besides.clear()
        memory.clear()
        return told
