"""A job's lock over time, read from a journal: lines (CONTRACT, "Journal") in, values of `lock_timeline` out.

A line tells what was seen, and no more of it is drawn: an attempt whose pickup was not seen begins with its first
renewal, a speaker that never held the lock has a row without a holding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from emqproxy.lock_timeline import Holding, LockTimeline, Mark, Marked, Proof, Stretch
from emqproxy.locks.case import MOVES
from emqproxy.locks.hands import Deed, done
from emqproxy.locks.notes import seconds

_GRADES: Final = {"late": Mark.LATE, "critical": Mark.CRITICAL}
_REFUSED: Final = frozenset({"refused", "blocked"})
_EMPTIES: Final = frozenset({"wiped", "deleted"})
_HOLDS_NONE: Final = frozenset({"absent", "held_by_other", "not_mine", "released"})
_HANDS: Final = {
    Deed.PUT: Mark.HAND_PUTS,
    Deed.MOVED: Mark.HAND_PUTS,
    Deed.TAKEN: Mark.HAND_TAKES,
    Deed.LIST: Mark.HAND_TAKES,
    Deed.HASH: Mark.HAND_DELETES,
}
_MS: Final = timedelta(milliseconds=1)


class _Line(msgspec.Struct):
    """What is read of a line."""

    time: datetime
    op: str
    outcome: str
    effect: str = ""
    target: str | None = None
    code: int | None = None
    db: int | None = None
    prefix: str | None = None
    queue: str | None = None
    job: str | None = None
    token: str | None = None
    worker: str | None = None
    script: str | None = None
    conn: int | None = None
    client: str | None = None
    client_name: str | None = None
    ttl_ms: int | None = None
    grade: str | None = None
    took_us: int | None = None


class _Row:
    """A holding as it is gathered."""

    def __init__(self, name: str, *, partial: bool) -> None:
        self.name, self.partial = name, partial
        self.proofs: list[Proof] = []
        self.marks: list[Marked] = []
        self.sure_until_ms = 0.0
        """Before, nothing but somebody else's hand can have ended its lock."""
        self._doubted_ms: float | None = None
        """Since when a hand was on its lock, and it is not known whether it has it."""
        self._doubts: list[Stretch] = []

    def proved(self, at_ms: float, line: _Line, mark: Mark = Mark.RENEWED) -> None:
        """It holds the lock: since somewhere in its call, and for its time to live, give or take Redis's slack."""
        ttl_ms = line.ttl_ms or 0
        if self._doubted_ms is not None:
            self._doubts.append(Stretch(self._doubted_ms, at_ms))
            self._doubted_ms = None
        self.proofs.append(Proof(at_ms, at_ms + ttl_ms, mark))
        self.sure_until_ms = at_ms + ttl_ms - (line.took_us or 0) / 1000 - 1 - ttl_ms / 1000

    def doubted(self, at_ms: float) -> None:
        """A hand was on its lock."""
        if self._doubted_ms is None and at_ms < self.sure_until_ms:
            self._doubted_ms = at_ms

    def refused(self, at_ms: float, *, held: bool) -> None:
        """Its own call says that it holds the lock no more. `held`: it did until that call."""
        if self.proofs and at_ms < self.sure_until_ms:
            since_ms = self.proofs[-1].at_ms if self._doubted_ms is None else self._doubted_ms
            self._doubts.append(Stretch(at_ms if held else since_ms, at_ms))
            self._doubted_ms, self.sure_until_ms = None, at_ms

    def lost(self, at_ms: float) -> None:
        """It is proved not to hold the lock any more, by no word of its own."""
        if at_ms < self.sure_until_ms:
            self.marks.append(Marked(at_ms, Mark.LOST))
        elif self.proofs and not any(mark is Mark.LAPSED and at > self.proofs[-1].at_ms for at, mark in self.marks):
            self.marks.append(Marked(min(at_ms, self.proofs[-1].deadline_ms), Mark.LAPSED))

    def value(self) -> Holding:
        """As it is drawn."""
        doubts = list(self._doubts)
        if self._doubted_ms is not None:
            doubts.append(Stretch(self._doubted_ms, self.proofs[-1].deadline_ms))
        return Holding(self.name, tuple(self.proofs), tuple(self.marks), (), self.partial, tuple(doubts))


