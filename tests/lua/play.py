"""Plays a sequence: each record becomes a step that suits what stands in the queues, until two databases differ."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from tests.lua import adds, happenings, moves
from tests.lua.choices import Choices
from tests.lua.twins import LANES, Difference, Outcome, Step, Twins
from tests.lua.world import World

Kind = Callable[[World, Choices], Step]

RECORD_BYTES: Final = 20
STEPS_MAX: Final = 40
TABLE: Final = Path(__file__).parent / "differences.toml"
_WEIGHTS: Final[tuple[tuple[int, Kind | None], ...]] = (
    (2, None), (11, adds.add_standard), (8, adds.add_delayed), (10, adds.add_prioritized), (10, adds.add_parent),
    (21, adds.add_child), (34, moves.pick), (40, moves.finish), (8, moves.delay), (9, moves.retry),
    (8, moves.put_back), (12, moves.wait_for_children), (14, moves.sweep), (5, moves.renew), (5, moves.renew_many),
    (3, moves.release), (3, moves.progress), (5, happenings.lock_ends), (3, happenings.lock_is_anothers),
    (4, happenings.key_ends), (2, happenings.limit_is_reached), (8, happenings.worker_wakes), (7, happenings.setting),
    (5, happenings.pause), (5, happenings.job_is_gone), (6, happenings.parent_moves), (3, happenings.old_marker),
    (3, happenings.removal), (2, happenings.new_priority),
)  # fmt: skip
KINDS: Final = tuple(kind for weight, kind in _WEIGHTS for _ in range(weight))
assert len(KINDS) == 256, f"a byte chooses the kind: of {len(KINDS)} some would never be played"
_ON_ACTIVE: Final = {
    moves.finish, moves.delay, moves.retry, moves.put_back, moves.wait_for_children, moves.sweep, moves.renew,
    moves.renew_many, moves.release, moves.progress, happenings.lock_ends, happenings.lock_is_anothers,
    happenings.job_is_gone,
}  # fmt: skip


class UnequalError(AssertionError):
    """Shown to whoever writes the Lua: all that was done, and what is not the same after the last step."""

    def __init__(self, differences: Sequence[Difference], told: Sequence[str], records: Sequence[bytes]) -> None:
        self.differences = differences
        self._made_of = differences, told, records
        steps = "\n".join(f"  {number:2d} {line}" for number, line in enumerate(told, 1))
        apart = "\n".join(f"    {difference}" for difference in differences)
        again = ",".join(record.rstrip(b"\0").hex() or "00" for record in records)
        super().__init__(f"{differences[0].script} differs\n{steps}\n{apart}\n  again: {again}")

    def __reduce__(self) -> tuple[type[UnequalError], tuple[object, ...]]:
        return UnequalError, self._made_of  # an exception of one argument is what pickle expects


def play(twins: Twins, sequences: Sequence[Sequence[bytes]]) -> list[list[str]]:
    """What was done in each, a line a step. Raises UnequalError at a difference that no row of the table explains.

    Sequences are played beside each other, a lane each.
    """
    assert len(sequences) <= LANES
    twins.fresh()
    players = [_Player(records) for records in sequences]
    while steps := [(lane, step) for lane, player in enumerate(players) if (step := player.next()) is not None]:
        for (lane, step), outcome in zip(steps, twins.steps(steps), strict=True):
            players[lane].hears(step, outcome)
    return [player.told for player in players]


class _Player:
    """One sequence: what it did, and what it does next."""

    def __init__(self, records: Sequence[bytes]) -> None:
        self.told: list[str] = []
        self._world = World()
        self._records = iter(records)
        self._record = b""
        self._played: list[bytes] = []

    def next(self) -> Step | None:
        """None: it has ended."""
        for record in self._records:
            self._record, choices = record, Choices(record)
            self._world.passes(choices)
            if (step := decide(self._world, choices)) is not None:
                return step
        return None

    def hears(self, step: Step, outcome: Outcome) -> None:
        self.told.append(f"{step.label} @{self._world.now_ms} -> {_short(outcome.theirs)}")
        self._played.append(self._record)
        if outcome.differences:
            if not explained(step, outcome):
                raise UnequalError(outcome.differences, self.told, self._played)
            self._records = iter(())
        self._world.queues = outcome.queues


def decide(world: World, choices: Choices) -> Step | None:
    """The step that a record stands for; mostly one that comes first where there is nothing to work on yet."""
    kind = choices.of(KINDS)
    if kind is None:
        return None
    if kind in _ON_ACTIVE and not world.queues.all_listed("active") and not choices.once_in(8):
        ready = [job for state in moves.TAKEN_FROM for job in world.queues.all_listed(state)]
        kind = moves.pick if ready else adds.add_standard
    if kind is moves.wait_for_children and not world.queues.active_parents() and not choices.once_in(6):
        kind = adds.add_child_of_active
    if kind is moves.pick and world.queues.marked() and choices.once_in(6):
        kind = moves.sweep
    return kind(world, choices)


def _short(reply: object) -> str:
    text = repr(reply)
    return text if len(text) < 160 else f"{text[:150]} …"


class Row(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A row of differences.toml."""

    script: str
    theirs: str
    ours: str
    keys: list[str]
    reason: str


@cache
def table() -> list[Row]:
    return msgspec.convert(tomllib.loads(TABLE.read_text()).get("difference", []), list[Row])


def explained(step: Step, outcome: Outcome) -> bool:
    """Whether one row of the table has all that a step's outcome differs in."""
    wheres = [difference.where for difference in outcome.differences if difference.where != "reply"]
    return any(
        step.call is not None
        and step.call.script == row.script
        and re.search(row.theirs, repr(outcome.theirs))
        and re.search(row.ours, repr(outcome.ours))
        and all(any(fnmatchcase(where, pattern) for pattern in row.keys) for where in wheres)
        for row in table()
    )
