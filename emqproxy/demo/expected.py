"""What the story must have seen to be true: for each job the steps, in their order, and the fields of their lines.

A step is seen when a line of its job has its fields, the steps before it were seen, and the token is whose it should
be. Where a job is picked up again although the story is not there yet (the machine stood still and its lock was lost
on the way), its steps begin anew with that pickup: a slow machine tells more, and then the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from emqproxy.demo.plan import HEALTHY, JOBS, KILLED, ROBBED, SLOW, STUCK

Line: TypeAlias = Mapping[str, Any]
"""One line of the journal (CONTRACT, "Journal")."""

SAME_TIME_NS: Final = 50_000_000
"""A sweep sent no later than this after the deadline may be told in the lapse's stead: what comes first is told."""


class Step(NamedTuple):
    """One thing that must be seen of a job."""

    name: str
    words: str
    fields: Mapping[str, object]
    """What the line says; a tuple is one of several."""
    after: str = ""
    """The step that comes before it; empty for the pickup, with which a job begins."""
    whose: str = ""
    """Whose token it is: that which the step of this name has; empty for anybody's, or nobody's."""
    other_than: str = ""
    """Whose token it must not be."""


class Seen(NamedTuple):
    """A step of the story that a line has just shown."""

    job: str
    step: str


PICKUP: Final = "pickup"
RENEWAL: Final = "renewal"
DELETION: Final = "deletion"
REFUSAL: Final = "refusal"
LAPSE: Final = "lapse"
SWEEP: Final = "sweep"
TAKEOVER: Final = "takeover"
FINISH: Final = "finish"

_GRANTED: Final = {"op": "acquire", "outcome": "ok", "effect": "granted", "finding": "sound"}
_RENEWED: Final = {"op": "renew", "outcome": "ok", "effect": "renewed", "finding": "sound"}
_COMPLETED: Final = {"op": "finish", "outcome": "ok", "target": "completed", "effect": "released", "finding": "sound"}
_SWEPT: Final = {"op": "reap", "outcome": "ok", "target": "wait", "effect": "absent", "finding": "sound"}
_LAPSED: Final = {"op": "lapse", "outcome": "told", "finding": "sound"}
_DELETED: Final = {"op": "raw", "outcome": "ok", "effect": "deleted"}
_RENEWAL_REFUSED: Final = {"op": "renew", "outcome": "refused", "code_name": "RenewRefused"}
_FINISH_REFUSED: Final = {
    "op": "finish", "outcome": "refused", "code": -6, "code_name": "JobLockMismatch", "finding": "straggler",
}  # fmt: skip

_TAKEN: Final = Step(PICKUP, "the pickup", _GRANTED)
_RENEWED_IN_TIME: Final = Step(
    RENEWAL, "a renewal in time", {**_RENEWED, "grade": "on_time"}, after=PICKUP, whose=PICKUP
)


def _taken_over(after: str) -> tuple[Step, Step]:
    # Redis tells the sweeper and wakes the next worker at once: either may be heard of first.
    return (
        Step(SWEEP, "the sweep that puts it back", _SWEPT, after=after),
        Step(TAKEOVER, "the pickup by another token", _GRANTED, after=after, other_than=PICKUP),
    )


STEPS: Final[Mapping[str, tuple[Step, ...]]] = {
    HEALTHY: (
        _TAKEN,
        _RENEWED_IN_TIME,
        Step(FINISH, "the finish", _COMPLETED, after=RENEWAL, whose=PICKUP),
    ),
    SLOW: (
        _TAKEN,
        Step(RENEWAL, "a late renewal", {**_RENEWED, "grade": ("late", "critical")}, after=PICKUP, whose=PICKUP),
        Step(FINISH, "the finish", _COMPLETED, after=RENEWAL, whose=PICKUP),
    ),
    ROBBED: (
        _TAKEN,
        _RENEWED_IN_TIME,
        Step(DELETION, "the deletion of its lock by hand", _DELETED, after=RENEWAL),
        Step(REFUSAL, "the refusal of the next renewal", _RENEWAL_REFUSED, after=DELETION, whose=PICKUP),
        *_taken_over(DELETION),
        Step(FINISH, "the finish by the other", _COMPLETED, after=TAKEOVER, whose=TAKEOVER),
    ),
    STUCK: (
        _TAKEN,
        _RENEWED_IN_TIME,
        Step(LAPSE, "the lapse of its lock", _LAPSED, after=RENEWAL, whose=PICKUP),
        *_taken_over(LAPSE),
        Step(REFUSAL, "the refusal of the late finish with -6", _FINISH_REFUSED, after=TAKEOVER, whose=PICKUP),
        Step(FINISH, "the finish by the other", _COMPLETED, after=REFUSAL, whose=TAKEOVER),
    ),
    KILLED: (
        _TAKEN,
        _RENEWED_IN_TIME,
        Step(LAPSE, "the lapse of its lock", _LAPSED, after=RENEWAL, whose=PICKUP),
        *_taken_over(LAPSE),
        Step(FINISH, "the finish by the other", _COMPLETED, after=TAKEOVER, whose=TAKEOVER),
    ),
}
"""By job. A job's story is whole when all of its steps were seen."""


