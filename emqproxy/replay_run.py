"""One unbroken stretch of a journal, judged again: by the same ledger, the same doctor, in the order in which it was.

Lines stand in a journal in the order in which they were told, and a verdict may have waited for others; facts are
weighed in the order of their answers. So lines are held back, so many, and what happened is played in the order of its
instants: a request goes out at `opened_ns`, its answer comes at `closed_ns`. What the ledger says then goes to the
doctor in the order in which it was told.

A journal that counts its turns says in which order the ledger was asked and told, and what something waited for; one
of an earlier release is played by its instants. There calls without a line, while they were out, are not known.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import msgspec

from emqproxy.journal_lines import JournalLine
from emqproxy.locks.causes import Diagnosis
from emqproxy.locks.diagnosis import Doctor
from emqproxy.locks.events import (
    AnyFact,
    Instant,
    Lapsed,
    Lock,
    LockFact,
    Nothing,
    Place,
    Queue,
    Release,
    Remove,
    Renew,
    Sweep,
    Take,
    Window,
)
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Finding, Suspect, Verdict
from emqproxy.observer.journal_replay import Beside, JudgedBy, Replay
from emqproxy.replay_facts import OF_NO_JOB, LineCall, call_of, call_of_beside, fact_of, note_of
from emqproxy.replay_known import KnownSince
from emqproxy.replay_watches import WatchesAgain

HELD_MAX: Final = 20_000
"""Lines that are held back to be put in order: one that was told later than so many others is out of order."""
UNANSWERED_MAX: Final = 2 * HELD_MAX
"""Lines that wait for a verdict; the oldest is given up."""
USUAL: Final = JudgedBy(0.60, 0.80, sole_path=False, locks=50_000, began_ns=0)
_SENT, _ANSWERED, _LATE = 0, 1, 2
"""In this order at one instant; late is what was closed before it and heard behind it."""
_LAST: Final = 2**62
_Key: TypeAlias = tuple[int, int, int, int, int, int]
"""When (an instant or, where these are counted, a turn), what kind of event, its place, the how manieth."""
_SURMISING: Final = (Take, Sweep, Renew, Release, Remove)


class Again(NamedTuple):
    """A line and what is said of it today."""

    line: JournalLine
    verdict: Verdict | None
    """None: nothing was to be judged, or nothing could be."""
    found: Diagnosis | None
    comparable: bool
    """Everything that bears on it is in the journal."""


class _When(NamedTuple):
    """When a call was asked and its fact told: turns, or instants where these are not counted."""

    asked: int
    heard: int
    kind: int = _ANSWERED

    @classmethod
    def of(cls, rest: Replay | Beside, call: LineCall) -> _When:
        window = call.fact.window
        if rest.turn:
            return cls(rest.asked or rest.turn, rest.turn)
        return cls(window.opened, rest.heard_ns or window.closed, _LATE if rest.heard_ns else _ANSWERED)


class RunPart:
    """Lines of one run without a gap. `take` each, then `end`; both give what can be told by then, in order."""

    def __init__(self, judged: JudgedBy | None, *, whole: bool) -> None:
        """`whole`: it begins where its run began; otherwise nothing is known of any lease."""
        self.judged, self.whole = judged, whole
        self.disordered = 0
        """Lines that came too late to be put in their place."""
        self.unanswered = 0
        """Lines whose verdict never came."""
        self.lapses_untold: list[Lapsed] = []
        """Lapses that the journal does not tell."""
        self.watches = WatchesAgain()
        self._ledger: LockLedger | None = None
        self._doctor: Doctor | None = None
        self._events: list[tuple[_Key, Callable[[], None]]] = []
        self._now: Instant = 0
        self._index = self._count = 0
        self._began: Instant = 0
        self._waiting: OrderedDict[int, tuple[JournalLine, Verdict | None, bool]] = OrderedDict()
        """By `seq`: a line, its verdict, and whether it is known."""
        self._of_fact: dict[tuple[Place, Lock | None], int] = {}
        self._lapses: dict[tuple[Lock, bytes, Instant], int] = {}
        self._shared: Counter[Place] = Counter()
        """Facts still to be heard of calls whose intent has a place of its own."""
        self._surmised: set[Queue] = set()
        self._since = None if whole else KnownSince()

    # ---------------------------------------------------------------- lines

    def take(self, line: JournalLine) -> list[Again]:
        """The next line of the journal."""
        rest = line.replay
        if self.judged is None:
            self.judged = rest.judged
        elif rest.judged is not None and rest.judged != self.judged:
            at = rest.asked or rest.turn or line.opened_ns
            self._at(at, _SENT, Place(0, 0), lambda: self._use(rest.judged or USUAL))
        self._began = self._began or line.opened_ns
        self._index += 1
        self._waiting[line.seq] = (line, None, False)
        known = rest.paused_at or [pause.closed for pause in rest.pauses]
        for at, pause in zip(known, rest.pauses, strict=False):
            self._at(at, _LATE if rest.turn else _SENT, Place(0, 0), partial(self._paused, pause))
        for beside in rest.besides:
            if self._since is not None and beside.job is not None:
                self._since.beside(f"{beside.db}:{beside.prefix}:{beside.queue}:{beside.job}")
            if (call := call_of_beside(beside)) is not None:
                self._play(call, None, _When.of(beside, call), surmised=False)
        self._line(line)
        while len(self._events) > 2 * HELD_MAX:
            self._next()
        return self._told()

    def end(self) -> list[Again]:
        """All that is left."""
        while self._events:
            self._next()
        for seq, (line, verdict, _) in self._waiting.items():
            self.unanswered += 1
            self._waiting[seq] = (line, verdict, True)
        return self._told()

    def _line(self, line: JournalLine) -> None:
        seq = line.seq
        if line.effect == "lapsed":
            fact = fact_of(line)
            if isinstance(fact, Lapsed):
                self._lapses[fact.lock, fact.token, line.closed_ns] = seq
                kind = _LATE if line.replay.turn else _ANSWERED
                self._at(line.replay.turn or line.closed_ns, kind, Place(0, 0), lambda: self._lapse(line.closed_ns))
                return
        call = call_of(line, self._index)
        if call is None or (line.op in {"conn", "watch"} and line.target != "closed"):
            self._at(line.replay.turn or line.closed_ns, _ANSWERED, Place(0, 0), lambda: self._answer(seq, None))
            return
        self._of_fact[_name(call.fact)] = seq
        self._play(call, seq, _When.of(line.replay, call), surmised=line.match == "shape")

    # ---------------------------------------------------------------- what happened, in its order

    def _play(self, call: LineCall, seq: int | None, when: _When, *, surmised: bool) -> None:
        fact, intent, (asked, heard, kind) = call.fact, call.intent, when
        if intent is not None:
            if call.queued:
                queued = call._replace(sent=call.queued)
                self._at(asked, _SENT, intent.place, lambda: self._ask(queued, surmised=surmised))
                asked = heard
            self._at(asked, _SENT, intent.place, lambda: self._ask(call, surmised=surmised))
        self._at(heard, kind, fact.place, lambda: self._hear(fact, seq))
        if call.shared and intent is not None:
            end = Nothing(intent.place, fact.window, intent.queue)
            self._shared[end.place] += 1
            self._at(heard, kind, fact.place._replace(part=_LAST), lambda: self._end(end))

    def _end(self, end: Nothing) -> None:
        """All facts of a call were told, if this was the last of them."""
        self._shared[end.place] -= 1
        if not self._shared[end.place]:
            del self._shared[end.place]
            self._hear(end, None)

    def _at(self, instant: Instant, kind: int, place: Place, act: Callable[[], None]) -> None:
        if instant < self._now:
            self.disordered += 1
        self._count += 1
        where = (0, 0, 0) if kind == _LATE else place  # those that are late stand in the order in which they were heard
        key = (instant, kind, *where, self._count)
        heapq.heappush(self._events, (key, act))

    def _next(self) -> None:
        key, act = heapq.heappop(self._events)
        self._now = max(self._now, key[0])
        act()

    def _ask(self, call: LineCall, *, surmised: bool) -> None:
        intent = call.intent
        assert intent is not None
        if surmised and isinstance(intent, _SURMISING):
            self._surmised.add(intent.queue)
        self._the_ledger.asked(intent, call.sent)

    def _paused(self, pause: Window) -> None:
        self._the_ledger.paused(pause)

    def _hear(self, fact: AnyFact, seq: int | None) -> None:
        self._said(self._the_ledger.observe(fact))
        if seq is not None and not isinstance(fact, LockFact):  # its own verdict has nothing in it
            self._answer(seq, None)

    def _lapse(self, at: Instant) -> None:
        self._said(self._the_ledger.tick(at))

    def _said(self, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            fact = verdict.fact
            if isinstance(fact, Lapsed):
                seq = self._lapses.pop((fact.lock, fact.token, fact.window.closed), None)
                if seq is None:
                    self.lapses_untold.append(fact)
                    continue
            else:
                seq = self._of_fact.pop(_name(fact), None)
            if seq is not None:
                self._answer(seq, self._softened(verdict))

    def _softened(self, verdict: Verdict) -> Verdict:
        """On a queue with scripts that are known by their shape only, nobody is suspected."""
        fact, finding = verdict.fact, verdict.finding
        if not isinstance(fact, LockFact) or fact.queue not in self._surmised:
            return verdict
        if finding is None or finding.suspects is Suspect.NOBODY:
            return verdict
        return msgspec.structs.replace(verdict, finding=Finding.DOUBTFUL, scope=None)

    # ---------------------------------------------------------------- what is said, in the order in which it was told

    def _answer(self, seq: int, verdict: Verdict | None) -> None:
        if seq in self._waiting:
            self._waiting[seq] = (self._waiting[seq][0], verdict, True)

    def _told(self) -> list[Again]:
        told: list[Again] = []
        while self._waiting:
            seq, (line, verdict, answered) = next(iter(self._waiting.items()))
            if not answered:
                if len(self._waiting) <= UNANSWERED_MAX:
                    break
                self.unanswered += 1
            del self._waiting[seq]
            told.append(self._again(line, verdict))
        return told

    def _again(self, line: JournalLine, verdict: Verdict | None) -> Again:
        note = note_of(line, verdict)
        for memory in line.replay.memory:
            self._the_doctor.evictions.heard(memory)
        found = self._the_doctor.observe(note)
        watched = self.watches.line(line, note)
        if line.op == "watch":
            return Again(line, verdict, watched, self.whole)
        known = self._since is None or self._since.line(line, found.cause if found is not None else None)
        named = line.job is not None or line.effect in OF_NO_JOB  # else of a lock whose key is no job's, and untold
        return Again(line, verdict, found, known and named)

    # ---------------------------------------------------------------- who says it

    @property
    def _the_ledger(self) -> LockLedger:
        """Made when the first thing happens: by then the lines that say by what was judged have been seen."""
        if self._ledger is None:
            by = self.judged or USUAL
            self._ledger = LockLedger(late=by.late, critical=by.critical, locks_max=by.locks, sole_path=by.sole_path)
        return self._ledger

    @property
    def _the_doctor(self) -> Doctor:
        if self._doctor is None:
            by = self.judged or USUAL
            self._doctor = Doctor(by.began_ns or self._began, by.locks)
        return self._doctor

    def _use(self, judged: JudgedBy) -> None:
        """The configuration was read again."""
        self.judged = judged
        self._the_ledger.grading.late, self._the_ledger.grading.critical = judged.late, judged.critical


def _name(fact: AnyFact) -> tuple[Place, Lock | None]:
    return fact.place, fact.lock if isinstance(fact, LockFact) else None