def holds_none(outcome: str, effect: str, code: int | None) -> bool:
    """Whether an answer says that the speaker's token holds no lock of the job's: -2, -6, a refused renewal; -1, the
    job is gone; -3, the lock went with the call."""
    return outcome == "refused" and (effect in _HOLDS_NONE or code in {-1, -3})


def befalls(op: str, db: int | None, prefix: str | None, queue: str | None, *, key: str, key_db: int) -> bool:
    """Whether a line that names no job bears on one: a wipe that reached it, a hand on a whole list of its queue.
    `db` None: of every database; `queue` None: of every queue."""
    if op not in {"wipe", "raw"} or db not in {None, key_db}:
        return False
    return queue is None or key.startswith(f"{prefix}:{queue}:")


def name_of(line: Mapping[str, Any]) -> str:
    """Who speaks in a line: its client's name, else what is told of the worker or its token, else its address."""
    worker = line.get("worker") or line.get("token")
    return str(line.get("client_name") or (worker and f"worker {str(worker)[:8]}") or line.get("client") or "somebody")


def lock_timeline(
    lines: Iterable[Mapping[str, Any]],
    job: str,
    db: int = 0,
    *,
    zero: datetime | None = None,
    name: Callable[[Mapping[str, Any]], str] = name_of,
) -> LockTimeline:
    """The timeline of one job, `emq:orders:42`; lines of others are passed over, but for what befell its queue.

    `zero`: what milliseconds are counted from; the job's first line unless told otherwise, or its first pickup, where
    it waited for that longer than all the rest took. `name`: who speaks in a line. Raises msgspec.ValidationError for
    a line of the job that is none of a journal.
    """
    heard: list[tuple[_Line, str | None]] = []
    for line in lines:
        prefix, queue, op = line.get("prefix"), line.get("queue"), str(line.get("op"))
        if line.get("job") is None:
            if befalls(op, line.get("db"), prefix, queue, key=job, key_db=db):
                heard.append((msgspec.convert(line, _Line), None))
        elif f"{prefix}:{queue}:{line['job']}" == job and line.get("db") == db:
            heard.append((msgspec.convert(line, _Line), name(line)))
    told = _told(heard, zero)
    waited_ms = 0.0 if zero is not None else told.waited_ms
    if not waited_ms:
        return told.timeline()
    first = next(line for line, who in heard if who is not None)
    before = f"{'added' if first.op == 'add' else 'first heard of'} {seconds(waited_ms)} before"
    return _told(heard, first.time + waited_ms * _MS).timeline()._replace(before=before)


def _told(heard: Iterable[tuple[_Line, str | None]], zero: datetime | None) -> _Told:
    """`heard`: lines, and who speaks; None of one that names no job."""
    told = _Told(zero)
    for line, who in heard:
        if who is None:
            told.beside(line)
        else:
            told.on(line, who)
    return told


