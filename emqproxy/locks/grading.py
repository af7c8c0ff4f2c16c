"""The figures of a fact as they stood when its request was sent, its grade, and how a holding ended. Pure functions."""

from __future__ import annotations

from typing import NamedTuple

from emqproxy.locks.events import Absent, Granted, HeldByOther, Instant, LockFact, NotMine, Released, Renewed
from emqproxy.locks.lease import JUDGED_AT_CLOSED, MS, Lease, LeaseState, Speaker
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade


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
        share_ms = before.ttl_ms
        if age_ms >= self.critical * share_ms:
            return Grade.CRITICAL
        return Grade.LATE if age_ms >= self.late * share_ms else Grade.ON_TIME


def state_for(lease: Lease, fact: LockFact, speaker: Speaker, sent: Instant) -> LeaseState:
    """The state a fact is judged against: a success at `opened`, a refusal at `closed`, the end kinder to the accused.

    A refusal of what its holder sent before the lock was certainly gone is in doubt: a slow script or a pause of ours
    stood before it.
    """
    if type(fact).__name__ not in JUDGED_AT_CLOSED:
        return lease.state(fact.window.opened)
    state = lease.state(fact.window.closed)
    if state is LeaseState.LAPSED and speaker is Speaker.HOLDER and lease.state(sent) is not LeaseState.LAPSED:
        return LeaseState.IN_DOUBT
    return state


def end_by(fact: LockFact, lease: Lease, speaker: Speaker) -> End:
    """How the holder's attempt ended, by what proved that it had."""
    if isinstance(fact, Released):
        return End.RELEASED if speaker is Speaker.HOLDER else End.SUPERSEDED
    if isinstance(fact, HeldByOther):
        return End.SUPERSEDED
    if isinstance(fact, Absent) and fact.swept:
        return End.REAPED
    return End.LAPSED if fact.window.closed >= lease.alive_until else End.WIPED


def modest(finding: Finding) -> Finding:
    """What the ledger says until every legal order is weighed: it accuses nobody but a straggler."""
    return Finding.DOUBTFUL if finding < Finding.STRAGGLER else finding
