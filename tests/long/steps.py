"""What a generated conversation is: a value, made from a seed and held on each road alike."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """What one connection sends at once (in pieces), and what must have come to it before anything else is sent."""

    by: int
    pieces: tuple[bytes, ...]
    until: bytes | None = None


@dataclass(slots=True)
class Conversation:
    """All that is said; `classes` counts commands by what they are."""

    seed: str
    resp: int
    steps: list[Step] = field(default_factory=list)
    connections: int = 1
    classes: dict[str, int] = field(default_factory=dict)

    @property
    def commands(self) -> int:
        return sum(self.classes.values())

    @property
    def sent_bytes(self) -> int:
        return sum(len(piece) for step in self.steps for piece in step.pieces)
