"""Why a lock operation failed: the cause rules, in order of precedence, over one job's history. Pure; no clock.

Each rule looks at a `Case` and gives a cause, one English sentence with its figures, and the numbers of the lines that
it rests on; the first that gives one stands. What the wire cannot decide is said to be unknown.

A `Doctor` keeps the histories of all jobs and workers, and says of each line whether it needs a cause, and which.

Source: TROUBLE, section 2; CONTRACT, "Causes" (the closed list).
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from emqproxy.locks import deeds, silences
from emqproxy.locks.case import MOVES, PROOFS, Case
from emqproxy.locks.causes import Diagnosis, ago, by, seqs
from emqproxy.locks.events import Instant
from emqproxy.locks.evictions import Evictions
from emqproxy.locks.hands import Deed, perhaps_done, pushed, took_back
from emqproxy.locks.notes import HEALTHY, JobNotes, Note, WorkerNotes, seconds

RULES: Final[tuple[Callable[[Case], Diagnosis | None], ...]] = (
    deeds.pending_children, deeds.error, deeds.applied_twice, deeds.own_end, deeds.never_owner,
    deeds.bypass, deeds.removed, deeds.deleted,
    silences.off_the_list, silences.met_again, silences.pause, silences.slow, deeds.held_by_taker,
    silences.silent, silences.link,
    deeds.double, deeds.retaken, deeds.recovered,
    silences.errors_before, silences.early, silences.never_in_time, silences.expired,
)  # fmt: skip
"""What the answer says itself; what the speaker did; what was done to the job; then time."""
WRITES: Final = (deeds.error, deeds.removed)
"""Of a write, which asks for no lock."""
HARMLESS: Final = frozenset({"JobLocked", "NotPaused", "HasActiveJobs"})
"""Refusals that are no lock's."""
CAUSELESS: Final = frozenset({"add", "conn", "blind", "raw"})
UNKNOWN: Final = Diagnosis("unknown", "Nothing that was seen here explains it.")
WORKERS_MAX: Final = 10_000
WIPES_MAX: Final = 64


def diagnose(case: Case) -> Diagnosis:
    """The first cause that fits; `unknown` where the wire does not decide."""
    rules = WRITES if case.note.op == "write" else RULES
    return next((found for rule in rules if (found := rule(case)) is not None), UNKNOWN)