class _Told:
    """The lines so far."""

    def __init__(self, zero: datetime | None) -> None:
        self._zero = zero
        self._rows: list[_Row] = []
        self._by_token: dict[str, _Row] = {}
        """The last row of each token."""
        self._by_name: dict[tuple[str, str], _Row] = {}
        """The last row of each token and who brought it: two may share one."""
        self._holder: _Row | None = None
        """Who holds the lock, as far as the lines tell."""
        self._queue: list[Marked] = []
        self._end_ms = 0.0

    def on(self, line: _Line, name: str) -> None:
        """The next line of the job."""
        if self._zero is None:
            self._zero = line.time
        at_ms = (line.time - self._zero) / _MS
        self._end_ms = max(self._end_ms, at_ms)
        if line.op == "raw" and line.target is not None:
            self._hand(line, at_ms)
        elif line.op == "reap":
            self._ended(at_ms)
            failed = line.target == "failed"
            self._queue.append(Marked(at_ms, Mark.OVER_LIMIT if failed else Mark.SWEEP_RECOVERS))
        elif line.outcome in _REFUSED:
            if line.op == "renew" or line.op in MOVES:
                mark = Mark.REFUSED if line.op == "renew" else Mark.FINISH_REFUSED
                row = self._speaker(line, name)
                row.marks.append(Marked(at_ms, mark))
                if row is self._holder and holds_none(line.outcome, line.effect, line.code):
                    row.refused(at_ms, held=line.effect == "released")
                    self._holder = None
        else:
            self._seen(line, name, at_ms)

    def beside(self, line: _Line) -> None:
        """A line that names no job, and befell the queue of this one: before its first it is nothing to it."""
        if self._zero is None or not self._rows:
            return
        at_ms = (line.time - self._zero) / _MS
        if self._holder is not None:
            self._end_ms = max(self._end_ms, at_ms)
        if line.op == "raw":
            self._hand(line, at_ms)
        elif line.effect in _EMPTIES:
            self._wiped(at_ms)

    @property
    def waited_ms(self) -> float:
        """For how long it was waiting first, if that is more than half of all its time: until it was taken, or the hand
        or sweep that came just before."""
        rows = [(*(proof.at_ms for proof in row.proofs), *(mark.at_ms for mark in row.marks)) for row in self._rows]
        first_ms = min((at_ms for row in rows for at_ms in row), default=0.0)
        if first_ms <= self._end_ms - first_ms:
            return 0.0
        return min((at for at, _ in self._queue if 2 * first_ms - self._end_ms <= at <= first_ms), default=first_ms)

    def timeline(self) -> LockTimeline:
        """All of it."""
        return LockTimeline(tuple(row.value() for row in self._rows), tuple(self._queue), 0, self._end_ms)

    def _seen(self, line: _Line, name: str, at_ms: float) -> None:
        match line.effect:
            case "granted":
                self._ended(at_ms)
                self._holder = self._begin(line, name, partial=False)
                self._holder.proved(at_ms, line)
            case "renewed":
                row = self._speaker(line, name)
                if row is not self._holder:
                    self._ended(at_ms)
                    self._holder = row
                row.proved(at_ms, line, _GRADES.get(line.grade or "", Mark.RENEWED))
            case "released":
                row = self._speaker(line, name)
                row.marks.append(Marked(at_ms, Mark.FINISHED))
                self._holder = None if row is self._holder else self._holder
            case "lapsed":
                row = self._speaker(line, name)
                # A lapse is told when it is certain; it happened when the lock's time was over.
                row.marks.append(Marked(row.proofs[-1].deadline_ms if row.proofs else at_ms, Mark.LAPSED))
            case "deleted" if line.op == "wipe":
                self._wiped(at_ms)
            case "deleted":
                self._ended(at_ms)
            case "overwritten" if self._holder is not None:
                self._holder.doubted(at_ms)
            case _:
                pass

    def _hand(self, line: _Line, at_ms: float) -> None:
        """On a list or on the job's hash: the lock stays."""
        if (deed := done(line)) is not None:
            self._queue.append(Marked(at_ms, _HANDS[deed]))

    def _wiped(self, at_ms: float) -> None:
        self._ended(at_ms)
        self._queue.append(Marked(at_ms, Mark.WIPED))

    def _ended(self, at_ms: float) -> None:
        """Whoever held it holds it no more."""
        if self._holder is not None:
            self._holder.lost(at_ms)
        self._holder = None

    def _speaker(self, line: _Line, name: str) -> _Row:
        token = _speaks_as(line)
        row = self._by_name.get((token, name))
        if row is None and (line.token is None or line.client_name is None):
            row = self._by_token.get(token)  # of a lapse no client is told
        return row or self._begin(line, name, partial=True)

    def _begin(self, line: _Line, name: str, *, partial: bool) -> _Row:
        row, token = _Row(name, partial=partial), _speaks_as(line)
        self._rows.append(row)
        self._by_token[token] = self._by_name[token, name] = row
        return row


def _speaks_as(line: _Line) -> str:
    """What tells speakers apart, beside their names: the token; their connection where no tokens are told."""
    return line.token or f"connection {line.conn}"
