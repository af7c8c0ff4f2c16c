"""What is true of the locks of one world, from whoever did it: who held what, what ended it, and so why a call failed.

It knows nothing of rules or journals. It is told what Redis executed, when locks ran out, and what was done on purpose;
of a refused call it says the true cause in CONTRACT's words, and whether the wire can know it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MS: Final = 1_000_000
RACE_MS: Final = 1000.0
TIMELY: Final = frozenset({"renew_config", "renew_stopped", "unrenewed"})
"""Plights of a worker that talks on: what became of the job afterwards is the better answer."""
SURPASSED: Final = frozenset({"expired_worker_silent", "link_loss"})
"""Likewise, where the answer says that another holds it."""
KIN: Final[dict[str, frozenset[str]]] = {
    # What nobody who only sees the wire can tell apart, and the word that covers it.
    "evicted": frozenset({"lock_vanished_early"}),
    "evicted_and_counted": frozenset({"eviction_suspected"}),
    "deleted_past_us": frozenset({"lock_vanished_early"}),
    "lost_by_redis": frozenset({"lock_vanished_early"}),
    "unrenewed": frozenset({"expired_unswept"}),
}


class Expected(NamedTuple):
    """A line that needs a cause."""

    cause: str
    """The true one."""
    decidable: bool = True
    age_ms: float | None = None
    ttl_ms: float | None = None
    silence_ms: float | None = None
    held: tuple[str, ...] | None = None
    """What the worker believed to hold then, last started first."""

    @property
    def right(self) -> frozenset[str]:
        """What may be said."""
        return KIN.get(self.cause, frozenset({self.cause}))


class Ending(NamedTuple):
    """A holding is over."""

    at: int
    cause: str
    """A cause; or `expired`, and then why is the worker's plight."""
    op: str = ""
    heard: bool = True
    """Of its own end: the worker was told."""


class Truth:
    """Of one queue."""

    def __init__(self) -> None:
        self.granted: dict[tuple[str, str], int] = {}
        """(job, token): when last."""
        self.unseen: set[tuple[str, str]] = set()
        """Granted before anybody watched."""
        self.ended: dict[tuple[str, str], Ending] = {}
        self.gone: dict[str, str] = {}
        """By job: why there is no job."""
        self.taken: dict[str, list[tuple[int, str]]] = {}
        self.swept: dict[str, int] = {}
        self.plight: dict[tuple[str, str], str] = {}
        """(job, token): why it was not renewed in time, where it ran out."""
        self.late_answers: set[tuple[str, str]] = set()

    # ---------------------------------------------------------------- what happened

    def grant(self, job: str, token: str, at: int) -> None:
        self.granted[job, token] = at
        self.taken.setdefault(job, []).append((at, token))
        self.ended.pop((job, token), None)
        self.swept.pop(job, None)
        self.gone.pop(job, None)

    def end(self, job: str, token: str, ending: Ending) -> None:
        """The first end of a holding is why it is over."""
        self.ended.setdefault((job, token), ending)

    def remove(self, job: str, holder: str | None, cause: str, at: int) -> None:
        """The job is no more; whoever held it holds nothing."""
        self.gone.setdefault(job, cause)
        if holder is not None:
            self.end(job, holder, Ending(at, cause))

    # ---------------------------------------------------------------- why

    def why(self, job: str, token: str, op: str, code: int, at: int, ttl_ms: float) -> tuple[str, bool]:
        """The true cause of a refusal, and whether the wire can know."""
        key = (job, token)
        if code in {-4, -9}:
            return "pending_children", True
        if not token:
            return "never_owner", True
        if key not in self.granted:
            return self._stranger(job, token)
        end = self.ended.get(key)
        if end is not None and end.op:
            return self._own(end, op, at, ttl_ms)
        if code == -1 and job in self.gone:
            return self.gone[job], True
        if end is None:
            return "lost_by_redis", False
        if end.cause == "job_vanished" and op == "renew":
            return "lost_by_redis", True  # a renewal does not ask for the job
        if end.cause != "expired":
            return end.cause, True
        return self._expired(job, token, code)

    def _stranger(self, job: str, token: str) -> tuple[str, bool]:
        if (job, token) in self.unseen:
            return "before_our_start", True
        worker = token.partition(":")[0]
        if any(j == job and t != token and t.partition(":")[0] == worker for j, t in self.granted):
            return "stale_suffix", True
        return "never_owner", True

    def _own(self, end: Ending, op: str, at: int, ttl_ms: float) -> tuple[str, bool]:
        if not end.heard:
            return "maybe_applied_twice", True
        ms = (at - end.at) / MS
        if op == "renew" and ms <= max(ttl_ms / 2, RACE_MS):
            return "benign_renew_race", True
        return "already_moved_by_same_owner", True

    def _expired(self, job: str, token: str, code: int) -> tuple[str, bool]:
        plight = self.plight.get((job, token), "unrenewed")
        if plight in TIMELY or (code == -6 and plight in SURPASSED):
            since = self.granted[job, token]
            if any(when > since and other != token for when, other in self.taken.get(job, ())):
                return "retaken", True
            if job in self.swept and self.swept[job] > since:
                return "recovered_not_retaken", True
        return plight, plight != "unrenewed"
