"""Settings at random that a real clock can be held to: short, and with no two instants close whose order decides.

Where a renewal comes 5 ms before the lock's end, or a sweep 5 ms after it, no two real runs need come out alike, and
arithmetic to the millisecond is of no use. Such settings are drawn again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle
from typing import Final

from emqproxy.simulation.course import play
from emqproxy.simulation.outcome import AttemptSeen, Outcome
from emqproxy.simulation.settings import Block, Setting, joined

MARGIN_MS: Final = 70
"""Between two instants whose order decides something: more than what is held to be agreement."""
LONG_MS: Final = 6_000


def settings(rnd: random.Random, count: int, long_ms: int = LONG_MS) -> list[Outcome]:
    """As many outcomes, by turns of each kind: owned, recovered, failed."""
    kinds, drawn = cycle(("owned", "recovered", "failed")), []
    for _ in range(count):
        kind = next(kinds)
        drawn.append(next(outcome for outcome in _played(rnd, long_ms) if outcome.outcome == kind))
    return drawn


def _played(rnd: random.Random, long_ms: int) -> Iterator[Outcome]:
    while True:
        outcome = play(_setting(rnd))
        if end_ms(outcome) <= long_ms and is_clear(outcome):
            yield outcome


def is_clear(outcome: Outcome) -> bool:
    """Whether the order of each two instants that decides something is clear by MARGIN_MS."""
    return all(_clear(outcome))


def end_ms(outcome: Outcome) -> int:
    """When all of it has happened."""
    return max([outcome.until_ms, *(attempt.learned_ms or 0 for attempt in outcome.attempts)])


def _setting(rnd: random.Random) -> Setting:
    blocks = [Block(rnd.randrange(50, 2_500), rnd.randrange(50, 2_000)) for _ in range(rnd.choice((0, 1, 1, 2)))]
    return Setting(
        lock_duration_ms=rnd.randrange(300, 1_500),
        renew_ms=rnd.randrange(100, 2_000),
        stalled_interval_ms=rnd.randrange(200, 1_500),
        first_sweep_ms=rnd.randrange(MARGIN_MS, 1_500),
        max_stalled=rnd.choice((0, 1, 1, 2)),
        blocks=joined(blocks),
        block_every_attempt=rnd.random() < 0.4,
    )


def _clear(outcome: Outcome) -> Iterator[bool]:
    setting = outcome.setting
    for place, attempt in enumerate(outcome.attempts):
        if attempt.end == "released":
            continue
        kept = [attempt.taken_ms, *(r.at_ms for r in attempt.renewals if r.outcome == "ok")]
        # Whether a renewal is in time, and whether it falls due before a block or in it.
        yield all(r.remaining_ms is None or abs(r.remaining_ms) >= MARGIN_MS for r in attempt.renewals)
        if place == 0 or setting.block_every_attempt:
            starts = [attempt.taken_ms + block.at_ms for block in setting.blocks]
            yield all(abs(at_ms + setting.renew_ms - start) >= MARGIN_MS for at_ms in kept for start in starts)
        if attempt.lapsed_ms is not None:
            yield all(_apart(attempt, sweep.at_ms, kept[-1]) for sweep in outcome.sweeps)


def _apart(attempt: AttemptSeen, sweep_ms: int, proved_ms: int) -> bool:
    """Whether it is clear if a sweep finds a lock, and if its mark outlives the last renewal.

    The sweep that put the job back before is followed by the pickup in any case.
    """
    assert attempt.lapsed_ms is not None
    marks = proved_ms == attempt.taken_ms or abs(sweep_ms - proved_ms) >= MARGIN_MS
    return marks and abs(sweep_ms - attempt.lapsed_ms) >= MARGIN_MS
