"""Settings of all kinds, small enough to be played by hand."""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st

from emqproxy.simulation.settings import Block, Setting, joined

unhurried = hypothesis.settings(deadline=None)
"""A busy machine is no fault of the arithmetic."""

TIMES = st.integers(1, 60)
BLOCKS = st.lists(st.builds(Block, st.integers(0, 150), TIMES), max_size=3).map(joined)


def settings(blocks: st.SearchStrategy[tuple[Block, ...]] = BLOCKS) -> st.SearchStrategy[Setting]:
    """Of times up to 60 ms."""
    return st.builds(
        Setting,
        lock_duration_ms=TIMES,
        renew_ms=TIMES,
        stalled_interval_ms=TIMES,
        first_sweep_ms=st.integers(0, 60),
        max_stalled=st.integers(0, 3),
        blocks=blocks,
        block_every_attempt=st.booleans(),
    )


UNBLOCKED = settings(st.just(()))
EVERY = settings()
