"""One refused call, and what of its job's history bears on it: what the rules of `diagnosis` look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

from emqproxy.locks.events import Instant
from emqproxy.locks.evictions import Evictions, Memory
from emqproxy.locks.hands import Deed, perhaps_done, pushed, put_back_active, took_back, took_off_active
from emqproxy.locks.notes import MS, Gap, JobNotes, Note, Silence, WorkerNotes, between_ms

MOVES: Final = frozenset({"finish", "delay", "retry", "wait", "wait_children", "release"})
_MAY: Final = frozenset({"ok", "unknown"})
"""Outcomes of what was done, or may have been."""
PROOFS: Final = frozenset({"granted", "renewed"})


class Case:
    """A note, those before it, and its worker. Each property is found once, when a rule asks for it."""

    def __init__(
        self, note: Note, job: JobNotes, worker: WorkerNotes | None, began: int, evictions: Evictions | None = None
    ) -> None:
        """`began`: since when anything is seen at all (instant)."""
        self._evictions = evictions
        self.note, self.before, self.whole, self.worker, self.began = note, job.notes, job.whole, worker, began
        self.renewals = job.renewals.get(note.token, 0)
        """How many of the speaker's succeeded since its pickup."""
        self.lost = job.lost.get(note.token)
        """What was said last of this loss, if it is not the first time that it is met."""

    # ---------------------------------------------------------------- the speaker's own

    @cached_property
    def grant(self) -> Note | None:
        """The speaker's last pickup of the job, or the first proof that it held it."""
        mine = [n for n in self.before if n.token == self.note.token and n.effect in PROOFS]
        grants = [n for n in mine if n.effect == "granted"]
        return grants[-1] if grants else mine[0] if mine else None

    @cached_property
    def proof(self) -> Note | None:
        """The last time the speaker is known to have held the job."""
        return self._last(lambda n: n.token == self.note.token and n.effect in PROOFS)

    @cached_property
    def own_end(self) -> Note | None:
        """The speaker's own finish or move, accepted after its last pickup."""
        return self._after_grant(
            lambda n: n.token == self.note.token and n.op in MOVES and n.outcome == "ok" and n.effect == "released"
        )

    @cached_property
    def own_unheard(self) -> Note | None:
        """The speaker's finish or move whose answer never came."""
        return self._after_grant(lambda n: n.token == self.note.token and n.op in MOVES and n.outcome == "unknown")


    @cached_property
    def errors(self) -> list[Note]:
        """The speaker's renewals that Redis answered with an error since the last proof."""
        mine = (n for n in self._since(self.proof) if n.token == self.note.token)
        return [n for n in mine if n.op == "renew" and n.outcome == "error"]

    @property
    def ttl_ms(self) -> float:
        """The lock's time to live, as last set by the speaker."""
        return float(self.proof.ttl_ms or 0) if self.proof is not None else 0.0

    @property
    def age_ms(self) -> float:
        """From the last proof's answer to the note's sending."""
        return 0.0 if self.proof is None else between_ms(self.proof.closed, self.note.opened)

    @property
    def expired(self) -> bool:
        """The lock's time had certainly come when the answer was given."""
        return self.proof is not None and between_ms(self.proof.opened, self.note.closed) >= self.ttl_ms

    @cached_property
    def alive(self) -> Note | None:
        """The last sign that the job was there: what concerns a whole queue or database, and came before, is nothing to
        it."""
        return self._last(lambda n: n.outcome == "ok" and (n.op == "add" or n.effect in PROOFS))

    @cached_property
    def same_token(self) -> Note | None:
        """The pickup of the job over another connection, before the speaker's or since, with the very same token."""
        note, takers = self.note, [n for n in self.before if n.effect == "granted" and n.token == self.note.token]
        ours = any(n.conn == note.conn for n in takers)
        return next((n for n in reversed(takers) if n.conn != note.conn), None) if ours else None

    # ---------------------------------------------------------------- what others did

    @cached_property
    def taken(self) -> Note | None:
        """The pickup of the job by another token since the speaker's."""
        return self._after_grant(lambda n: n.effect == "granted" and n.token != self.note.token, since=self.grant)

    @cached_property
    def swept(self) -> Note | None:
        """A sweep that named the job since the last proof."""
        return self._after_grant(lambda n: n.op == "reap" and n.outcome == "ok")

    @cached_property
    def bypass(self) -> Note | None:
        """A move with the token "0" since the speaker's pickup."""
        return self._after_grant(lambda n: n.effect == "bypassed" and n.outcome == "ok")

    @cached_property
    def removal(self) -> Note | None:
        """A removal of the job, or a wipe of its queue or database, since the speaker's pickup."""
        known = self.grant or self.alive

        def removes(note: Note) -> bool:
            return note.outcome in _MAY and (note.op == "remove" or (known is not None and _empties(note)))

        return self._after_grant(removes, since=known)

    @cached_property
    def hand(self) -> Note | None:
        """A raw write on the lock's key since the last proof."""
        return self._after_grant(lambda n: n.op == "raw" and n.effect in {"deleted", "overwritten"}, since=self.proof)

    @cached_property
    def job_deleted(self) -> Note | None:
        """The job's own key was deleted by hand since the last sign of it."""
        known = self.grant or self.alive
        return self._after_grant(lambda n: perhaps_done(n) is Deed.HASH, since=known)

    @cached_property
    def pushed(self) -> Note | None:
        """The job's id was put where jobs wait, by hand, since the speaker's pickup and before another's."""
        until = None if self.taken is None else self.taken.closed
        last = self._after_grant(lambda n: (pushed(n) or took_back(n)) and (until is None or n.opened <= until))
        return last if last is not None and pushed(last) else None

    @cached_property
    def off_active(self) -> Note | None:
        """A hand took the job out of the active list, or changed that list as a whole, since the speaker's pickup."""
        last = self._after_grant(lambda n: took_off_active(n) or put_back_active(n))
        return last if last is not None and took_off_active(last) else None

    @cached_property
    def estranged(self) -> Note | None:
        """Redis was lost or another one answered since the last proof."""
        known = self.proof or self.alive
        return known and self._after_grant(lambda n: n.op == "conn" and n.conn is None, since=known)

    @property
    def evicted(self) -> tuple[Memory, Memory] | None:
        """What Redis said of its memory before the last proof, and last, where it has evicted keys between."""
        if self._evictions is None or self.proof is None:
            return None
        return self._evictions.since(self.proof.opened)

    @property
    def talked(self) -> bool:
        """The speaker's worker had said something not long before, and not only since a silence in which the lock ran
        out: what comes behind one, comes at once."""
        half_ms = self.ttl_ms / 2
        if self.note.idle_ms is None or self.note.idle_ms >= half_ms:
            return False
        gap = self._gap
        return gap is None or not gap.silent or between_ms(gap.begin, gap.end) < half_ms

    @property
    def seen_talking(self) -> bool:
        """It is known to have said something while the lock ran out, and not only now."""
        if self.worker is None or self.proof is None or not self.worker.gaps:
            return False
        gap = self._gap
        if gap is None:
            return self.worker.gaps[0].begin <= self._ran_out
        return between_ms(gap.begin, gap.end) < self.ttl_ms / 2

    @property
    def _ran_out(self) -> Instant:
        return 0 if self.proof is None else self.proof.closed + int(self.ttl_ms * MS)

    @cached_property
    def _gap(self) -> Gap | None:
        """The time without a word of the worker's in which the lock ran out; the longest, of several."""
        found = [] if self.worker is None else [g for g in self.worker.gaps if g.begin <= self._ran_out <= g.end]
        return max(found, key=lambda g: g.end - g.begin, default=None)

    @cached_property
    def hung_up(self) -> Instant | None:
        """When a connection of the speaker's worker closed since the last proof: one that it had to make anew, or that
        the proof came by, with the worker silent on all others."""
        if self.worker is None or self.proof is None:
            return None
        conns, begun, ended = self.worker.conns, self.proof.opened, self.note.closed
        closed = {n: c.closed for n, c in conns.items() if c.closed is not None and begun <= c.closed <= ended}
        if not closed:
            return None
        last = max(closed.values())
        here = None if self.note.conn is None else conns.get(self.note.conn)
        anew = here is not None and here.first >= last
        return last if anew or (self.proof.conn in closed and not self.talked) else None

    @cached_property
    def silence(self) -> Silence | None:
        """The silence of the speaker's worker in which the lock ran out: before this call, or an earlier one."""
        found = None if self.worker is None else self.worker.silence
        if found is None or self.proof is None or found.ms < self.ttl_ms - 1 - self.ttl_ms / 1000:
            return None
        ran_out = self.proof.closed + int(self.ttl_ms * MS)
        return found if found.begin <= ran_out <= found.end else None

    @property
    def over_ms(self) -> float:
        """How long the lock's time was over when the call came; negative before."""
        return 0.0 if self.proof is None else between_ms(self.proof.opened, self.note.opened) - self.ttl_ms

    @property
    def lay_with_us_ms(self) -> float:
        """How long this call, and the answer that the lock was counted from, may have lain unread with emqproxy."""
        if self.proof is None:
            return 0.0
        return self.note.lag_ms + min(self.proof.lag_ms, between_ms(self.proof.opened, self.proof.closed))

    @property
    def own_lag_ms(self) -> float:
        """How much of the time since the last proof's request emqproxy itself may have stood still in all."""
        if self.proof is None or self.note.age_ms is None:
            return self.lay_with_us_ms
        return max(self.lay_with_us_ms, self.age_ms - self.note.age_ms)

    @property
    def regular(self) -> bool:
        """The worker's renewals are known to come more often than the lock needs."""
        return self.worker is not None and (self.worker.rhythm_ms or self.ttl_ms) < self.ttl_ms

    def said_just_before(self, within_ms: float) -> int:
        """How many calls of the speaker's own about this job came just before: a result that was refused, and again."""
        mine = (n for n in self.before if n.token == self.note.token and n.outcome == "refused" and n.op in MOVES)
        return sum(0 <= between_ms(n.opened, self.note.opened) <= within_ms for n in mine)

    # ---------------------------------------------------------------- private

    def _last(self, fits: Callable[[Note], bool]) -> Note | None:
        return next((n for n in reversed(self.before) if fits(n)), None)

    def _since(self, note: Note | None) -> Iterator[Note]:
        """What can have happened after a note: all but what was certainly before it."""
        return (n for n in self.before if note is None or n.closed >= note.opened)

    def _after_grant(self, fits: Callable[[Note], bool], *, since: Note | None = None) -> Note | None:
        after = [n for n in self._since(since or self.grant) if n is not self.grant and fits(n)]
        return after[-1] if after else None


def _empties(note: Note) -> bool:
    return note.op == "wipe" and note.effect in {"wiped", "deleted"}
