"""From commands and exchanges to records: the one place where session, scripts, ledger and bus meet.

One Witness serves all connections; it owns no socket. Each of its methods may be called from a relay's callback; none
lets a fault through to the bytes: the relay makes that connection blind instead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from emqproxy.locks.events import AnyFact, Blinded, Instant, Met, PerhapsGranted, Place, Sighted, Window
from emqproxy.locks.flights import perhaps
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.policy import Action, Decision
from emqproxy.proxy import clock
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.consulting import Consulting
from emqproxy.proxy.judge import Judge, blocked, charged, refusal
from emqproxy.proxy.looks import Looks
from emqproxy.proxy.surmised import Surmised
from emqproxy.proxy.tallies import CallTimes, Times
from emqproxy.proxy.teller import Spoken, Teller
from emqproxy.proxy.unrecognised import Unrecognised
from emqproxy.proxy.watched import Asked, Watched
from emqproxy.records import CallSite
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.operation import Happening, Operation
from emqproxy.scripts.raw import SCRIPT_CALLS
from emqproxy.session.exchange import Command, ErrorReply, Exchange, Missing
from emqproxy.session.gated import GatedSession

TIMER_S_MAX: Final = 3600.0
WATCH_S: Final = 1.0
WATCH_LATE_NS: Final = 500_000_000
CALL_SITES_MAX: Final = 10_000
"""Above what the catalogue and all learned texts come to."""


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
        self.began = clock.now()
        self._consulting = Consulting(self.began, ledger.locks_max)
        self.teller = Teller(bus, lag, self._surmised, self._consulting)
        self.info = self.teller.memory
        self.judge = Judge(catalogue, ledger, self._surmised)
        self._call_sites: dict[tuple[bytes, str, str, str, int], tuple[CallSite, Times]] = {}
        """Made once for each script, way of calling it, and what it was known as: of one sha that may change."""
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._timer_at: Instant = 0
        self._watch_at: Instant = 0

    def watch(self, conn: int, client: str, pending_bytes_max: int) -> Watched:
        """A new connection, whose session leaves alone what the catalogue has no use for."""
        now, session = clock.now(), GatedSession(pending_bytes_max, self._catalogue.strangers)
        watched = self._consulting.speakers[conn] = Watched(conn, client, session, heard_at=now, made_at=now)
        return watched

    # ---------------------------------------------------------------- the ten steps, 3 to 5 and 9 to 10

    def asked(self, watched: Watched, commands: Iterable[Command]) -> None:
        """Commands of interest went by: those we know are in flight from now on."""
        for command in commands:
            self._ask(watched, command, gated=False)
        self._arm()

    def judged(self, watched: Watched, command: Command) -> bytes | None:
        """A command of interest waits: None, and it may go on, in flight from now; or what its client is answered."""
        answer = self._ask(watched, command, gated=True)
        self._arm()
        return answer

    def _ask(self, watched: Watched, command: Command, *, gated: bool) -> bytes | None:
        operation, decision, judge = self._catalogue.recognise(command), None, self.judge
        if judge.sits:
            operation, decision = judge.weigh(command, operation, watched.conn, command.opened)
            if decision.action is Action.BLOCKED:
                if gated:
                    return self._refused(watched, command, operation, decision)
                decision = Decision(Action.WOULD_BLOCK, decision.charge)  # it went on before the mode was another
        if operation is None:
            self._unknown(watched, command)
            return None
        if command.name in SCRIPT_CALLS and not operation.script.match:
            self._unrecognised.saw(command, self._catalogue, clock.now())
        if command.name == b"EVAL" and operation.script.match == "learned" and command.words[1] is not None:
            watched.texts[command.request] = command.words[1]
        watched.session.keep(command, words=command.request in watched.texts)
        sent = command.opened - self._lag.lag_ns(command.opened)
        place = Place(watched.conn, command.request)
        intents = operation.intents(place, command.db)
        if not watched.met:
            watched.met, at = True, Window(watched.made_at, watched.made_at)
            self.teller.connection("opened", Met(Place(watched.conn, 0), at), watched.peer)
        if self._watching is None:
            self._watch_soon()
        watched.calls.append(command.opened)
        idle_ms = self._consulting.idle_ms(watched, intents, command.opened)
        watched.asked[command.request] = Asked(operation, place, intents, sent, decision, idle_ms, self.teller.turn())
        if decision is not None:
            judge.passed(intents, decision)
        if operation.script.match == "shape":
            self._surmised.note(intents)
            self._unrecognised.guessed(operation.script, clock.now())
        for intent in intents:
            self._ledger.asked(intent, sent)
        return None

    def _refused(self, watched: Watched, command: Command, operation: Operation | None, decision: Decision) -> bytes:
        """A call is not sent on: it is told, and it proves nothing. What its client is answered."""
        now, charge = command.opened, decision.charge
        assert charge is not None
        assert operation is not None  # what is charged can be told
        call, _ = self._call_site(command, operation)
        for fact, line in blocked(command, operation, charge, watched.conn, now):
            verdicts = self._ledger.observe(fact)
            if line is not None:
                told = Spoken(line, watched.peer, call, decision)
                self.teller.tell_of(told, verdicts, fact, now)
        return refusal(operation, charge)

    def answered(self, watched: Watched, exchanges: Iterable[Exchange]) -> None:
        """Answers came (or it is certain that none comes): what they prove, judged and told."""
        ledger, judge, teller = self._ledger, self.judge, self.teller
        sits = judge.sits
        for exchange in exchanges:
            command, reply = exchange.command, exchange.reply
            known = watched.asked.get(command.request)
            if watched.texts:
                self._learn(watched, exchange)
            if known is None:
                continue
            if exchange.in_exec and exchange.opened > command.opened:
                known = self._run(watched, known, exchange.opened)
            operation, decision = known.operation, known.decision
            happenings: Iterable[Happening] = operation.happenings(exchange, known.place)
            if decision is not None and decision.charge is not None:
                happenings = charged(operation, exchange, watched.conn)
            del watched.asked[command.request]
            call, took = self._call_site(command, operation)
            if type(reply) is ErrorReply:
                took = self.call_times.of(call, reply.prefix)
                self.noscripts += reply.prefix == "NOSCRIPT" and not exchange.in_exec
            if not isinstance(reply, Missing):
                took.add(exchange.closed - exchange.opened)
            for fact, line in happenings:
                waited = line is None and fact.place in ledger.waiting
                verdicts = ledger.observe(fact)
                if sits:
                    judge.observed(fact)
                if line is None:
                    teller.beside(fact, known, waited=waited)
                    teller.tell(verdicts, exchange.closed)
                else:
                    told = Spoken(line, watched.peer, call, decision, known)
                    teller.tell_of(told, verdicts, fact, exchange.closed)
        self._arm()

    def _run(self, watched: Watched, queued: Asked, executed: Instant) -> Asked:
        """A call inside MULTI ran when EXEC was sent, and it is late, or not, by that."""
        for intent in queued.intents:
            self._ledger.asked(intent, executed)
        idle_ms = self._consulting.idle_ms(watched, queued.intents, executed)
        return queued._replace(sent=executed, idle_ms=idle_ms, queued=queued.sent)

    def blinded(self, watched: Watched, reason: str, now: Instant) -> None:
        """Nothing more can be paired on a connection; bytes go on."""
        fact = Blinded(Place(watched.conn, 0), Window(now, now))
        if self.judge.sits:
            self.judge.observed(fact)
        for verdict in self._ledger.observe(fact):
            if verdict.fact is fact:
                self.teller.blind(watched.peer, verdict, reason)
            else:
                self.teller.tell([verdict], now)

    def closed(self, watched: Watched, now: Instant) -> None:
        """A connection is gone; its unanswered exchanges have been given to `answered` before."""
        self.forsake(watched, now)
        self._consulting.speakers.pop(watched.conn, None)
        if watched.met:
            self.teller.connection("closed", Sighted(Place(watched.conn, 0), Window(now, now)), watched.peer)
        self._hear(Sighted(Place(watched.conn, 0), Window(now, now)), now)
        self._arm()

    def forsake(self, watched: Watched, now: Instant) -> None:
        """What is still out on a connection will never be told: a fault of ours, or its end."""
        for asked in watched.asked.values():
            for intent in asked.intents:
                self._hear(perhaps(intent, Window(asked.sent, now)), now, asked)
        watched.asked.clear()
        watched.texts.clear()

    # ---------------------------------------------------------------- time

    def tick(self) -> None:
        """The timer fired: lapses whose bound has passed, as far as what was read before has been looked at."""
        self._timer = None
        now, oldest = clock.now(), self.looks.oldest
        if oldest is not None:
            now = min(now, oldest)
        self.teller.tell(self._ledger.tick(now), now)
        self._arm()

    def estranged(self) -> None:
        """Redis has ended all connections, or another answers: it may have lost what it had. No lock is sure to live
        from here on, until it is proved."""
        self.looks.later(self._doubt, b"", clock.now())

    def _doubt(self, _: bytes, now: Instant) -> None:
        with contextlib.suppress(Exception):  # law 9, for want of a connection that could be made blind
            self.teller.connection("closed", Met(Place(0, 0), Window(now, now)), None)
            for queue in {attempt.queue for attempt in self._ledger.open_attempts()}:
                fact = PerhapsGranted(Place(0, 0), Window(now, now), queue, b"", None, anything=True)
                self._hear(fact, now)
            self._arm()

    def _watch(self) -> None:
        """Each second, as long as there is anything to watch; if we stood still, what came meanwhile is read first."""
        self._watching, now, oldest = None, clock.now(), self.looks.oldest
        if now - self._watch_at < WATCH_LATE_NS:
            self.teller.watch(now if oldest is None else min(now, oldest))
        if not self._consulting.watches.idle:
            self._watch_soon()

    def _watch_soon(self) -> None:
        self._watch_at = clock.now() + int(WATCH_S * 1e9)
        self._watching = asyncio.get_running_loop().call_later(WATCH_S, self._watch)

    def stop(self) -> None:
        """No more lapses are told."""
        if self._watching is not None:
            self._watching.cancel()
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

    def _hear(self, fact: AnyFact, now: Instant, known: Asked | None = None) -> None:
        """A fact that no call's answer proves."""
        waited = fact.place in self._ledger.waiting
        verdicts = self._ledger.observe(fact)
        self.teller.beside(fact, known, waited=waited)
        if self.judge.sits:
            self.judge.observed(fact)
        self.teller.tell(verdicts, now)

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
