"""From commands and exchanges to records: the one place where session, scripts, ledger and bus meet.

One Witness serves all connections; it owns no socket. Each of its methods may be called from a relay's callback; none
lets a fault through to the bytes: the relay makes that connection blind instead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

import msgspec

from emqproxy.locks.events import (
    AnyIntent,
    Blinded,
    Instant,
    Lapsed,
    Lock,
    LockFact,
    PerhapsGranted,
    Place,
    Sighted,
    Window,
)
from emqproxy.locks.flights import perhaps
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Verdict
from emqproxy.proxy import clock
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.looks import Looks
from emqproxy.proxy.surmised import Surmised
from emqproxy.proxy.tallies import CallTimes, Times
from emqproxy.proxy.unrecognised import Unrecognised
from emqproxy.records import AttemptOver, CallSite, Line, Peer, Record
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.operation import Operation
from emqproxy.scripts.raw import SCRIPT_CALLS
from emqproxy.session.exchange import Command, ErrorReply, Exchange, Missing
from emqproxy.session.session import Session

TIMER_S_MAX: Final = 3600.0
CALL_SITES_MAX: Final = 10_000
"""Above what the catalogue and all learned texts come to."""


class Watched(msgspec.Struct, eq=False):
    """A connection, and what is out on it."""

    conn: int
    client: str
    session: Session
    asked: dict[int, tuple[Operation, tuple[AnyIntent, ...], Instant]] = msgspec.field(default_factory=dict)
    """By request number: what was recognised and is not answered yet, and when it was sent."""
    texts: dict[int, bytes] = msgspec.field(default_factory=dict)
    """By request number: texts of SCRIPT LOAD, and of EVAL if it was new to us, whose answer is out."""

    known_as: Peer | None = None

    @property
    def peer(self) -> Peer:
        """Who it is, for a record."""
        name = self.session.client_name
        if self.known_as is None or self.known_as.client_name != name:
            self.known_as = Peer(self.conn, self.client, name)
        return self.known_as


class _Told(msgspec.Struct, frozen=True):
    """What a line needs beside its verdict, kept from the fact to the verdict on it."""

    line: Line
    peer: Peer
    call: CallSite


class Witness:
    """`asked` before an answer can come, `answered` after the client was served, `closed` at the end."""

    def __init__(
        self, catalogue: Catalogue, ledger: LockLedger, bus: Bus, lag: clock.LoopLag, unrecognised: Unrecognised
    ) -> None:
        self.noscripts = 0
        self.call_times = CallTimes()
        self.looks = Looks()
        """What has been read and is still to be looked at."""
        self._catalogue, self._ledger, self._bus = catalogue, ledger, bus
        self._lag, self._unrecognised = lag, unrecognised
        self._surmised = Surmised()
        self._told: dict[tuple[Place, Lock | None], _Told] = {}
        """Lines whose verdict has not come: with every verdict given at once, none outlives `answered`."""
        self._call_sites: dict[tuple[bytes, str, str, str, int], tuple[CallSite, Times]] = {}
        """Made once for each script, way of calling it, and what it was known as: of one sha that may change."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: Instant = 0

    def watch(self, conn: int, client: str, pending_bytes_max: int) -> Watched:
        """A new connection, whose session leaves alone what the catalogue has no use for."""
        return Watched(conn, client, Session(pending_bytes_max, self._catalogue.strangers))

    # ---------------------------------------------------------------- the ten steps, 3 to 5 and 9 to 10

    def asked(self, watched: Watched, commands: Iterable[Command]) -> None:
        """Commands of interest went by: those we know are in flight from now on."""
        for command in commands:
            operation = self._catalogue.recognise(command)
            if operation is None:
                self._unknown(watched, command)
                continue
            if command.name in SCRIPT_CALLS and not operation.script.match:
                self._unrecognised.saw(command, self._catalogue, clock.now())
            if command.name == b"EVAL" and operation.script.match == "learned" and command.words[1] is not None:
                watched.texts[command.request] = command.words[1]
            watched.session.keep(command, words=command.request in watched.texts)
            sent = command.opened - self._lag.lag_ns(command.opened)
            intents = operation.intents(Place(watched.conn, command.request), command.db)
            watched.asked[command.request] = (operation, intents, sent)
            if operation.script.match == "shape":
                self._surmised.note(intents)
                self._unrecognised.guessed(operation.script, clock.now())
            for intent in intents:
                self._ledger.asked(intent, sent)
        self._arm()

    def answered(self, watched: Watched, exchanges: Iterable[Exchange]) -> None:
        """Answers came (or it is certain that none comes): what they prove, judged and told."""
        ledger = self._ledger
        for exchange in exchanges:
            command = exchange.command
            known = watched.asked.get(command.request)
            if watched.texts:
                self._learn(watched, exchange)
            if known is None:
                continue
            operation = known[0]
            happenings = operation.happenings(exchange, Place(watched.conn, command.request))
            del watched.asked[command.request]
            reply = exchange.reply
            call, took = self._call_site(command, operation)
            if type(reply) is ErrorReply:
                took = self.call_times.of(call, reply.prefix)
                self.noscripts += reply.prefix == "NOSCRIPT" and not exchange.in_exec
            if not isinstance(reply, Missing):
                took.add(exchange.closed - exchange.opened)
            for happening in happenings:
                fact, line = happening.fact, happening.line
                verdicts = ledger.observe(fact)
                if line is None:
                    self._tell(verdicts, exchange.closed)
                elif len(verdicts) == 1 and (verdict := verdicts[0]).fact is fact:  # nearly always
                    verdict, lag_ns = self._surmised.soften(verdict), self._lag.lag_ns(exchange.closed)
                    self._bus.tell(Record(self._bus.number(), line, verdict, watched.peer, call, lag_ns=lag_ns))
                else:
                    lock = fact.lock if isinstance(fact, LockFact) else None
                    self._told[fact.place, lock] = _Told(line, watched.peer, call)
                    self._tell(verdicts, exchange.closed)
        self._arm()

    def blinded(self, watched: Watched, reason: str, now: Instant) -> None:
        """Nothing more can be paired on a connection; bytes go on."""
        fact = Blinded(Place(watched.conn, 0), Window(now, now))
        for verdict in self._ledger.observe(fact):
            if verdict.fact is fact:
                record = Record(self._bus.number(), Line("blind", "told"), verdict, watched.peer, None, reason=reason)
                self._bus.tell(record)
            else:
                self._tell([verdict], now)

    def closed(self, watched: Watched, now: Instant) -> None:
        """A connection is gone; its unanswered exchanges have been given to `answered` before."""
        self.forsake(watched, now)
        self._tell(self._ledger.observe(Sighted(Place(watched.conn, 0), Window(now, now))), now)
        self._arm()

    def forsake(self, watched: Watched, now: Instant) -> None:
        """What is still out on a connection will never be told: a fault of ours, or its end."""
        for _, intents, sent in watched.asked.values():
            for intent in intents:
                self._tell(self._ledger.observe(perhaps(intent, Window(sent, now))), now)
        watched.asked.clear()
        watched.texts.clear()

    # ---------------------------------------------------------------- time

    def tick(self) -> None:
        """The timer fired: lapses whose bound has passed, as far as what was read before has been looked at."""
        self._timer = None
        now, oldest = clock.now(), self.looks.oldest
        if oldest is not None:
            now = min(now, oldest)
        self._tell(self._ledger.tick(now), now)
        self._arm()

    def estranged(self) -> None:
        """Redis has ended all connections, or another answers: it may have lost what it had. No lock is sure to live
        from here on, until it is proved."""
        self.looks.later(self._doubt, b"", clock.now())

    def _doubt(self, _: bytes, now: Instant) -> None:
        with contextlib.suppress(Exception):  # law 9, for want of a connection that could be made blind
            for queue in {attempt.queue for attempt in self._ledger.open_attempts()}:
                fact = PerhapsGranted(Place(0, 0), Window(now, now), queue, b"", None, anything=True)
                self._tell(self._ledger.observe(fact), now)
            self._arm()

    def stop(self) -> None:
        """No more lapses are told."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        """One timer, never later than the ledger's next deadline; an early one finds nothing and arms again."""
        deadline = self._ledger.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        wait_s = min(max(0.0, (deadline - clock.now()) / 1e9), TIMER_S_MAX)
        self._timer_at = deadline
        # The loop's timers have a resolution of a millisecond and may fire early by a part of it.
        self._timer = asyncio.get_running_loop().call_later(wait_s + 0.001, self.tick)

    # ---------------------------------------------------------------- telling

    def _tell(self, verdicts: Iterable[Verdict], now: Instant) -> None:
        lag_ns = self._lag.lag_ns(now)
        for verdict in map(self._surmised.soften, verdicts):
            fact = verdict.fact
            told = None
            if isinstance(fact, Lapsed):
                self._bus.tell(Record(self._bus.number(), Line("lapse", "told"), verdict, None, None, lag_ns=lag_ns))
                continue
            if self._told:
                told = self._told.pop((fact.place, fact.lock if isinstance(fact, LockFact) else None), None)
            if told is not None:
                record = Record(self._bus.number(), told.line, verdict, told.peer, told.call, lag_ns=lag_ns)
                self._bus.tell(record)
            else:
                for attempt in verdict.over:
                    self._bus.tell(AttemptOver(attempt))

    def _call_site(self, command: Command, operation: Operation) -> tuple[CallSite, Times]:
        script = operation.script
        key = (command.name, script.sha, script.match, script.name, script.arity)
        found = self._call_sites.get(key)
        if found is None:
            if len(self._call_sites) >= CALL_SITES_MAX:
                self._call_sites.clear()
            call = CallSite(command.name.decode(), script.label, script.sha, script.match, script.releases)
            found = self._call_sites[key] = call, self.call_times.of(call)
        return found

    # ---------------------------------------------------------------- texts and the unknown

    def _unknown(self, watched: Watched, command: Command) -> None:
        text = command.words[2] if command.name == b"SCRIPT" and len(command.words) == 3 else None
        if text is not None:
            watched.session.keep(command, words=True)
            watched.texts[command.request] = text
            return
        self._unrecognised.saw(command, self._catalogue, clock.now())
        watched.session.forget(command)

    def _learn(self, watched: Watched, exchange: Exchange) -> None:
        """A text compiled: SCRIPT LOAD was answered with its sha, or an EVAL of it with anything but an error of it."""
        text = watched.texts.pop(exchange.command.request, None)
        if text is not None and not isinstance(exchange.reply, (ErrorReply, Missing)):
            self._catalogue.script_loaded(text)
