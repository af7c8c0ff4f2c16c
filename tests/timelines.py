"""A timeline with one of nearly everything in it, for the tests that draw."""

from __future__ import annotations

from emqproxy.lock_timeline import Holding, LockTimeline, Mark, Marked, Proof, Stretch

STALLED = LockTimeline(
    holdings=(
        Holding(
            "worker 1",
            (Proof(0, 30000), Proof(15000, 45000), Proof(34000, 64000, Mark.LATE)),
            (Marked(64000, Mark.LAPSED), Marked(99000, Mark.REFUSED), Marked(99100, Mark.FINISH_REFUSED)),
            (Stretch(36000, 99000),),
        ),
        Holding(
            "worker 2",
            (Proof(90000, 120000), Proof(105000, 135000), Proof(131000, 161000, Mark.CRITICAL)),
            (Marked(140000, Mark.FINISHED),),
        ),
    ),
    queue=(
        Marked(30000, Mark.SWEEP_MARKS),
        Marked(60000, Mark.SWEEP_MARKS),
        Marked(90000, Mark.SWEEP_RECOVERS),
    ),
    start_ms=0,
    end_ms=165000,
)
"""Renewed, renewed late, blocked, lapsed, swept, taken over, refused, finished."""
