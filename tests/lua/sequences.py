"""Sequences from hypothesis, and what is done with a number of them: the short form in CI, the long one by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.lua.play import RECORD_BYTES, play
from tests.lua.released import COMPARED, HELPERS, ours, released
from tests.lua.twins import LANES, OPTIONS, Twins

STEPS_MAX: Final = 30
EXAMPLES_MAX: Final = 200
"""In one run of hypothesis: it remembers all that it has tried."""


@st.composite
def sequences(draw: st.DrawFn) -> list[bytes]:
    """One sequence, most of them about as long as they may be; it shrinks to few steps, and those to plain ones."""
    count = max(draw(st.integers(0, STEPS_MAX)) for _ in range(2))
    return [draw(st.binary(min_size=RECORD_BYTES, max_size=RECORD_BYTES)) for _ in range(count)]


def stage(ours_too: bool = True, options: Mapping[str, str] = OPTIONS) -> Twins:
    """A Redis with the texts that are compared. `ours_too` false: the released ones on both sides."""
    theirs = {name: text for name, text in released().items() if name in {*COMPARED, *HELPERS}}
    return Twins(theirs, {name: text for name, text in ours().items() if name in COMPARED and ours_too}, options)


def hold(twins: Twins, count: int, start: int) -> int:
    """Plays `count` sequences that `start` names. Returns how many steps that were; raises UnequalError, made small."""
    steps = 0

    def one(several: Sequence[Sequence[bytes]]) -> None:
        nonlocal steps
        steps += sum(map(len, play(twins, several)))

    for number, at in enumerate(range(0, count, EXAMPLES_MAX * LANES)):
        examples = -(-min(count - at, EXAMPLES_MAX * LANES) // LANES)
        _given(one, examples, start * 1_000_003 + number)
    return steps


def _given(one: Any, examples: int, number: int) -> None:
    wrapped = given(st.lists(sequences(), min_size=LANES, max_size=LANES))(one)
    options = settings(
        max_examples=examples, database=None, deadline=None, print_blob=False, report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    seed(number)(options(wrapped))()
