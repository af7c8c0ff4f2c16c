"""Enforce mode, all rules at enforce, one sidecar and two: not one call of a lawful history is refused.

The long form (10,000 of them) is `python -m tests.long.lawful_histories`.
"""

from __future__ import annotations

import itertools

import pytest

from emqproxy.locks.pools import Pools
from tests.long.lawful import Lawful
from tests.long.lawful_histories import play

COUNT = 100
POOLED = 30


@pytest.mark.timeout(240)
def test_nothing_lawful_is_refused() -> None:
    figures = play(range(COUNT))
    assert not figures.wrong, "\n".join(figures.wrong)
    assert figures.histories + len(figures.broken_off) == COUNT
    assert len(figures.broken_off) < COUNT / 4, figures.broken_off
    # They are histories in which jobs are lost and taken again, and in which workers move.
    for what in ("taken", "given back", "swept", "forgotten", "moves", "late calls", "taken again by who lost it"):
        assert figures.counts[what], what


@pytest.mark.timeout(240)
def test_not_to_know_a_pool_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pools with one token for all of a process: who takes its own job again over another connection is no loser."""
    monkeypatch.setattr(Pools, "has_token", lambda *_: False)
    monkeypatch.setattr(Pools, "has_conn", lambda *_: False)
    pooled = (seed for seed in itertools.count() if _is_pool(Lawful(seed, [0])))
    assert play(list(itertools.islice(pooled, POOLED))).wrong


def _is_pool(history: Lawful) -> bool:
    return history.pool > 1 and history.tokens in {"process", "shared"}
