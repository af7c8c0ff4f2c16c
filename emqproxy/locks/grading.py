"""What is found of a fact, a renewal's grade, and how a holding ended. Pure functions over one lease's account."""

from __future__ import annotations

from typing import Final, NamedTuple

from emqproxy.locks.events import Absent, Granted, HeldByOther, Instant, LockFact, NotMine, Released, Renewed
from emqproxy.locks.lease import MS, TRANSITIONS, Cell, Lease, LeaseState, Move, Speaker
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade

REFUSALS: Final = (Absent, HeldByOther, NotMine)
"""What proves that the speaker does not hold the lock."""


class Grading(NamedTuple):
    """The thresholds, as shares of the lock's time to live."""

    late: float
    critical: float

    def figures(
        self, before: Attempt | None, fact: LockFact, sent: Instant
    ) -> tuple[float | None, float | None, Grade | None]:
        """Age and remaining time to live in ms, and a renewal's grade; `before` is the speaker's own attempt."""
        grades = isinstance(fact, Renewed) or (isinstance(fact, NotMine) and fact.renewal)
        if before is None or isinstance(fact, Granted) or before.end is End.RELEASED:
            return None, None, Grade.UNKNOWN if grades else None
        age_ms = max(0.0, (sent - before.proved.closed) / MS)
        grade = self._grade(before, fact, age_ms, sent) if grades else None
        return age_ms, before.ttl_ms - age_ms, grade

    def _grade(self, before: Attempt, fact: LockFact, age_ms: float, sent: Instant) -> Grade:
        if isinstance(fact, NotMine):
            return Grade.TOO_LATE if sent >= before.proved.opened + before.ttl_ms * MS else Grade.UNKNOWN
        if before.end is not None:
            return Grade.UNKNOWN
        if age_ms >= self.critical * before.ttl_ms:
            return Grade.CRITICAL
        return Grade.LATE if age_ms >= self.late * before.ttl_ms else Grade.ON_TIME


def find(
    lease: Lease, before: Attempt | None, fact: LockFact, speaker: Speaker, sent: Instant, *, leaving: bool
) -> Cell:
    """What is found, and what becomes of the lease: the table's word, made milder where an order inside the Windows
    explains what was seen, and where it would accuse anybody but a straggler.

    `before` is the speaker's own attempt; `leaving`: a release of its own is out that may have run before.
    """
    finding, move = TRANSITIONS[type(fact).__name__, _state(lease, fact, speaker, sent), speaker]
    if move is not Move.KEEP and _overtaken(lease, fact, speaker):
        straggles = isinstance(fact, REFUSALS) and speaker is Speaker.LOSER and _lost_before(before, sent)
        return Finding.STRAGGLER if straggles else max(finding, Finding.DOUBTFUL), Move.KEEP
    if leaving and speaker is Speaker.HOLDER and isinstance(fact, REFUSALS):
        return Finding.DOUBTFUL, Move.KEEP
    if finding is Finding.STRAGGLER and (speaker is Speaker.HOLDER or _lost_before(before, sent)):
        return finding, move
    return max(finding, Finding.DOUBTFUL), move


def _state(lease: Lease, fact: LockFact, speaker: Speaker, sent: Instant) -> LeaseState:
    """The state a fact is judged against, at the end of its Window that is kinder to the accused.

    A success of the holder's is judged at the beginning, and so is a -6 that somebody else met, which says nothing
    against a holder who may have lived then. All else is judged at the end: a slow pickup is no second grant if the
    first may have lapsed meanwhile. A refusal of what its holder sent before the lock was certainly gone is in doubt:
    a slow script or a pause of ours stood before it.
    """
    opens = isinstance(fact, Renewed | Released) if speaker is Speaker.HOLDER else isinstance(fact, HeldByOther)
    if opens:
        return lease.state(fact.window.opened)
    state = lease.state(fact.window.closed)
    if state is LeaseState.LAPSED and speaker is Speaker.HOLDER and lease.state(sent) is not LeaseState.LAPSED:
        return LeaseState.IN_DOUBT
    return state


def _lost_before(before: Attempt | None, sent: Instant) -> bool:
    """Whether a holding that is over was certainly over when its holder spoke."""
    return before is not None and (before.lapsed or (before.ended is not None and sent >= before.ended.closed))


def _overtaken(lease: Lease, fact: LockFact, speaker: Speaker) -> bool:
    """Whether it may have happened before the present holding began, though its answer was read later.

    Who asks before a grant was read does not ask for that grant, be it the same token. Of one connection the order is
    known.
    """
    if lease.holder is None or isinstance(fact, Granted) or fact.place.conn == lease.conn:
        return False
    if speaker is Speaker.HOLDER and (lease.partial or isinstance(fact, Renewed)):
        return False
    return fact.window.opened < lease.started.closed


def end_by(fact: LockFact, lease: Lease, speaker: Speaker) -> End:
    """How the holder's attempt ended, by what proved that it had."""
    if isinstance(fact, Released):
        return End.RELEASED if speaker is Speaker.HOLDER else End.SUPERSEDED
    if isinstance(fact, HeldByOther):
        return End.SUPERSEDED
    if isinstance(fact, Absent) and fact.swept:
        return End.REAPED
    if fact.window.closed >= lease.proved.opened + lease.ttl_ms * MS:
        return End.LAPSED
    return End.RELEASED if lease.perhaps_released else End.WIPED
