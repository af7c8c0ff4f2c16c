"""What was simulated beside what happened: each instant of the one with its instant of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from emqproxy.simulation.outcome import Outcome
from tests.simulation.real import RealCourse


class Instant(NamedTuple):
    """One thing that happens, when it should have and when it did; None: not at all."""

    what: str
    simulated_ms: float | None
    real_ms: float | None

    @property
    def apart_ms(self) -> float:
        """How far they are apart; for ever, where only one of them is."""
        if self.simulated_ms is None or self.real_ms is None:
            return 0.0 if self.simulated_ms == self.real_ms else float("inf")
        return abs(self.simulated_ms - self.real_ms)


def instants(outcome: Outcome, real: RealCourse) -> Iterator[Instant]:
    """All of a course: pickups, renewals, lapses, sweeps that found it, refusals, its failure; and that no more was."""
    attempts, recovered = outcome.attempts, [a.recovered_ms for a in outcome.attempts if a.recovered_ms is not None]
    for place, attempt in enumerate(attempts):
        who = attempt.worker
        yield Instant(f"{who} takes it", attempt.taken_ms, _at(real.taken, place))
        kept = [renewal.at_ms for renewal in attempt.renewals if renewal.outcome == "ok"]
        for count, at_ms in enumerate(kept):
            yield Instant(f"{who}'s renewal {count + 1}", at_ms, _at(real.renewed[place], count))
        yield Instant(f"{who}'s lock lapses", attempt.lapsed_ms, real.lapsed.get(place))
        yield Instant(f"{who} learns it", attempt.learned_ms, real.learned.get(place))
    for place in range(len(attempts), len(real.taken)):
        yield Instant(f"worker {place + 1} takes it", None, real.taken[place])
    for count in range(max(len(recovered), len(real.recovered))):
        yield Instant(f"sweep puts it back ({count + 1})", _at(recovered, count), _at(real.recovered, count))
    yield Instant("it is failed", outcome.failed_ms, real.failed)


def _at(values: list[float] | list[int], place: int) -> float | None:
    return values[place] if place < len(values) else None
