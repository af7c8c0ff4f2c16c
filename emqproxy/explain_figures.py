"""The figures of each cause that a job's lines tell: what its advice is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from emqproxy.explain_advice import Culprit, StoryFigures
from emqproxy.journal_lines import JournalLine
from emqproxy.locks.hands import Deed, done

_HASH: Final = frozenset({Deed.HASH})
_OFF_ACTIVE: Final = frozenset({Deed.TAKEN, Deed.MOVED, Deed.LIST})
_BACK: Final = frozenset({Deed.PUT, Deed.MOVED})
_DEEDS: Final = {
    "job_removed": _HASH,
    "job_vanished": _HASH,
    "not_in_active": _OFF_ACTIVE,
    "double_grant": _BACK,
    "ghost_job": _BACK | _HASH,
    "retaken": _BACK,
}
"""By cause: what a hand must have done that it comes of."""
_WHERE: Final[dict[Deed, str]] = {Deed.TAKEN: "active", Deed.LIST: "active"}
"""In which list."""
_BY_EVIDENCE: Final = frozenset({"job_removed", "retaken"})
"""It comes mostly of something else: a hand is named where the evidence does."""


def figures_of(
    lines: Sequence[JournalLine], gaps: Mapping[tuple[str, int], float], *, sweeps: bool
) -> dict[str, StoryFigures]:
    """Of each cause, in the order in which they are told, its worst figures. `gaps`: by `run` and `seq`, in ms.
    `sweeps`: a sweep for stalled jobs was seen on the queue."""
    found: dict[str, StoryFigures] = {}
    by_seq = {(line.run, line.seq): line for line in lines}
    for at, line in enumerate(lines):
        if line.cause is not None:
            others = [by_seq[line.run, seq] for seq in line.evidence or () if (line.run, seq) in by_seq]
            now = _of_one(line, others, gaps.get((line.run, line.seq), line.age_ms), sweeps)
            now = now._replace(hand=_hand(line.cause, others, lines[:at]), wipe=_wipe(line.cause, others))
            found[line.cause] = now if line.cause not in found else _worse(found[line.cause], now)
    return found


def _of_one(line: JournalLine, others: Sequence[JournalLine], gap_ms: float | None, sweeps: bool) -> StoryFigures:
    ttl_ms = line.age_ms + line.remaining_ms if line.age_ms is not None and line.remaining_ms is not None else None
    doer = next((other.who for other in reversed(others) if other.token != line.token and other.who), "")
    hand = next((other for other in reversed(others) if other.op == "raw"), None)
    sha = (hand.sha or "")[:8] if hand is not None and hand.script is None else ""
    own = line.who if line.outcome == "ok" else ""
    return StoryFigures(gap_ms, ttl_ms, line.code_name, doer or own, sha, sweeps)


def _worse(before: StoryFigures, now: StoryFigures) -> StoryFigures:
    """Of two lines of one cause: the longer gap, and of all else what is known, the later one's first."""
    gaps = [gap for gap in (before.gap_ms, now.gap_ms) if gap is not None]
    return StoryFigures(
        max(gaps, default=None),
        now.ttl_ms or before.ttl_ms,
        now.code_name or before.code_name,
        now.who or before.who,
        now.by_script or before.by_script,
        now.sweeps,
        now.hand or before.hand,
        now.wipe or before.wipe,
    )


def _hand(cause: str, evidence: Sequence[JournalLine], before: Sequence[JournalLine]) -> Culprit | None:
    """Whose hand a cause comes of: as its evidence tells, else the last one before that did what it takes."""
    deeds = _DEEDS.get(cause, frozenset())
    for line in reversed([*(before if deeds and cause not in _BY_EVIDENCE else ()), *evidence]):
        deed = done(line)
        if deed in deeds and line.target == _WHERE.get(deed, line.target):
            return Culprit(line.who, line.script or "a command", of_hash=deed is Deed.HASH)
    return None


def _wipe(cause: str, evidence: Sequence[JournalLine]) -> Culprit | None:
    wipes = (line for line in reversed(evidence) if line.op == "wipe" and cause == "job_removed")
    return next((Culprit(line.who, line.script or "a wipe") for line in wipes), None)
