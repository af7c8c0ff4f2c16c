"""What a diagnosis says, and the words that all causes share."""

from __future__ import annotations

from typing import NamedTuple

from emqproxy.locks.case import Case
from emqproxy.locks.notes import Note, between_ms, seconds


class Diagnosis(NamedTuple):
    """Why; in one English sentence with its figures; and the numbers of the journal's lines that it rests on."""

    cause: str
    because: str
    evidence: tuple[int, ...] = ()


def lapsed_before(case: Case, other: Note) -> bool:
    """Whether the lock had ended by time before something was done to it."""
    return case.proof is not None and between_ms(case.proof.closed, other.opened) > case.ttl_ms


def seqs(*notes: Note | None) -> tuple[int, ...]:
    """The numbers of lines, each once."""
    return tuple(dict.fromkeys(n.seq for n in notes if n is not None))


def ago(then: Note, now: Note) -> str:
    """How long before."""
    return seconds(max(0.0, between_ms(then.closed, now.closed)))


def by(note: Note, otherwise: str = "another client") -> str:
    """Who did it."""
    return note.who or otherwise


def did(note: Note, what: str) -> str:
    """What somebody did; or may have done, where its answer was not seen."""
    if note.outcome == "unknown":
        return f"may have {what} (its answer was not seen)"
    return f"had {what}"


def listed(jobs: list[str], most: int = 5) -> str:
    """Names, the first ones only where there are many."""
    told = ", ".join(jobs[:most])
    return f"{told} and {len(jobs) - most} more" if len(jobs) > most else told
