"""What the ledger says of a fact: its finding, a renewal's grade, and the figures as they stood.

Finding is an enum in order of precedence: where two fit, the smaller number stands.
"""

from __future__ import annotations

import enum

import msgspec

from emqproxy.locks.events import AnyFact, Instant, Lock, Queue, Window


class Suspect(enum.Enum):
    """Whom a finding points at."""

    BYPASSER = "bypasser"
    """The script, or someone who goes around it."""
    CLOCK = "clock"
    """A clock, or our model."""
    SPEAKER = "speaker"
    """The worker that made the call."""
    NOBODY = "nobody"

    __hash__ = object.__hash__  # looked up for every fact


class Finding(enum.IntEnum):
    """The ledger's word for a fact. Which of them are given yet is the ledger's matter; the order is final."""

    DOUBLE = 1
    """Granted to a second holder while the first certainly held."""
    FOREIGN = 2
    """A token held that was never granted."""
    REAPED_ALIVE = 3
    """A sweep found no lock where one certainly lived."""
    DISPUTED = 4
    """Redis and the account disagree on the holder."""
    ORPHAN = 5
    """A lock lives on that nobody holds."""
    RESURRECTED = 6
    """A success after the lock had certainly ended."""
    STRAGGLER = 7
    """The worker speaks after it lost the lock."""
    DOUBTFUL = 8
    """The account and the answer do not agree, and an honest explanation exists."""
    UNWITNESSED = 9
    """The speaker's ownership was never seen here."""
    SOUND = 10
    """As the account has it."""

    @property
    def suspects(self) -> Suspect:
        """Whom this finding points at."""
        if self <= Finding.ORPHAN:
            return Suspect.BYPASSER
        if self is Finding.RESURRECTED:
            return Suspect.CLOCK
        return Suspect.SPEAKER if self is Finding.STRAGGLER else Suspect.NOBODY

    @property
    def word(self) -> str:
        """As it stands in the journal and on spans."""
        return self.name.lower()


class Grade(enum.Enum):
    """How late a renewal was sent, as a share of the lock's time to live since the last proof of holding."""

    ON_TIME = "on_time"
    LATE = "late"
    CRITICAL = "critical"
    TOO_LATE = "too_late"
    """Refused, and sent past the certainly-alive bound."""
    UNKNOWN = "unknown"
    """No earlier proof to measure from, or refused although sent in time."""

    __hash__ = object.__hash__  # looked up for every renewal


class End(enum.Enum):
    """How an attempt ended: the law of conservation names these and no others."""

    RELEASED = "released"
    REAPED = "reaped"
    LAPSED = "lapsed"
    SUPERSEDED = "superseded"
    WIPED = "wiped"


class Attempt(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One incarnation of a lease: from a grant, or the first proof of holding that was seen, to its end or to now."""

    lock: Lock
    queue: Queue
    token: bytes
    number: int
    """How often this token took this job before, as seen here: part of the attempt's span id."""
    started: Window
    partial: bool
    """The grant was not seen: `started` is the first proof of holding."""
    conn: int
    """The connection that spoke for it last."""
    proved: Window
    """The last grant or successful renewal."""
    ttl_ms: int
    """The time to live in force."""
    renewals: int
    """Renewals that succeeded."""
    late: int
    """Of those, graded late or worse."""
    refused: int
    """Renewals that were refused."""
    lapsed: bool
    """Its deadline passed unrenewed and the lapse was told."""
    end: End | None = None
    ended: Window | None = None


class Verdict(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What the ledger says of one fact."""

    fact: AnyFact
    finding: Finding | None
    """None where there is nothing to judge (a fact of a queue or of a connection)."""
    scope: str | None = None
    """For a finding that suspects anybody but the speaker: `here` or `whole`."""
    grade: Grade | None = None
    """Of renewals only."""
    age_ms: float | None = None
    """From the last proof of holding to this request's sending, as it stood before this fact."""
    remaining_ms: float | None = None
    """Time to live less age, as it stood before this fact; negative past the deadline."""
    ttl_ms: int | None = None
    """The time to live in force after this fact."""
    attempt: Attempt | None = None
    """The attempt of the speaker's token that this fact belongs to, as it stands after it."""
    over: tuple[Attempt, ...] = ()
    """The attempts that this fact ended, the speaker's own among them."""
    at: Instant = 0
    """When it was said."""
