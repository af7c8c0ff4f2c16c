"""Journal lines in plain words: what happened, and where it is not obvious, why it matters.

A reader needs no document for these sentences.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from emqproxy.demo.expected import Line
from emqproxy.demo.plan import KILLED, played

Mood: TypeAlias = Literal["plain", "good", "warning", "bad"]

_AGAIN: Final = "The work is done twice: who was charged once is charged again."


class Sentence(NamedTuple):
    """What happened; why it matters (may be empty); how it is to be taken."""

    what: str
    why: str
    mood: Mood


class Scene:
    """What was told so far: a second pickup is another sentence than the first, and a lapse has a worker's name."""

    def __init__(self) -> None:
        self._pickups: dict[str, int] = {}
        self._names: dict[tuple[str, str], str] = {}
        """By job and token, who took it."""
        self._holders: dict[str, str] = {}
        """By job, who took it last."""
        self._explained: set[str] = set()

    def sentence(self, line: Line) -> Sentence | None:
        """The line in words; None for what the story passes over in silence. Why it matters is said once."""
        sentence = self._sentence(line)
        if sentence is None or sentence.why not in self._explained:
            self._explained.add(sentence.why if sentence else "")
            return sentence
        return sentence._replace(why="")

    def who(self, line: Line) -> str:
        """The worker whose token the line has, or the name of the connection."""
        known = self._names.get((str(line.get("job")), str(line.get("token"))))
        return known or str(line.get("client_name") or "somebody")

    def _sentence(self, line: Line) -> Sentence | None:
        match (line.get("op"), line.get("outcome")):
            case ("acquire", "ok"):
                return self._picked_up(line)
            case ("renew", "ok"):
                return _renewed(line, self.who(line))
            case ("renew", "refused"):
                return _renewal_refused(line, self.who(line))
            case ("lapse", _):
                return _lapsed(line, self.who(line))
            case ("finish", outcome):
                holder = self._holders.get(str(line.get("job")), "another")
                return _finished(line, self.who(line), holder, outcome == "ok")
            case ("raw", "ok"):
                return Sentence(
                    f"{self.who(line)} DELETED THE LOCK by hand, past all scripts.",
                    "Its holder hears nothing of it, works on, and will be refused.",
                    "bad",
                )
            case ("reap", "ok"):
                return Sentence(
                    "put back: a sweep found it active without a lock.",
                    "To the queue it looks as if its worker had died.",
                    "warning",
                )
            case _:
                return None

    def _picked_up(self, line: Line) -> Sentence:
        job, name = str(line.get("job")), str(line.get("client_name") or "a worker")
        self._names[job, str(line.get("token"))] = self._holders[job] = name
        self._pickups[job] = times = self._pickups.get(job, 0) + 1
        held = _seconds(line.get("ttl_ms"))
        if times == 1:
            return Sentence(f"{name} picked it up: its lock lives {held}, unless it is renewed.", "", "plain")
        return Sentence(f"{name} picked it up AGAIN, under a new token.", _AGAIN, "warning")


def _renewed(line: Line, name: str) -> Sentence:
    age, left = _seconds(line.get("age_ms")), _seconds(line.get("remaining_ms"))
    match line.get("grade"):
        case "late" | "critical" as grade:
            return Sentence(
                f"{name} renewed {grade.upper()}: {age} old, only {left} were left.",
                "Its event loop stood still. A little longer, and the job was lost.",
                "warning",
            )
        case _:
            return Sentence(f"{name} renewed in time: {age} old, {left} were left.", "", "good")


def _renewal_refused(line: Line, name: str) -> Sentence:
    remaining = line.get("remaining_ms")
    if isinstance(remaining, int | float) and remaining < 0:
        return Sentence(
            f"{name}'s renewal REFUSED by Redis: {_seconds(-remaining)} too late.",
            "It stops the job, and says no more.",
            "bad",
        )
    return Sentence(
        f"{name}'s renewal REFUSED by Redis, although it came in time.",
        "Its lock is gone before its time. It stops the job, and says no more.",
        "bad",
    )


def _lapsed(line: Line, name: str) -> Sentence:
    dead = played(str(line.get("job"))) == KILLED
    return Sentence(
        f"{name} LOST THE LOCK: {_seconds(line.get('ttl_ms'))} passed without a renewal.",
        "Redis has let go of it, as is meant: a dead worker owns no job."
        if dead
        else "Redis has let go of it. The worker does not know, and works on.",
        "bad",
    )


def _finished(line: Line, name: str, holder: str, accepted: bool) -> Sentence:
    target = line.get("target") or "finished"
    if accepted:
        return Sentence(f"{name} {target} it, and gave the lock back.", "", "good")
    return Sentence(
        f"{name}'s finish REFUSED by Redis: code {line.get('code')}, {line.get('code_name')}.",
        f"{holder if line.get('code') == -6 else 'Nobody'} holds the lock: the result of the work is thrown away.",
        "bad",
    )


def _seconds(ms: float | None) -> str:
    return "?" if ms is None else f"{ms / 1000:.1f} s"
