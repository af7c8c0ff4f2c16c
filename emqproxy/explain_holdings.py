"""Who held a job's lock, from when to when and with which gaps: an account kept line by line, for its story.

A gap is one figure, the one that causes give: from the answer that proved the lock to the sending of its holder's next
call, and where that did not get through, of the first that was answered.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy.journal_lines import JournalLine
from emqproxy.journal_timeline import holds_none
from emqproxy.locks.case import MOVES

FAILED: Final = frozenset({"refused", "error", "blocked", "unknown"})
_DENIALS: Final = frozenset({"lapsed_holder", "zero_token"})
"""Rules of ours that tell a speaker that it does not hold the lock."""
_MS_NS: Final = 1_000_000


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
    """`finish` or another op, `lapse`, `reap`, `taken`, `deleted`, `wipe`; `refused`: it was proved by then; None: it
    holds it still, as far as was seen."""
    ended: str | None = None


class _Proved(msgspec.Struct):
    """A token's last holding."""

    holding: Tenure
    at: int
    """Instant: the answer of its last proof."""
    run: str
    over: bool = False
    """It gave the lock back, or was told that it is gone: later calls end no gap."""
    over_gap_ms: float | None = None
    """From that proof to the call by which it was over; None where emqproxy was started again between."""


class Holdings:
    """As the lines so far tell it."""

    def __init__(self) -> None:
        self.all: list[Tenure] = []
        self.gaps: dict[tuple[str, int], float] = {}
        """By `run` and `seq`: how long its speaker had not proved that it holds the lock, in ms."""
        self.holder: Tenure | None = None
        self._proofs: dict[tuple[str | None, str], _Proved] = {}
        """By token and who brought it: two may share one."""

    def on(self, line: JournalLine, who: str) -> None:
        """The next line."""
        self._measure(line, who)
        if line.outcome in FAILED:
            return
        match line.op:
            case "acquire" if line.effect == "granted":
                self._end(line, "taken")
                self._begin(line, Tenure(who, line.time, seen=True, ttl_ms=line.ttl_ms))
            case "renew":
                self._proved(line, who).renewals += 1
            case "lapse":
                self._lapse(line, who)
            case "reap" | "remove":
                self._end(line, line.op)
            case "raw" if line.effect in {"deleted", "overwritten"}:
                self._end(line, "deleted")
            case "wipe" if line.effect in {"wiped", "deleted"}:
                self._end(line, "wipe")
            case op if op in MOVES and line.effect != "bypassed":
                self._end(line, op)
            case _:
                pass

    def _measure(self, line: JournalLine, who: str) -> None:
        found = self._proofs.get((line.token, who))
        if found is None or line.token is None or line.effect == "lapsed":
            return
        holding, gap_ms = found.holding, found.over_gap_ms
        if not found.over and line.run == found.run:
            gap_ms = max(0.0, (line.opened_ns - found.at) / _MS_NS)
            if line.outcome == "ok" and line.age_ms is not None:
                gap_ms = line.age_ms  # less our own pauses, as its cause says it
            holding.longest_gap_ms = max(holding.longest_gap_ms, gap_ms)
        if gap_ms is not None:
            self.gaps[line.run, line.seq] = gap_ms
        if found.over:
            return
        denied = holds_none(line.outcome, line.effect, line.code)
        denied = denied and (line.run != found.run or line.closed_ns >= found.at)
        if denied and holding.end is None:
            holding.end, holding.ended = "refused", line.time
            self.holder = None if self.holder is holding else self.holder
        if denied or line.effect == "released" or (line.outcome == "blocked" and line.rule in _DENIALS):
            found.over, found.over_gap_ms = True, gap_ms

    def _begin(self, line: JournalLine, holding: Tenure) -> Tenure:
        self.all.append(holding)
        self.holder = holding
        self._proofs[line.token, holding.who] = _Proved(holding, line.closed_ns, line.run)
        return holding

    def _proved(self, line: JournalLine, who: str) -> Tenure:
        found = self._proofs.get((line.token, who))
        if self.holder is not None and (found is None or found.holding is not self.holder):
            self._end(line, "taken")
        if found is None:
            return self._begin(line, Tenure(who, line.time, seen=False, ttl_ms=line.ttl_ms))
        holding = self.holder = found.holding
        holding.ttl_ms, holding.end, holding.ended = line.ttl_ms or holding.ttl_ms, None, None
        found.at, found.run, found.over, found.over_gap_ms = line.closed_ns, line.run, False, None
        return holding

    def _lapse(self, line: JournalLine, who: str) -> None:
        """Of a token's own lock: who has taken the job since holds another."""
        found = self._proofs.get((line.token, who))
        if found is None or found.holding is self.holder:
            self._end(line, "lapse")

    def _end(self, line: JournalLine, how: str) -> None:
        if self.holder is not None:
            self.holder.end, self.holder.ended = how, line.time
            self.holder = None
