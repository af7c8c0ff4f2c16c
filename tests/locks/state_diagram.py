"""The README's state diagram, drawn from the table: `python -m tests.locks.state_diagram` writes it anew."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

from emqproxy.locks.verdicts import Finding, Suspect
from emqproxy.locks.worlds import TRANSITIONS, LeaseState, Move, Speaker

README: Final = Path(__file__).parents[2] / "README.md"
BEGIN: Final = "<!-- state diagram: python -m tests.locks.state_diagram -->\n"
END: Final = "<!-- end of the state diagram -->\n"

NEXT: Final = {
    Move.HOLD: LeaseState.HELD,
    Move.FREE: LeaseState.FREE,
    Move.ELSEWHERE: LeaseState.ELSEWHERE,
    Move.UNSEEN: LeaseState.UNSEEN,
}
BY_TIME: Final = (
    "    held --> in_doubt: from opened + ttl on",
    "    in_doubt --> lapsed: from closed + ttl + slack on",
)


def occurs(state: LeaseState, speaker: Speaker) -> bool:
    """Whether such a speaker can meet such a lock: every cell is filled, some are never asked for."""
    if speaker is Speaker.HOLDER:
        return state in {LeaseState.HELD, LeaseState.IN_DOUBT, LeaseState.LAPSED}
    return speaker is not Speaker.LATE or state is LeaseState.LAPSED


def diagram() -> str:
    """Mermaid: every move that suspects nobody but a straggler, its facts on the arrow."""
    facts: dict[tuple[LeaseState, LeaseState], dict[str, None]] = defaultdict(dict)
    for (event, state, speaker), (finding, move) in TRANSITIONS.items():
        if occurs(state, speaker) and move is not Move.KEEP and finding.suspects in {Suspect.NOBODY, Suspect.SPEAKER}:
            facts[state, NEXT[move]][event] = None
    order = list(LeaseState)
    arrows = [
        f"    {source.value} --> {target.value}: {', '.join(sorted(facts[source, target]))}"
        for source, target in sorted(facts, key=lambda edge: (order.index(edge[0]), order.index(edge[1])))
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> unseen", *arrows, *BY_TIME, "```", ""])


def accusations() -> str:
    """A table: what is found where somebody is suspected."""
    found: dict[tuple[Finding, str], dict[str, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    for (event, state, speaker), (finding, _) in TRANSITIONS.items():
        if occurs(state, speaker) and finding.suspects is not Suspect.NOBODY:
            found[finding, event][state.value][speaker.value] = None
    rows = []
    for (finding, event), states in sorted(found.items()):
        speakers = dict.fromkeys(speaker for by in states.values() for speaker in by)
        who = "anybody" if len(speakers) >= len(Speaker) - 1 else ", ".join(speakers)
        rows.append(f"| `{finding.word}` | {event} | {', '.join(states)} | {who} |")
    return "\n".join(["| finding | fact | the lock is | the speaker is |", "|---|---|---|---|", *rows, ""])


def block() -> str:
    return f"{BEGIN}{diagram()}\n{accusations()}{END}"


def drawn(text: str) -> str:
    """The README with the block as the table has it."""
    head, rest = text.split(BEGIN)
    return head + block() + rest.split(END)[1]


if __name__ == "__main__":
    README.write_text(drawn(README.read_text()))