class Doctor:
    """The histories of one run, as its lines are told; bounded."""

    def __init__(self, began: Instant, jobs_max: int) -> None:
        """`began`: since when anything is seen."""
        self._began, self._jobs_max = began, jobs_max
        self._jobs: OrderedDict[tuple[Hashable, str], JobNotes] = OrderedDict()
        self._workers: OrderedDict[Hashable, WorkerNotes] = OrderedDict()
        self._on_conn: dict[int, OrderedDict[Hashable, None]] = {}
        """By connection: the workers whose tokens were spoken on it."""
        self._wide: deque[Note] = deque(maxlen=WIPES_MAX)
        """What concerns many jobs: wipes, a Redis that was lost."""
        self._hands: deque[Note] = deque(maxlen=WIPES_MAX)
        """What was done by hand to a queue's whole list."""
        self._sweeps: OrderedDict[Hashable, dict[str, Note]] = OrderedDict()
        """By queue: the first sweep of each script that named nobody; of two at most."""
        self.evictions = Evictions()
        """What Redis says of its memory, for whoever is told it."""
        self._forgot = False
        """Some job was forgotten: of one that is new, not all may be known."""

    def conns_of(self, worker: Hashable) -> Iterable[int]:
        """The connections that a worker's tokens were spoken on."""
        notes = self._workers.get(worker)
        return () if notes is None else notes.conns

    def observe(self, note: Note) -> Diagnosis | None:
        """A line: its cause, where it needs one. It is kept."""
        if note.op == "conn":
            self._connection(note)
            return None
        if note.job is None:
            return self._of_no_job(note)
        key = (note.queue, note.job)
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = JobNotes(whole=not self._forgot)
            if len(self._jobs) > self._jobs_max:
                self._jobs.popitem(last=False)
                self._forgot = True
        else:
            self._jobs.move_to_end(key)
        worker = self._heard(note)
        renewed = note.effect == "renewed"
        healthy = renewed and note.grade in HEALTHY and note.op == "renew" and note.outcome == "ok"
        found = None if healthy else self._cause(note, job, worker)
        if note.effect in PROOFS:
            if job.lost:
                job.lost.pop(note.token, None)
        elif found is not None and note.outcome == "refused":
            job.lose(note.token, found)
        if renewed and worker is not None:
            worker.renewed(note, job)
        job.add(note)
        if not healthy:  # whom it is healthy of held the job before
            self._follow(note, job, worker)
        return found

    def _of_no_job(self, note: Note) -> Diagnosis | None:
        if note.op == "wipe" and note.outcome in {"ok", "unknown"}:
            self._wide.append(note)
        elif perhaps_done(note) is Deed.LIST:
            self._hands.append(note)
        if note.op == "sweep" and note.outcome == "ok":
            return self._of_two_releases(note)
        failed = note.outcome == "error" and note.op not in CAUSELESS
        return deeds.error(Case(note, JobNotes(), None, self._began)) if failed else None

    # ---------------------------------------------------------------- causes

    def _cause(self, note: Note, job: JobNotes, worker: WorkerNotes | None) -> Diagnosis | None:
        if note.op in CAUSELESS:
            return None
        if note.outcome == "ok":
            return self._of_success(note, job)
        if note.outcome not in {"refused", "error"} or note.code_name in HARMLESS:
            return None
        return diagnose(self._case(note, job, worker))

    def _case(self, note: Note, job: JobNotes, worker: WorkerNotes | None) -> Case:
        wide = [n for n in (*self._wide, *self._hands) if _concerns(n, note)]
        if not wide:
            return Case(note, job, worker, self._began, self.evictions)
        notes = JobNotes(sorted([*job.notes, *wide], key=_order), job.lost, job.renewals, job.whole)
        return Case(note, notes, worker, self._began, self.evictions)

    def _of_success(self, note: Note, job: JobNotes) -> Diagnosis | None:
        if note.op == "renew":
            return _late(note)
        if note.effect == "bypassed" and note.finding == "orphan":
            words = f'{by(note, "A client")} moved the job with the token "0" while another held its lock.'
            return Diagnosis("lock_bypass", words)
        if note.op in MOVES and note.effect == "released":
            return _of_stale_end(note, job)
        return _of_pickup(note, job) if note.op == "acquire" else None

    def _of_two_releases(self, note: Note) -> Diagnosis | None:
        """Told once of a queue, by the first sweep of another layout."""
        known = self._sweeps.setdefault(note.queue, {})
        if len(self._sweeps) > WORKERS_MAX:
            self._sweeps.popitem(last=False)
        other = next(iter(known.values()), None)
        if note.script in known or len(known) > 1:
            return None
        known[note.script] = note
        if other is None:
            return None
        both = f"{other.script} by {by(other)} and {note.script} by {by(note)}"
        words = f"Sweeps of two releases run on this queue, {both}"
        return Diagnosis("script_mismatch", f"{words}: nothing has failed yet.", seqs(other))

    # ---------------------------------------------------------------- histories

    def _heard(self, note: Note) -> WorkerNotes | None:
        """Whoever speaks, if it says who it is; a write names no token, and its connection tells who talks."""
        if note.worker is not None:
            worker = self._worker(note)
            if note.op != "lapse":  # that is time's word
                worker.heard(note)
            return worker
        if note.conn is not None:
            for each in self._on_conn.get(note.conn, ()):
                if (talker := self._workers.get(each)) is not None:
                    talker.spoke(note.opened)
        return None

    def _worker(self, note: Note) -> WorkerNotes:
        worker = self._workers.get(note.worker)
        if worker is None:
            worker = self._workers[note.worker] = WorkerNotes()
            if len(self._workers) > WORKERS_MAX:
                self._workers.popitem(last=False)
        if (conn := note.conn) is not None:
            spoken = worker.conns.get(conn)
            if spoken is None or spoken.closed is not None:
                worker.spoke_on(conn, note.opened)
                self._on_conn.setdefault(conn, OrderedDict())[note.worker] = None
        return worker

    def _follow(self, note: Note, job: JobNotes, worker: WorkerNotes | None) -> None:
        """Who holds the job now."""
        if note.effect == "granted" and worker is not None:
            worker.took(note)
        elif note.effect in {"released", "absent"} or (note.op == "finish" and note.outcome == "ok"):
            assert note.job is not None
            last: Hashable = None
            for each in job.notes:  # mostly of one worker
                if each.worker != last and (had := self._workers.get(last := each.worker)) is not None:
                    had.left(note.queue, note.job, note.closed)
        elif worker is not None and note.op in MOVES and note.job is not None:
            worker.left(note.queue, note.job, note.closed)  # refused or not, it works on it no more

    def _connection(self, note: Note) -> None:
        if note.conn is None:
            self._wide.append(note)
        elif note.target == "closed":
            for worker in self._on_conn.pop(note.conn, ()):
                if (notes := self._workers.get(worker)) is not None and note.conn in notes.conns:
                    notes.hang_up(note.conn, note.closed)


