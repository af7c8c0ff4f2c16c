"""The order in which overlapping facts can have happened, and the mildest thing they can mean.

Replies of two connections often reach us in the reverse of the order in which Redis ran them, so facts are never
taken in the order of arrival. Legal orders keep three things: what ended before another began came before it
(`a.closed < b.opened`); one connection's requests run in their order, and so do those of one EXEC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from emqproxy.locks.events import AnyLockFact, Instant
from emqproxy.locks.verdicts import Finding
from emqproxy.locks.worlds import Step, World, steps

FACTS_MAX: Final = 6
"""720 orders at the most; past it nothing is claimed."""
WORLDS_MAX: Final = 24
"""Past it what is known is nothing."""
NEVER: Final = 2**63
"""Later than any instant."""
POSSIBLE: Final = Finding.STRAGGLER
"""A graver finding cannot be if everybody keeps to the scripts."""


class Heard(NamedTuple):
    """A fact, and when its request was sent at the earliest."""

    fact: AnyLockFact
    sent: Instant


class Meaning(NamedTuple):
    """What a group of facts means."""

    findings: tuple[Finding, ...]
    """One a fact, in the order given: the mildest that any of the best orders has for it. Where every order accuses
    some fact, but no fact is accused in every order, those of the order chosen."""
    order: tuple[int, ...]
    """One of the best orders, as indices into the facts given."""
    before: tuple[World, ...]
    """In that order, the world each fact found, by the facts' own indices."""
    kindest: tuple[World, ...]
    """Of the worlds that each fact can have found in the best orders, the one with the youngest proof of its speaker's
    holding: lateness is measured in it."""
    ends: tuple[World, ...]
    """What can be true afterwards."""

    def taker(self, token: bytes) -> int | None:
        """Which fact took the lock from its holder, in the order chosen; None where that was before all of them."""
        for at in reversed(range(len(self.order))):
            i = self.order[at]
            after = self.before[self.order[at + 1]].holder if at + 1 < len(self.order) else None
            if self.before[i].holder == token and after != token:
                return i
        return None


def precedes(a: AnyLockFact, b: AnyLockFact) -> bool:
    """Whether a certainly happened before b."""
    if a.window.closed < b.window.opened:
        return True
    return a.place.conn == b.place.conn and a.place[1:] < b.place[1:]


def clusters(heard: Sequence[Heard]) -> list[list[Heard]]:
    """Facts whose Windows overlap, directly or through others; the groups in the order in which they happened."""
    groups: list[list[Heard]] = []
    closed = -1
    for each in sorted(heard, key=lambda h: (h.fact.window, h.fact.place)):
        if groups and each.fact.window.opened <= closed:
            groups[-1].append(each)
        else:
            groups.append([each])
        closed = max(closed, each.fact.window.closed)
    return groups


def weigh(worlds: Iterable[World], heard: Sequence[Heard]) -> Meaning:
    """The mildest meaning of a group over all legal orders and all that can have been true before it."""
    if len(heard) == 1:
        return _alone(worlds, heard[0])
    best: Finding | None = None
    found: list[_Path] = []
    every: dict[World, None] = {}
    possible: dict[World, None] = {}
    for path in _paths(worlds, heard, possible):
        every[path.world] = None
        if path.worst >= POSSIBLE:
            possible[path.world] = None
        if best is None or path.worst > best:
            best, found = path.worst, [path]
        elif path.worst is best:
            found.append(path)
    findings = tuple(max(path.findings[i] for path in found) for i in range(len(heard)))
    ends = tuple(possible or every)
    chosen = max(found, key=lambda path: (sum(path.findings), path.findings))
    if best is not None and best < POSSIBLE and min(findings) > best:
        findings = chosen.findings  # of two grants at once one is the second: it is told, of the one that came last
    kindest = tuple(
        max((path.before[i] for path in found), key=lambda world: _youth(world, heard[i].fact.token))
        for i in range(len(heard))
    )
    return Meaning(findings, chosen.order, chosen.before, kindest, ends if len(ends) <= WORLDS_MAX else (World(),))


def _youth(world: World, token: bytes) -> Instant:
    """How young the proof of a token's holding is; one that left on its own is the kindest of all."""
    last = world.last_of(token)
    if last is None:
        return -1
    return NEVER if last.left else last.proved.closed


def _alone(worlds: Iterable[World], heard: Heard) -> Meaning:
    """A fact with nothing beside it: nearly every one."""
    walked = [(step, world) for world in worlds for step in steps(world, heard.fact, heard.sent)]
    if len(walked) == 1:
        ((step, before),) = walked
        return Meaning((step.finding,), (0,), (before,), (before,), (step.world,))
    chosen, before = max(walked, key=lambda pair: (pair[0].finding, _youth(pair[1], heard.fact.token)))
    possible = {step.world: None for step, _ in walked if step.finding >= POSSIBLE}
    ends = tuple(possible or {step.world: None for step, _ in walked})
    return Meaning((chosen.finding,), (0,), (before,), (before,), ends if len(ends) <= WORLDS_MAX else (World(),))


class _Path(NamedTuple):
    """One legal order, walked through."""

    world: World
    worst: Finding
    findings: tuple[Finding, ...]
    order: tuple[int, ...]
    before: tuple[World, ...]


def _paths(worlds: Iterable[World], heard: Sequence[Heard], possible: Collection[World]) -> Iterator[_Path]:
    """All legal orders; once some ends are `possible`, no more that lead to others: they would change nothing."""
    count = len(heard)
    earlier = [{j for j in range(count) if j != i and precedes(heard[j].fact, heard[i].fact)} for i in range(count)]

    def walk(world: World, order: tuple[int, ...], path: tuple[tuple[Step, World], ...]) -> Iterator[_Path]:
        if len(order) == count:
            at = dict(zip(order, path, strict=True))
            findings = tuple(at[i][0].finding for i in range(count))
            yield _Path(world, min(findings), findings, order, tuple(at[i][1] for i in range(count)))
            return
        done = set(order)
        for i in range(count):
            if i not in done and earlier[i] <= done:
                for step in steps(world, *heard[i]):
                    if possible and step.finding < POSSIBLE:
                        continue
                    yield from walk(step.world, (*order, i), (*path, (step, world)))

    for world in worlds:
        yield from walk(world, (), ())
