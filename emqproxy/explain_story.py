"""One job's lock story: its lines (CONTRACT, "Journal") in, values out; what `explain` draws and what `--json` gives.

Healthy renewals in a row are one event. Nothing is judged anew: causes are those that the lines tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from emqproxy.explain_advice import StoryFigures, advice
from emqproxy.journal_lines import JournalLine
from emqproxy.journal_timeline import holds_none
from emqproxy.locks.notes import seconds

_MOVES: Final = {
    "finish": "finishes it",
    "delay": "puts it off (delayed)",
    "retry": "puts it back to be retried",
    "wait": "puts it back to wait",
    "wait_children": "lets it wait for its children",
    "release": "gives its lock back",
}
_NOUNS: Final = {"wait_children": "wait for children", "renew": "renewal", "acquire": "pickup", "reap": "sweep"}
_FAILED: Final = frozenset({"refused", "error", "blocked", "unknown"})


class Event(msgspec.Struct):
    """What happened, in words."""

    time: str
    """RFC 3339; of renewals in a row that of the first."""
    op: str
    words: str
    seq: int
    outcome: str = "ok"
    who: str | None = None
    cause: str | None = None
    because: str | None = None
    evidence: tuple[int, ...] = ()


class Tenure(msgspec.Struct):
    """Somebody held the lock."""

    who: str
    taken: str
    seen: bool
    """The pickup was seen; else it begins with the first renewal that was."""
    renewals: int = 0
    longest_gap_ms: float = 0.0
    """From a proof that it held the lock to its next word, accepted or not."""
    ttl_ms: int | None = None
    end: str | None = None
    """`finish` or another op, `lapse`, `reap`, `taken`, `deleted`; `refused`: it was proved by
    then; None: it holds it still, as far as was seen."""
    ended: str | None = None


class Advice(msgspec.Struct):
    """What to change."""

    cause: str
    words: str


class JobStory(msgspec.Struct):
    """All of it; the fields of `--json`."""

    v: int
    job: str
    db: int
    first: str
    last: str
    lines: int
    left_out: int
    """Lines that were not kept."""
    holdings: list[Tenure]
    events: list[Event]
    advice: list[Advice]


class Names:
    """Who speaks, so that no two workers have one name."""

    def __init__(self) -> None:
        self._of: dict[tuple[str | None, ...], str] = {}
        self._used: dict[str, int] = {}

    def of(self, line: JournalLine) -> str:
        """The client's name, else what is told of the worker or its token, else its address."""
        worker = line.worker or line.replay.worker or line.token
        if worker is None and line.client_name:
            return line.client_name  # of which connection of its name it comes is no matter
        key = (worker,) if worker else (None, line.client)
        if key not in self._of:
            name = line.client_name or (f"worker {worker[:8]}" if worker else line.client) or "somebody"
            times = self._used[name] = self._used.get(name, 0) + 1
            self._of[key] = name if times == 1 else f"{name} ({times})"
        return self._of[key]


def tell(
    job: str,
    db: int,
    lines: Sequence[JournalLine],
    left_out: int = 0,
    names: Names | None = None,
    *,
    sweeps: bool = False,
) -> JobStory:
    """The story. `lines`: the job's own, and those of its queue or of Redis that bear on it, in their order. `sweeps`:
    a sweep for stalled jobs was seen on its queue meanwhile."""
    teller = _Teller(names or Names())
    for line in lines:
        teller.on(line)
    causes = _causes(lines, teller.gaps, sweeps)
    given = [Advice(cause, words) for cause, figures in causes.items() if (words := advice(cause, figures)) is not None]
    sweepers = {line.script for line in lines if line.op == "reap" and line.script}
    if len(sweepers) > 1:
        both = " and ".join(sorted(sweepers))
        words = f"Two releases sweep this queue ({both}): bring all its workers to one release."
        given.append(Advice("script_mismatch", words))
    first, last = (lines[0].time, lines[-1].time) if lines else ("", "")
    return JobStory(1, job, db, first, last, len(lines), left_out, teller.holdings, teller.events, given)


