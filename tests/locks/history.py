"""Histories as rows: a time in ms, who, what. The ledger is driven as the data plane drives it, with integers only."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from emqproxy.locks.events import (
    Absent,
    AnyFact,
    AnyIntent,
    Bypassed,
    Deleted,
    Granted,
    HeldByOther,
    Lapsed,
    Lock,
    LockFact,
    NoProof,
    Nothing,
    NotMine,
    Overwrite,
    Overwritten,
    Perhaps,
    PerhapsGranted,
    Place,
    Queue,
    Release,
    Released,
    Remove,
    Renew,
    Renewed,
    Sighted,
    Sweep,
    Take,
    Window,
    Wiped,
)
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Attempt, Verdict

MS = 1_000_000
QUEUE = Queue(0, b"emq:orders:")
JOB = Lock(0, b"emq:orders:42:lock")
TTL = 10_000
"""ms; its slack is 11 ms: certainly gone 10,011 ms after its proof was read."""
GONE = TTL + TTL // 1000 + 1


def job(number: int) -> Lock:
    return Lock(0, b"%s%d:lock" % (QUEUE.prefix, number))


def span(opened_ms: int, closed_ms: int | None = None) -> Window:
    return Window(opened_ms * MS, (opened_ms if closed_ms is None else closed_ms) * MS)


BY_NOBODY: dict[str, Callable[[Place, Window, Lock, Queue, bytes], AnyFact]] = {
    "deleted": Deleted,
    "overwritten": Overwritten,
    "removed": Absent,
    "locked": HeldByOther,
}
"""Words for what no token speaks."""


def fact_of(kind: str, place: Place, window: Window, token: bytes, lock: Lock = JOB, ttl_ms: int = TTL) -> AnyFact:
    """A fact by the word a row has for it."""
    about = (place, window, lock, QUEUE, token)
    match kind:
        case "grant":
            return Granted(*about, ttl_ms)
        case "renewed":
            return Renewed(*about, ttl_ms)
        case "refused":
            return NotMine(*about, renewal=True, ttl_ms=ttl_ms)
        case "released":
            return Released(*about)
        case "not_mine":
            return NotMine(*about)
        case "-2":
            return Absent(*about)
        case "swept":
            return Absent(place, window, lock, QUEUE, b"", swept=True)
        case "-6":
            return HeldByOther(*about)
        case "-1":
            return NoProof(*about)
        case "renewed?":
            return Perhaps(*about, ttl_ms)
        case "released?":
            return Perhaps(*about, None)
        case "bypassed":
            return Bypassed(*about)
        case _:
            return BY_NOBODY[kind](place, window, lock, QUEUE, b"")


KINDS = (
    *("grant", "renewed", "refused", "released", "not_mine", "-2", "swept", "-6", "-1"),
    *("renewed?", "released?", "bypassed", "deleted", "overwritten", "removed", "locked"),
)


def intent_of(kind: str, place: Place, token: bytes, lock: Lock = JOB, ttl_ms: int = TTL) -> AnyIntent:
    """What was asked, where a row's word is the answer."""
    if kind == "swept":
        return Sweep(place, QUEUE)
    if kind in {"grant", "grant?", "nothing"}:
        return Take(place, QUEUE, token, ttl_ms)
    if kind in {"renewed", "refused", "renewed?"}:
        return Renew(place, QUEUE, lock, token, ttl_ms)
    if kind in {"deleted", "overwritten"}:
        return Overwrite(place, QUEUE, lock, b"")
    if kind in {"removed", "locked"}:
        return Remove(place, QUEUE, lock, b"")
    return Release(place, QUEUE, lock, token)


class History:
    """A ledger, and everything it said."""

    def __init__(self, ledger: LockLedger | None = None, **options: Any) -> None:
        self.ledger = LockLedger(**options) if ledger is None else ledger
        self.said: list[Verdict] = []
        self._requests = itertools.count(1)
        self._out: dict[str, tuple[AnyIntent, bytes, int]] = {}

    def place(self, conn: int) -> Place:
        return Place(conn, next(self._requests))

    def keep(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        found = list(verdicts)
        self.said += found
        return found

    def ask(self, name: str, opened_ms: int, kind: str, token: bytes = b"A", conn: int = 1, **more: Any) -> None:
        """A request goes out under a name."""
        intent = intent_of(kind, self.place(conn), token, **more)
        self._out[name] = (intent, token, opened_ms)
        self.ledger.asked(intent, opened_ms * MS)

    def answer(self, name: str, closed_ms: int, kind: str, **more: Any) -> list[Verdict]:
        """Its answer comes, and says what it says."""
        intent, token, opened_ms = self._out.pop(name)
        return self._answered(kind, intent.place, span(opened_ms, closed_ms), token, **more)

    def _answered(self, kind: str, place: Place, window: Window, token: bytes, **more: Any) -> list[Verdict]:
        nothing = Nothing(place, window, QUEUE)
        if kind == "nothing":
            return self.keep(self.ledger.observe(nothing))
        if kind == "grant?":
            return self.keep(self.ledger.observe(PerhapsGranted(place, window, QUEUE, token, more.get("ttl_ms", TTL))))
        if kind == "swept":  # an id of its answer; then the answer's end
            said = self.ledger.observe(fact_of(kind, place._replace(part=1), window, b"", **more))
            return self.keep(said + self.ledger.observe(nothing))
        return self.keep(self.ledger.observe(fact_of(kind, place, window, token, **more)))

    def abandon(self, name: str, now_ms: int) -> list[Verdict]:
        return self.keep(self.ledger.abandoned(self._out.pop(name)[0], now_ms * MS))

    def do(self, at: int, kind: str, token: bytes = b"A", conn: int = 1, took: int = 0, **more: Any) -> list[Verdict]:
        """A request and its answer, `took` ms later."""
        place = self.place(conn)
        self.ledger.asked(intent_of(kind, place, token, **more), at * MS)
        return self._answered(kind, place, span(at, at + took), token, **more)

    def one(self, at: int, kind: str, token: bytes = b"A", **more: Any) -> Verdict:
        """The verdict on the fact itself, whatever time brought before and after it."""
        (verdict,) = [v for v in self.do(at, kind, token, **more) if not isinstance(v.fact, Lapsed) and v.finding]
        return verdict

    def tick(self, now_ms: int) -> list[Verdict]:
        return self.keep(self.ledger.tick(now_ms * MS))

    def close(self, conn: int, now_ms: int) -> list[Verdict]:
        return self.keep(self.ledger.observe(Sighted(Place(conn, 0), span(now_ms))))

    def wipe(self, now_ms: int, **scope: Any) -> Verdict:
        *_, verdict = self.keep(self.ledger.observe(Wiped(Place(9, 0), span(now_ms), **scope)))
        return verdict

    def over(self) -> list[Attempt]:
        return [attempt for verdict in self.said for attempt in verdict.over]

    def ends(self) -> list[str]:
        """Who ended how, in order."""
        return [f"{a.token.decode()}{a.number} {a.end.value}" for a in self.over() if a.end]

    def lapses(self) -> list[Verdict]:
        return [verdict for verdict in self.said if isinstance(verdict.fact, Lapsed)]

    def words(self) -> list[str]:
        return list(_words(self.said))


def _words(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """`A Renewed sound late`, one a verdict on a lock."""
    for v in verdicts:
        if isinstance(v.fact, LockFact) and v.finding is not None:
            grade = f" {v.grade.value}" if v.grade else ""
            yield f"{v.fact.token.decode() or '-'} {type(v.fact).__name__} {v.finding.word}{grade}"
