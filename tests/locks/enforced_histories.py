"""Histories for `enforced`: every one of a length from some beginning, and long ones at random."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

from tests.locks.enforced import EnforcedRun
from tests.locks.schemes import Scheme
from tests.locks.simulator import BrokenError
from tests.locks.small_redis import Ask, Choice


def _call(conn: int, kind: str) -> tuple[Choice, ...]:
    return ("send", conn, Ask(kind)), ("run", conn, None), ("read", conn, None)


_LEAP: Final[Choice] = ("leap", 0, None)


def preambles(scheme: Scheme) -> dict[str, tuple[Choice, ...]]:
    """Where short histories begin, by how far the first job has come; all asked one after the other."""
    first, second = 0, scheme.conns
    picked = _call(first, "pick")
    swept = (*picked, *_call(second, "sweep"), _LEAP, _LEAP, *_call(second, "sweep"))
    taken = (*swept, *_call(second, "pick"))
    again = (*taken, *_call(first, "sweep"), _LEAP, _LEAP, *_call(first, "sweep"), *_call(first, "pick"))
    found = {"nobody has it": (), "picked": picked, "lost": swept, "taken over": taken, "taken again": again}
    if scheme.conns > 1:
        found["taken again by the pool that lost it"] = (*swept, *_call(first + 1, "pick"))
    return found


def enforced_histories(
    scheme: Scheme, jobs: int, depth: int, preamble: Sequence[Choice]
) -> Iterator[tuple[EnforcedRun, list[Choice]]]:
    """Every history of a length after a preamble, played: depth first. A run that breaks raises."""

    def walk(history: list[Choice]) -> Iterator[tuple[EnforcedRun, list[Choice]]]:
        try:
            run = EnforcedRun(scheme, jobs).play(history)
        except BrokenError as broken:
            raise BrokenError(f"{scheme.name}: {broken}\n  " + "\n  ".join(map(str, history))) from broken
        if len(history) == len(preamble) + depth:
            yield run, history
            return
        leaps = sum(kind == "leap" for kind, _, _ in preamble)
        for choice in list(run.choices(leaps + 3)):
            yield from walk([*history, choice])

    yield from walk(list(preamble))


def wandering(scheme: Scheme, seed: int) -> EnforcedRun:
    """A long history at random, played. Through several doors connections are closed and made anew, too."""
    rnd = random.Random(f"{scheme.name} {seed}")
    run, orderly = EnforcedRun(scheme, rnd.choice((1, 2))), rnd.choice((0.0, 0.5, 0.9))
    history: list[object] = list(rnd.choice(list(preambles(scheme).values())))
    try:
        run.play(history)  # type: ignore[arg-type]
        for _ in range(rnd.randint(30, 140)):
            if scheme.doors > 1 and rnd.random() < 0.1:
                _move(run, rnd, history)
                continue
            choices = list(run.choices(leaps_max=run.m.leaps + 1 if rnd.random() < 0.5 else 0))
            under_way = [choice for choice in choices if choice[0] in {"run", "read"}]
            choice = rnd.choice(under_way if under_way and rnd.random() < orderly else choices)
            history.append(choice)
            run.step(choice)
    except BrokenError as broken:
        raise BrokenError(f"{scheme.name}, seed {seed}: {broken}\n  " + "\n  ".join(map(str, history))) from broken
    return run


def _move(run: EnforcedRun, rnd: random.Random, history: list[object]) -> None:
    idle = [conn for conn, out in enumerate(run.m.out) if out is None]
    if not idle or rnd.random() < 0.3:
        run.notice()
        history.append("notice")
        return
    conn, door, noticed = rnd.choice(idle), rnd.randrange(run.scheme.doors), rnd.random() < 0.5
    run.connect(conn, door, noticed=noticed)
    history.append(("connect", conn, door, noticed))
