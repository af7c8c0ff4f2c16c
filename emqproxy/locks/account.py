"""The account of one lock: what can be true of it, the facts that are not settled, and the attempts as they are told.

Two layers. `ends` are the worlds that can be true now: they judge. The attempts are the story: an attempt ends when
no world has its token as the holder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from emqproxy.locks.events import (
    Granted,
    Instant,
    Lapsed,
    Lock,
    Nothing,
    NotMine,
    Perhaps,
    Place,
    Queue,
    Released,
    Renewed,
    Window,
)
from emqproxy.locks.grading import Grading, end_by, takes
from emqproxy.locks.orders import FACTS_MAX, WORLDS_MAX, Heard, Meaning, clusters, precedes, weigh
from emqproxy.locks.story import Story
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade, Suspect, Verdict
from emqproxy.locks.worlds import MS, World

RETENTION_NS_MIN: Final = 60_000 * MS
"""An account is kept for twice this, or twice its time to live, after it was last heard of."""
_HARMLESS = frozenset({None, Grade.ON_TIME, Grade.UNKNOWN})


class Pending(msgspec.Struct, eq=False, gc=False):
    """A fact that something still unanswered may explain."""

    heard: Heard
    waits: set[Place]
    """Requests that were out when it was observed, had been sent before it was closed, and may bear on its lock."""
    said: bool = False


class Account(msgspec.Struct, eq=False, gc=False):
    """One lock. Facts come in by `hear`; `review` says what can be said, in the order in which it happened."""

    lock: Lock
    queue: Queue
    story: Story
    settled: tuple[World, ...] = (World(),)
    """What can have been true before the pending facts."""
    ends: tuple[World, ...] = (World(),)
    """What can be true after them."""
    pending: list[Pending] = msgspec.field(default_factory=list)
    lapse_waits: set[Place] = msgspec.field(default_factory=set)
    """A lapse is due and waits for these."""
    speakers: frozenset[int] = frozenset()
    """Connections that spoke last for its open attempts."""
    unsure_until: Instant = 0
    """What was sent before may have run before or after facts that were given up."""
    heard_at: Instant = 0
    """When the last fact was closed."""
    mixed: bool = False
    """Facts overlapped since the last proof of holding that stood alone: they are taken in an order in which everybody
    kept to the scripts. Good enough to accuse nobody; not for a refusal."""

    # ---------------------------------------------------------------- getters

    @property
    def sure_holder(self) -> bytes | None:
        """The token that holds the lock in every world."""
        holder = self.ends[0].holder
        alone = len(self.ends) == 1  # nearly always
        return holder if alone or all(world.holder == holder for world in self.ends) else None

    @property
    def lapses_at(self) -> Instant | None:
        """When its lapse is to be told, if time brings nothing else; None where none is to be told."""
        holder = self.sure_holder
        telling = self.story.open.get(holder) if holder is not None else None
        if telling is None or telling.attempt.lapsed:
            return None
        return max(world.gone_after for world in self.ends)

    @property
    def forget_at(self) -> Instant:
        """When nobody will ask for it any more."""
        since, kept_ns = self.heard_at, RETENTION_NS_MIN
        for world in self.ends:
            since, kept_ns = max(since, world.gone_after), max(kept_ns, world.ttl_ms * MS)
        return since + 2 * kept_ns

    # ---------------------------------------------------------------- facts

    def hear(self, heard: Heard, waits: set[Place], grading: Grading, unsure_until: Instant = 0) -> list[Verdict]:
        """A fact; what can be said now, of it and of those before it.

        One that was sent before `unsure_until` may have run before or after something that was not seen.
        """
        self.heard_at = max(self.heard_at, heard.fact.window.closed)
        if heard.fact.window.opened < max(unsure_until, self.unsure_until):
            self.pending.append(Pending(heard, waits))
            return self.give_up(grading)
        if not self.pending and not waits:  # nearly every fact: nothing to weigh it against
            meaning = weigh(self.settled, (heard,))
            self.settled = self.ends = meaning.ends
            self.mixed = _is_mixed(((heard,),), before=self.mixed)
            return [self._say(0, (heard,), meaning, grading)]
        self.pending.append(Pending(heard, waits))
        return self.give_up(grading) if len(self.pending) > FACTS_MAX else self.review(grading)

    def answered(self, place: Place) -> bool:
        """A request is out no more. Whether a fact waits for nothing now: only that can change what is said."""
        free = False
        for pending in self.pending:
            if place in pending.waits:
                pending.waits.remove(place)
                free = free or not pending.waits
        return free

    def review(self, grading: Grading) -> list[Verdict]:
        """What can be said now; settles what nothing can change any more."""
        heard = tuple(p.heard for p in self.pending)
        meaning = weigh(self.settled, heard)
        self.ends = meaning.ends
        self.mixed = _is_mixed(clusters(heard), before=self.mixed)
        # What hangs together waits together: what explains one fact may explain another by it.
        out = {p.heard.fact.place for p in self.pending if p.waits}
        groups = ({h.fact.place for h in group} for group in clusters(heard)) if out else ()
        wait = {place for group in groups if group & out for place in group}
        verdicts = []
        for i in meaning.order:
            pending = self.pending[i]
            free = pending.heard.fact.place not in wait
            if not pending.said and (free or self._harmless(i, heard, meaning, grading)):
                pending.said = True
                verdicts.append(self._say(i, heard, meaning, grading))
        over = self._settle(heard, meaning)
        if over:  # how they ended has become clear, and no fact is left to say it with
            nothing = Nothing(Place(0, 0), Window(self.heard_at, self.heard_at), self.queue)
            verdicts.append(Verdict(nothing, None, over=tuple(over), at=self.heard_at))
        return verdicts

    def _harmless(self, index: int, group: Sequence[Heard], meaning: Meaning, grading: Grading) -> bool:
        """Nobody is suspected, and nobody called late: nothing unanswered can make it milder."""
        fact, sent = group[index]
        grade = grading.figures(meaning.kindest[index], fact, sent).grade
        return meaning.findings[index].suspects is Suspect.NOBODY and grade in _HARMLESS

    def _settle(self, heard: Sequence[Heard], meaning: Meaning) -> list[Attempt]:
        """Groups that wait for nothing are final, the first ones first; the attempts that they ended."""
        if not any(p.waits for p in self.pending):
            self.settled, self.pending = self.ends, []
            return self._close_unheld(meaning.order[-1], heard, meaning, certain=True)
        over: list[Attempt] = []
        for group in clusters([p.heard for p in self.pending]):
            members = {h.fact.place: h for h in group}
            if any(p.waits or not p.said for p in self.pending if p.heard.fact.place in members):
                break
            meaning = weigh(self.settled, group)
            self.settled = meaning.ends
            self.pending = [p for p in self.pending if p.heard.fact.place not in members]
            over += self._close_unheld(meaning.order[-1], group, meaning, certain=True)
        return over

    def give_up(self, grading: Grading) -> list[Verdict]:
        """Facts that cannot be weighed: nothing is claimed of any, and afterwards nothing is certain."""
        said = [p.heard.fact for p in self.pending if p.said]
        certain = not any(p.waits for p in self.pending)
        unsure_until, closed = self.unsure_until, (p.heard.fact.window.closed + 1 for p in self.pending)
        self.unsure_until = max([unsure_until, *closed])
        untold = sorted((p.heard for p in self.pending if not p.said), key=lambda h: (h.fact.window, h.fact.place))
        self.pending = []
        self.doubt([World()])
        verdicts = []
        for heard in untold:  # for the story's sake: who holds it may be known, though since when and until when is not
            meaning = weigh(self.ends, (heard,))
            last = heard.fact.window.opened >= unsure_until and all(precedes(fact, heard.fact) for fact in said)
            before = () if last else self.ends
            self.settled = self.ends = _at_most((World(), *_less_ended(before, heard), *meaning.ends))
            mild = meaning._replace(findings=(Finding.DOUBTFUL,), kindest=(World(),), ends=self.ends)
            taken = isinstance(heard.fact, Granted)  # whoever held it has lost it, whatever is still to be heard
            verdicts.append(self._say(0, (heard,), mild, grading, certain=certain or taken))
            said.append(heard.fact)
        return verdicts

    # ---------------------------------------------------------------- the story

    def _say(
        self, index: int, group: Sequence[Heard], meaning: Meaning, grading: Grading, *, certain: bool = True
    ) -> Verdict:
        fact, sent = group[index]
        figures = grading.figures(meaning.kindest[index], fact, sent)
        story = self.story
        over: list[Attempt] = []
        if isinstance(fact, Granted):
            if fact.token in story.open:
                over += story.close_all({fact.token: End.SUPERSEDED}, fact.window)
            story.begin(fact, partial=False)
        elif isinstance(fact, Renewed):
            held = any(world.holder == fact.token for world in self.ends) and not story.is_past(fact)
            if not story.renewed(fact, figures.grade) and held:
                story.begin(fact, partial=True)
        elif isinstance(fact, NotMine) and fact.renewal:
            story.refused(fact.token)
        elif isinstance(fact, Perhaps) and fact.ttl_ms is None:
            story.perhaps_left(fact.token)
        certain = certain and not any(p.waits for p in self.pending)
        over += self._close_unheld(index, group, meaning, certain=certain)
        holds = all(world.holder == fact.token for world in meaning.ends)
        return Verdict(
            fact,
            meaning.findings[index],
            grade=figures.grade,
            age_ms=figures.age_ms,
            remaining_ms=figures.remaining_ms,
            ttl_ms=meaning.ends[0].ttl_ms if holds else None,
            attempt=story.of(fact.token),
            over=tuple(over),
            at=self.heard_at,
        )

    def _close_unheld(self, index: int, group: Sequence[Heard], meaning: Meaning, *, certain: bool) -> list[Attempt]:
        """Attempts whose token holds the lock in no world any more. How one ended is `certain` once nothing is waited
        for: until then its own finish may be under way, and only that it was heard of can be told."""
        over: list[Attempt] = []
        held = {world.holder for world in (*meaning.ends, *self.ends)}
        for token in [t for t in self.story.open if t not in held]:
            taker = meaning.taker(token)
            at = index if taker is None else taker
            if taker is None and not takes(group[at].fact, token):
                continue  # who holds it is not known: that is no end
            end = end_by(group[at].fact, meaning.before[at], token)
            if certain or end is End.RELEASED:
                over += self.story.close_all({token: end}, group[at].fact.window)
        return over

    def wipe(self, window: Window) -> list[Attempt]:
        """Whatever was known is known no longer: the lock went away with its queue or database."""
        self.settled = self.ends = (World(),)
        self.lapse_waits.clear()
        return self.story.close_all(dict.fromkeys(self.story.open, End.WIPED), window)

    def end_all(self) -> list[Attempt]:
        """Nobody will ask for it any more: how each open attempt ended, at its kindest."""
        window = Window(self.heard_at, self.forget_at)
        gave_back = {past.token for world in self.ends for past in world.past if past.left}
        ends = {token: End.RELEASED if token in gave_back else End.LAPSED for token in self.story.open}
        return self.story.close_all(ends, window)

    def lapse(self, *, sure: bool) -> Verdict:
        """Its deadline has passed unrenewed; the attempt stays open until something proves that its holder lost."""
        world = max(self.ends, key=lambda w: w.gone_after)
        assert world.holder is not None
        attempt = self.story.lapse(world.holder)
        window = Window(min(w.alive_until for w in self.ends), world.gone_after)
        # As of the deadline: when it is looked at changes nothing.
        age_ms = (world.gone_after - world.proved.closed) / MS
        over = self.story.end_if_deserted(world.holder, window)
        return Verdict(
            Lapsed(Place(attempt.conn, 0), window, self.lock, self.queue, world.holder),
            Finding.SOUND if sure else Finding.DOUBTFUL,
            age_ms=age_ms,
            remaining_ms=world.ttl_ms - age_ms,
            ttl_ms=world.ttl_ms,
            attempt=attempt,
            over=() if over is None else (over,),
            at=world.gone_after,
        )

    def doubt(self, worlds: list[World]) -> None:
        """More can be true than was known. Facts that are not settled must have been given up before."""
        self.settled = self.ends = _at_most((*self.ends, *worlds))


def _is_mixed(groups: Iterable[Sequence[Heard]], *, before: bool) -> bool:
    """`Account.mixed` after groups of facts."""
    for group in groups:
        before = len(group) > 1 or (before and not isinstance(group[0].fact, (Granted, Renewed)))
    return before


def _at_most(worlds: tuple[World, ...]) -> tuple[World, ...]:
    """Each once; past so many, what is known is nothing."""
    each = tuple(dict.fromkeys(worlds))
    return each if len(each) <= WORLDS_MAX else (World(),)


def _less_ended(worlds: tuple[World, ...], heard: Heard) -> tuple[World, ...]:
    """Without those in which a token holds it that has just given it back."""
    gone = heard.fact.token if isinstance(heard.fact, Released) else None
    return tuple(world for world in worlds if gone is None or world.holder != gone)
