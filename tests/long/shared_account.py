"""What a shared queue's run has to answer for: each job ended once as the protocol counts it, and every exception is
explained by a worker that was killed. Pure: the journal's lines and what Redis holds go in, complaints come out.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Line = dict[str, Any]
MILD = {None, "sound", "unwitnessed", "doubtful"}
"""Findings that suspect nobody."""


@dataclass(frozen=True)
class Planned:
    """What a job was added to do."""

    id: str
    fails: int
    """How many attempts raise, from the first on."""
    attempts: int

    @property
    def ends(self) -> str:
        return "completed" if self.fails < self.attempts else "failed"

    @property
    def made(self) -> int:
        """Attempts that end, as the protocol counts them: a stall is none."""
        return min(self.fails + 1, self.attempts)


@dataclass
class Outcome:
    """What is to be held against the plan."""

    completed: set[str]
    failed: set[str]
    left: dict[str, int]
    """How many jobs stand in each place where none should, and locks."""
    hashes: dict[str, dict[str, int]]
    """By job: `atm`, `ats` and `stc`."""
    journal: list[Line]
    begun: Counter[str]
    """How often a worker of any kind said that it began this job."""
    killed: set[str]
    """Who was killed, as `speaker` has it."""
    errors: dict[str, list[str]] = field(default_factory=dict)
    """By worker: what the living ones said was wrong."""


def speaker(line: Line) -> str:
    """One worker's name for all its lines: of bullmq's the part of its tokens that stays, of ours its client's name."""
    name = line.get("client_name") or ""
    return name if name.startswith("reference") else str(line.get("token") or "").rpartition(":")[0]


def complaints(plan: Sequence[Planned], outcome: Outcome) -> list[str]:
    """Everything that is not as it should be, in words."""
    return list(_complaints(plan, outcome))


def _complaints(plan: Sequence[Planned], outcome: Outcome) -> Iterator[str]:
    yield from _errors(outcome)
    by_job: defaultdict[str, list[Line]] = defaultdict(list)
    for line in sorted(outcome.journal, key=lambda line: int(line["seq"])):
        if line.get("job") is not None:
            by_job[line["job"]].append(line)
        if line.get("finding") not in MILD:
            yield f"a finding above doubtful: {told(line)}"
        if line.get("rule") is not None:
            yield f"charged with {line['rule']}: {told(line)}"
    yield from _lost_lines(outcome.journal)
    ended = {"completed": outcome.completed, "failed": outcome.failed}
    for target, ids in ended.items():
        if strangers := ids - {job.id for job in plan if job.ends == target}:
            yield f"{len(strangers)} jobs are {target} and should not be, as {sorted(strangers)[:5]}"
    yield from (f"{count} left in {place}" for place, count in outcome.left.items() if count)
    for job in plan:
        if job.id not in ended[job.ends]:
            yield f"{job.id} is not {job.ends}"
        for complaint in _of_one(job, by_job[job.id], outcome):
            yield f"{job.id}: {complaint}: " + "; ".join(told(line) for line in by_job[job.id])


def _of_one(job: Planned, lines: Sequence[Line], outcome: Outcome) -> Iterator[str]:
    counts, begun = outcome.hashes.get(job.id, {}), outcome.begun[job.id]
    if counts.get("atm") != job.made:
        yield f"{counts.get('atm')} attempts were counted, not {job.made}"
    finishes = [line for line in lines if line["op"] == "finish"]
    accepted = [line for line in finishes if line["outcome"] == "ok"]
    unheard = [line for line in finishes if line["outcome"] == "unknown" and speaker(line) in outcome.killed]
    if [line["target"] for line in accepted or unheard] != [job.ends]:
        yield f"it was finished {[(line['target'], line['outcome']) for line in finishes]}"
    for line in lines:
        if line["outcome"] == "refused" and line["op"] != "renew":
            yield f"refused: {told(line)}"
    reaped = _of("reap", lines)
    for line in reaped:
        # Lines stand in the order in which answers were read: who takes it next may stand before the sweep.
        owner = [other for other in _of("acquire", lines) if int(other["closed_ns"]) <= int(line["opened_ns"])][-1:]
        if not owner or speaker(owner[0]) not in outcome.killed:
            yield "it stalled though its worker was not killed"
    taken = len(_of("acquire", lines))
    if not job.made <= taken <= job.made + len(reaped):
        yield f"it was taken {taken} times for {job.made} attempts and {len(reaped)} stalls"
    if not job.made <= begun <= job.made + len(reaped):
        yield f"it was begun {begun} times for {job.made} attempts and {len(reaped)} stalls"
    if counts.get("stc", 0) != len(reaped):
        yield f"it stalled {counts.get('stc', 0)} times, and {len(reaped)} times as the journal has it"


def _of(op: str, lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if line["op"] == op and line["outcome"] in ("ok", "unknown")]


def _errors(outcome: Outcome) -> Iterator[str]:
    """PyPI's worker lets go of a job only after the answer to its finish: a renewal sent meanwhile is refused, and it
    says so of a job that it has just finished.
    """
    raced = {line["job"] for line in outcome.journal if (line["op"], line["outcome"]) == ("renew", "refused")}
    for worker, errors in outcome.errors.items():
        for error in errors:
            if not (worker.startswith("python") and error.rpartition("could not renew lock for job ")[2] in raced):
                yield f"{worker} said: {error}"


def _lost_lines(journal: Sequence[Line]) -> Iterator[str]:
    numbers = sorted(int(line["seq"]) for line in journal)
    gaps = [(a, b) for a, b in itertools.pairwise(numbers) if b != a + 1]
    if gaps:
        yield f"the journal lost lines between {gaps[:3]}"


def told(line: Line) -> str:
    """A line in short."""
    names = ("seq", "time", "op", "outcome", "target", "code_name", "effect", "finding", "cause")
    words = [line[name] for name in names if line.get(name) is not None]
    return " ".join(map(str, [*words, line.get("job"), speaker(line), f"conn {line.get('conn')}"]))


def summary(plan: Sequence[Planned], outcome: Outcome) -> str:
    """The run in figures."""
    ops = Counter(f"{line['op']} {line['outcome']}" for line in outcome.journal if line.get("job") is not None)
    findings = Counter(str(line.get("finding")) for line in outcome.journal if line.get("job") is not None)
    more = sum(outcome.begun.values()) - sum(job.made for job in plan)
    retried = sum(job.made - 1 for job in plan)
    stalls = sum(counts.get("stc", 0) for counts in outcome.hashes.values())
    causes = Counter(str(line.get("cause")) for line in outcome.journal if line["outcome"] == "refused")
    ended = f"{len(outcome.completed)} completed, {len(outcome.failed)} failed for good, {retried} retries"
    lines = [
        f"{len(plan)} jobs: {ended}; {len(outcome.killed)} workers killed, {stalls} stalls, begun once more: {more}",
        "journal: " + ", ".join(f"{count} {op}" for op, count in sorted(ops.items())),
        "findings: " + ", ".join(f"{count} {finding}" for finding, count in sorted(findings.items())),
        "refused: " + ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items())),
    ]
    return "\n".join(lines)