def _late(note: Note) -> Diagnosis | None:
    if note.grade not in {"late", "critical"} or note.age_ms is None or note.remaining_ms is None:
        return None
    age, left = seconds(note.age_ms), seconds(note.remaining_ms)
    return Diagnosis("renewal_late", f"The renewal came {age} after the last proof of holding; {left} were left.")


def _of_stale_end(note: Note, job: JobNotes) -> Diagnosis | None:
    """Accepted of who had taken the job before another connection took it with the same token."""
    takers = [n for n in job.notes if n.effect == "granted"]
    if not takers or takers[-1].token != note.token or takers[-1].conn == note.conn:
        return None
    last = takers[-1]
    if not any(n.token == note.token and n.conn == note.conn for n in takers):
        return None  # a pool, that speaks over any of its connections
    words = f"{by(last, 'Another connection')} took the job {ago(last, note)} before with the same token"
    return Diagnosis("fixed_token", f"{words}, and Redis accepted this from who had it before.", seqs(last))


def _of_pickup(note: Note, job: JobNotes) -> Diagnosis | None:
    if note.doomed:
        stalls = [n for n in job.notes if n.op == "reap"]
        times = len(stalls) or note.stalls
        often = "once" if times == 1 else f"{times or 'too many'} times"
        words = f"The job was found without a lock {often}, and is failed for that."
        return Diagnosis("stall_limit", words, seqs(*stalls))
    if not note.payload:
        words, hand = "The job that was given out has no name, data or options", _pusher(job)
        words = f"{words}: it was removed before, or never added"
        return Diagnosis("ghost_job", f"{words}{deeds.pusher(hand)}.", seqs(hand))
    if not job.notes:  # nearly always: it is given out for the first time
        return None
    last = next((n for n in reversed(job.notes) if n.effect == "granted"), None)
    if note.finding == "double" and last is not None:
        words, hand = f"The job was given out while {by(last, 'another worker')} held it", _pusher(job)
        words = f"{words}, taken {ago(last, note)} before{deeds.pusher(hand)}"
        return Diagnosis("double_grant", f"{words}.", seqs(last, hand))
    same = next((n for n in reversed(job.notes) if n.effect == "granted" and n.token == note.token), None)
    if same is not None:
        words = f"The same token took the job {ago(same, note)} before: a finish that comes too late would be accepted."
        return Diagnosis("fixed_token", words, seqs(same))
    return None


def _pusher(job: JobNotes) -> Note | None:
    """The hand that put a job where it was given out from, since it was given out last."""
    since = itertools.takewhile(lambda n: n.effect != "granted", reversed(job.notes))
    last = next((n for n in since if pushed(n) or took_back(n)), None)
    return last if last is not None and pushed(last) else None


def _concerns(wide: Note, note: Note) -> bool:
    """Whether a wipe or a loss of Redis reaches a job."""
    if wide.op == "conn" or wide.queue is None:
        return True
    return wide.queue == note.queue


def _order(note: Note) -> tuple[Instant, int]:
    return note.closed, note.seq