class _Teller:
    """The lines so far."""

    def __init__(self, names: Names) -> None:
        self.events: list[Event] = []
        self.holdings: list[Tenure] = []
        self.gaps: dict[int, float] = {}
        """By `seq`: how long after the speaker's last proof of holding it was sent, in ms."""
        self._names = names
        self._by_token: dict[str | None, tuple[Tenure, int]] = {}
        """By token: its last holding, and when it was proved last (instant)."""
        self._holder: Tenure | None = None
        self._row: tuple[Event, int] | None = None
        """Renewals in a row, and how many."""

    def on(self, line: JournalLine) -> None:
        """The next line."""
        who = self._names.of(line) if line.token or line.client else "Redis"
        event = Event(line.time, line.op, "", line.seq, line.outcome, who, line.cause, line.because)
        event.evidence = line.evidence or ()
        self._measure(line)
        if line.effect == "renewed" and line.cause is None and line.outcome == "ok":
            self._renewal(line, event, who)
            return
        words = self._words(line, who)
        if words is not None:
            self._row = None
            event.words = words
            self.events.append(event)

    def _measure(self, line: JournalLine) -> None:
        found = self._by_token.get(line.token)
        if found is not None and line.token is not None and line.effect != "lapsed":
            holding, proved = found
            gap_ms = max(0.0, (line.opened_ns - proved) / 1_000_000)
            if holding.end is None or line.outcome in _FAILED:
                holding.longest_gap_ms = round(max(holding.longest_gap_ms, gap_ms), 3)
            self.gaps[line.seq] = gap_ms
            if holds_none(line.outcome, line.effect, line.code) and holding.end is None and line.closed_ns >= proved:
                holding.end, holding.ended = "refused", line.time
                self._holder = None if self._holder is holding else self._holder

    def _renewal(self, line: JournalLine, event: Event, who: str) -> None:
        holding = self._proved(line, who)
        holding.renewals += 1
        if self._row is not None and self._row[0].who == who:
            row, count = self._row
            self._row = row, count + 1
            row.words = f"{who} renews, {count + 1} times in a row, up to {line.time[11:19]}"
            return
        event.words = f"{who} renews"
        self.events.append(event)
        self._row = event, 1

    def _words(self, line: JournalLine, who: str) -> str | None:
        if line.outcome in _FAILED:
            return _failed(line, who)
        target = f" ({line.target})" if line.target else ""
        match line.op:
            case "acquire" if line.effect == "granted":
                before = self._holder
                self._end(line, "taken")
                holding = Tenure(who, line.time, seen=True, ttl_ms=line.ttl_ms)
                self._begin(line, holding)
                verb = "is given it" if before is None else f"is given it, which {before.who} held"
                return f"{who} {verb}; the lock lives {seconds(line.ttl_ms or 0)}"
            case "renew":
                self._proved(line, who).renewals += 1
                return f"{who} renews late, {seconds(line.age_ms or 0)} after its last proof"
            case "lapse":
                self._end(line, "lapse")
                return f"the lock of {who} lapses: {seconds(line.age_ms or 0)} without a renewal"
            case "reap":
                self._end(line, "reap")
                return f"a sweep by {who} finds it without a lock: back to {line.target or 'wait'}"
            case "remove":
                self._end(line, "remove")
                return f"{who} removes it"
            case "raw":
                if line.effect in {"deleted", "overwritten"}:
                    self._end(line, "deleted")
                    how = f"by hand ({line.script})" if line.script else "by a script that nobody knows"
                    sha = f" (sha {line.sha[:8]}…)" if line.sha and not line.script else ""
                    return f"{who} writes on its lock {how}{sha}"
                return None
            case op if op in _MOVES:
                if line.effect == "bypassed":
                    return f'{who} {_MOVES[op]}{target} with the token "0", without its lock'
                self._end(line, op)
                return f"{who} {_MOVES[op]}{target}"
            case _:
                return self._aside(line, who)

    def _aside(self, line: JournalLine, who: str) -> str | None:
        match line.op:
            case "add":
                return f"{who} adds it"
            case "acquire":
                return f"{who} is given it, without a lock"
            case "wipe" if line.effect in {"wiped", "deleted"}:
                self._end(line, "wipe")
                return f"{who} empties its queue or database ({line.script or 'wipe'})"
            case "conn" if line.conn is None:
                return "Redis was lost, or another one answers"
            case "watch":
                words = line.because or "nothing is heard of it"
                return f"{line.cause}: {words}" if line.cause else words
            case _:
                return None

    # ---------------------------------------------------------------- who holds it

    def _begin(self, line: JournalLine, holding: Tenure) -> None:
        self.holdings.append(holding)
        self._holder = holding
        self._by_token[line.token] = holding, line.closed_ns

    def _proved(self, line: JournalLine, who: str) -> Tenure:
        found = self._by_token.get(line.token)
        if found is None:
            self._begin(line, Tenure(who, line.time, seen=False, ttl_ms=line.ttl_ms))
            return self.holdings[-1]
        holding = found[0]
        holding.ttl_ms, holding.end, holding.ended = line.ttl_ms or holding.ttl_ms, None, None
        self._by_token[line.token], self._holder = (holding, line.closed_ns), holding
        return holding

    def _end(self, line: JournalLine, how: str) -> None:
        if self._holder is not None:
            self._holder.end, self._holder.ended = how, line.time
            self._holder = None


def _failed(line: JournalLine, who: str) -> str:
    what = _NOUNS.get(line.op, line.op)
    target = f" ({line.target})" if line.target and line.op == "finish" else ""
    match line.outcome:
        case "refused":
            code = f": {line.code} {line.code_name}" if line.code_name else f": {line.code}"
            return f"{who}: {what}{target} refused{code}"
        case "blocked":
            return f"{who}: {what}{target} refused by emqproxy ({line.rule})"
        case "error":
            return f"{who}: {what}{target} failed: {line.code_name}"
        case _:
            return f"{who}: {what}{target}, whose answer never came"


def _causes(lines: Iterable[JournalLine], gaps: dict[int, float], sweeps: bool) -> dict[str, StoryFigures]:
    """Of each cause that is told, the worst figures."""
    found: dict[str, StoryFigures] = {}
    lines = list(lines)
    by_seq = {(line.run, line.seq): line for line in lines}
    for line in lines:
        if line.cause is None:
            continue
        before = found.get(line.cause, StoryFigures(None, None, None, ""))
        gap_ms = line.age_ms if line.age_ms is not None else gaps.get(line.seq)
        ttl_ms = line.age_ms + line.remaining_ms if line.age_ms is not None and line.remaining_ms is not None else None
        worse = gap_ms if before.gap_ms is None or (gap_ms or 0) > before.gap_ms else before.gap_ms
        others = [by_seq[line.run, seq] for seq in line.evidence or () if (line.run, seq) in by_seq]
        doer = next((other.who for other in reversed(others) if other.token != line.token and other.who), "")
        hand = next((other for other in reversed(others) if other.op == "raw"), None)
        sha = (hand.sha or "")[:8] if hand is not None and hand.script is None else ""
        swept = sweeps or before.sweeps
        own = line.who if line.outcome == "ok" else ""
        ttl = ttl_ms or before.ttl_ms
        found[line.cause] = StoryFigures(
            worse, ttl, line.code_name or before.code_name, doer or own or before.who, sha or before.by_script, swept
        )
    return found