class Progress:
    """How far one job's story was seen. Give it the lines of its job in the order of the journal."""

    def __init__(self, job: str) -> None:
        self.job = job
        self._tokens: dict[str, object] = {}
        """By the steps that were seen, the tokens of their lines."""
        self._held: tuple[int, int] | None = None
        """The last proof that the first holder held it: when it was read, ns, and the time to live, ms."""

    def see(self, line: Line) -> list[Seen]:
        """The steps that this line shows."""
        new = [step.name for step in STEPS[self.job] if self._shows(line, step)]
        if PICKUP not in new and TAKEOVER not in new and _fits(line, _GRANTED) and self.missing():
            new = self._picked_up_out_of_turn(line.get("token"))
        if line.get("effect") in ("granted", "renewed") and line.get("token") == self._tokens.get(PICKUP):
            self._held = int(line["closed_ns"]), int(line["ttl_ms"])
        return [Seen(self.job, name) for name in new]

    def missing(self) -> list[str]:
        """The steps that were not seen, in words."""
        return [step.words for step in STEPS[self.job] if step.name not in self._tokens]

    def _shows(self, line: Line, step: Step) -> bool:
        token = line.get("token")
        if step.name in self._tokens or (step.after and step.after not in self._tokens):
            return False
        if step.name == LAPSE and self._swept_at_the_deadline(line):
            token = self._tokens[PICKUP]
        elif not _fits(line, step.fields) or (step.other_than and token == self._tokens[step.other_than]):
            return False
        if step.whose and token != self._tokens[step.whose]:
            return False
        self._tokens[step.name] = token
        return True

    def _picked_up_out_of_turn(self, token: object) -> list[str]:
        if TAKEOVER in self._tokens:  # the second holder lost it, too: the third one is as good
            self._tokens[TAKEOVER] = token
            return []
        self._tokens.clear()
        self._tokens[PICKUP] = token
        return [PICKUP]

    def _swept_at_the_deadline(self, line: Line) -> bool:
        """A sweep that found no lock just when it ended: that it lapsed is told by this line, and by no other."""
        if self._held is None or not _fits(line, _SWEPT):
            return False
        closed_ns, ttl_ms = self._held
        return int(line["opened_ns"]) <= closed_ns + ttl_ms * 1_000_000 + SAME_TIME_NS


class Story:
    """All jobs' progress."""

    def __init__(self) -> None:
        self._jobs = {job: Progress(job) for job in JOBS}
        self._ids = {job: job for job in JOBS}

    def begin(self, job: str, job_id: str) -> None:
        """From here on a job is played under this id, from its beginning."""
        self._jobs[job], self._ids[job] = Progress(job), job_id

    def ids(self) -> Mapping[str, str]:
        """By job, the id under which it was played last."""
        return self._ids

    def see(self, line: Line) -> list[Seen]:
        """The steps that this line of the journal shows; any job's, or none's."""
        played = [job for job, job_id in self._ids.items() if job_id == line.get("job")]
        return [seen for job in played for seen in self._jobs[job].see(line)]

    def is_whole(self, job: str) -> bool:
        """Whether every step of the job was seen."""
        return not self._jobs[job].missing()

    def missing(self) -> list[str]:
        """What was not seen, in words."""
        return [f"{job}: {words}" for job, progress in self._jobs.items() for words in progress.missing()]


def _fits(line: Line, fields: Mapping[str, object]) -> bool:
    return all(
        line.get(name) in wanted if isinstance(wanted, tuple) else line.get(name) == wanted
        for name, wanted in fields.items()
    )
