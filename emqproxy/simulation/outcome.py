"""What came of a setting: values, and the stable shape of `emqproxy simulate --json`. All times are milliseconds from
the first pickup.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from emqproxy.simulation.settings import Setting

VERSION: Final = 1


class RenewalSeen(msgspec.Struct, frozen=True):
    """One renewal, and the ledger's word for it."""

    at_ms: int
    outcome: Literal["ok", "refused"]
    grade: str | None
    """`on_time`, `late`, `critical`; refused: `too_late`; `unknown` where nobody remembers the pickup any more."""
    finding: str | None
    age_ms: float | None
    remaining_ms: float | None


class AttemptSeen(msgspec.Struct, frozen=True):
    """One worker's time with the job."""

    worker: str
    taken_ms: int
    renewals: tuple[RenewalSeen, ...]
    lapsed_ms: int | None = None
    """When its lock ended for want of a renewal."""
    recovered_ms: int | None = None
    """When a sweep put the job back: from then on another worker may have it."""
    learned_ms: int | None = None
    """When its first refused renewal tells it; that may be after `until_ms`."""
    end: str | None = None
    """The ledger's word: `lapsed`, `reaped`, `released`; null while it holds the lock."""


class SweepSeen(msgspec.Struct, frozen=True):
    """One sweep."""

    at_ms: int
    job: Literal["nothing", "marked", "recovered", "over_limit"]
    """What it did with it; `over_limit`: put back, and to be failed by whoever takes it next."""


class Outcome(msgspec.Struct, frozen=True):
    """All of it."""

    v: int
    setting: Setting
    outcome: Literal["owned", "recovered", "failed"]
    """`owned` throughout; it lapsed, and a later worker keeps it; it stalled too often, and is failed for good."""
    owned: bool
    stalls: int
    failed_ms: int | None
    until_ms: int
    """When this was decided: from then on the job stays with its holder, or failed."""
    attempts: tuple[AttemptSeen, ...]
    sweeps: tuple[SweepSeen, ...]
