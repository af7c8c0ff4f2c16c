"""Journal lines in plain words, and what the story must have seen to be true.

A reader needs no document for these sentences; each says what happened and, where it is not obvious, why it matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from emqproxy.demo.worker_plan import HEALTHY, SLOW, STUCK

Line: TypeAlias = Mapping[str, Any]
"""One line of the journal (CONTRACT, "Journal")."""
Mood: TypeAlias = Literal["plain", "good", "warning", "bad"]


class Sentence(NamedTuple):
    """What happened; why it matters (may be empty); how it is to be taken."""

    what: str
    why: str
    mood: Mood


class Scene:
    """What was told so far: a second pickup is another sentence than the first."""

    def __init__(self) -> None:
        self._pickups: dict[str, int] = {}

    def sentence(self, line: Line) -> Sentence | None:
        """The line in words; None for what the story passes over in silence."""
        match (line.get("op"), line.get("outcome")):
            case ("acquire", "ok"):
                return self._picked_up(line)
            case ("renew", "ok"):
                return _renewed(line)
            case ("renew", "refused"):
                return _renewal_refused(line)
            case ("lapse", _):
                return Sentence(
                    f"LOCK LOST: {_seconds(line.get('ttl_ms'))} passed without a renewal.",
                    "Redis has let go of the lock. The worker does not know it and is still working on the job.",
                    "bad",
                )
            case ("finish", outcome):
                return _finished(line, outcome == "ok")
            case ("reap", "ok"):
                return Sentence(
                    "put back: the queue's sweep found the job without a lock and returned it to the waiting list.",
                    "To the queue it looks as if the worker had died.",
                    "warning",
                )
            case _:
                return None

    def _picked_up(self, line: Line) -> Sentence:
        job = str(line.get("job"))
        self._pickups[job] = times = self._pickups.get(job, 0) + 1
        held = _seconds(line.get("ttl_ms"))
        if times == 1:
            return Sentence(
                f"picked up: the worker holds its lock for {held} and must renew it before then.", "", "plain"
            )
        return Sentence(
            f"picked up AGAIN, with a new lock of {held}.",
            "The same work is done a second time: a card charged or a mail sent by the first attempt is sent twice.",
            "bad",
        )


def _renewed(line: Line) -> Sentence:
    age, left = _seconds(line.get("age_ms")), _seconds(line.get("remaining_ms"))
    match line.get("grade"):
        case "late" | "critical" as grade:
            return Sentence(
                f"renewed {grade.upper()}: {age} after the last proof of holding; only {left} were left.",
                "The worker's event loop stood still. A little longer, and the job would have been lost.",
                "warning",
            )
        case _:
            return Sentence(f"renewed in time: {age} old, {left} were left.", "", "good")


def _renewal_refused(line: Line) -> Sentence:
    remaining = line.get("remaining_ms")
    late = f", {_seconds(-remaining)} too late" if isinstance(remaining, int | float) and remaining < 0 else ""
    return Sentence(
        f"renewal REFUSED by Redis: sent {_seconds(line.get('age_ms'))} after the last proof of holding{late}.",
        "The worker's event loop runs again and speaks at last, for a lock that is gone.",
        "bad",
    )


def _finished(line: Line, accepted: bool) -> Sentence:
    target = line.get("target") or "finished"
    if accepted:
        return Sentence(f"{target}: Redis took the result, and the lock was given back.", "", "good")
    refused = f"REFUSED by Redis: code {line.get('code')}, {line.get('code_name')}."
    if target == "failed":
        return Sentence(
            f"marking it as failed instead: {refused}", "Not even that is the worker's to say any more.", "bad"
        )
    return Sentence(
        f"finish ({target}) {refused}",
        "The work was done, and its result is thrown away: no lock, no right to finish.",
        "bad",
    )


def _seconds(ms: float | None) -> str:
    return "?" if ms is None else f"{ms / 1000:.1f} s"


class Expected(NamedTuple):
    """One transition that the story must have seen: the job, its name in words, and the fields of its line."""

    job: str
    words: str
    fields: Mapping[str, object]

    def seen_in(self, lines: Sequence[Line], start: int) -> int | None:
        """The index after the first such line from `start` on, or None."""
        for index in range(start, len(lines)):
            line = lines[index]
            if line.get("job") == self.job and all(_fits(line.get(k), v) for k, v in self.fields.items()):
                return index + 1
        return None


def _fits(found: object, wanted: object) -> bool:
    return found in wanted if isinstance(wanted, tuple) else found == wanted


_PICKUP: Final = {"op": "acquire", "outcome": "ok"}
_COMPLETED: Final = {"op": "finish", "outcome": "ok", "target": "completed"}
EXPECTED: Final = (
    Expected(HEALTHY, "the pickup", _PICKUP),
    Expected(HEALTHY, "a renewal in time", {"op": "renew", "outcome": "ok", "grade": "on_time"}),
    Expected(HEALTHY, "the finish", _COMPLETED),
    Expected(SLOW, "the pickup", _PICKUP),
    Expected(SLOW, "a late renewal", {"op": "renew", "outcome": "ok", "grade": ("late", "critical")}),
    Expected(SLOW, "the finish", _COMPLETED),
    Expected(STUCK, "the pickup", _PICKUP),
    Expected(STUCK, "the lapse of its lock", {"op": "lapse", "outcome": "told"}),
    Expected(STUCK, "a renewal refused as too late", {"op": "renew", "outcome": "refused", "grade": "too_late"}),
    Expected(STUCK, "a finish refused with -2", {"op": "finish", "outcome": "refused", "code": -2}),
    Expected(STUCK, "the sweep that puts it back", {"op": "reap", "outcome": "ok"}),
    Expected(STUCK, "the second pickup", _PICKUP),
    Expected(STUCK, "the second finish", _COMPLETED),
)


def missing(lines: Sequence[Line]) -> list[str]:
    """What the story should have seen, in this order for each job, and did not."""
    absent = []
    reached = dict.fromkeys((HEALTHY, SLOW, STUCK), 0)
    for expected in EXPECTED:
        after = expected.seen_in(lines, reached[expected.job])
        if after is None:
            absent.append(f"{expected.job}: {expected.words}")
        else:
            reached[expected.job] = after
    return absent
