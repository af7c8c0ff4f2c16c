"""Plays a setting on virtual time: workers that renew, sweeps, whoever takes the job next; the ledger judges.

What is assumed, and `emqproxy simulate --help` says it:

- The first worker takes the job at 0 and works on it for ever. Every call is answered at once.
- A renewal comes one interval after the pickup or the renewal before. One that falls due while its worker is blocked
  comes when the block ends, and the next an interval after that: as a timer of an event loop does.
- Where things fall on one instant, a renewal comes before a sweep.
- A job that was put back is taken at once by another worker, of the same times. One with a deferred failure is failed
  by it, at once.
- A worker whose renewal is refused gives the job up.

It ends when nothing can become of the job any more: its holder has renewed in time after its last block, and so will
for ever; or it is failed. A worker that lost it may learn so later still.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

from emqproxy.simulation.outcome import VERSION, AttemptSeen, Outcome, RenewalSeen, SweepSeen
from emqproxy.simulation.queue_model import QueuedJob, Swept
from emqproxy.simulation.settings import Block, Setting, SettingError
from emqproxy.simulation.virtual_ledger import VirtualLedger

RENEWALS_SEEN: Final = 4
"""A holder that will keep the job is watched for so many renewals at least."""
EVENTS_MAX: Final = 20_000
"""Renewals and sweeps in all: past this the times of a setting lie too far apart to be told."""


def play(setting: Setting) -> Outcome:
    """What comes of it. Raises SettingError where it takes more than EVENTS_MAX renewals and sweeps to know."""
    return _Course(setting).run()


@dataclass
class _Worker:
    """A worker that has, or thinks that it has, the job."""

    number: int
    taken_ms: int
    blocks: tuple[Block, ...]
    due_ms: int
    """When it renews next."""
    kept: int = 0
    """Renewals that succeeded."""
    renewals: list[RenewalSeen] = field(default_factory=list)
    renewed_ms: int = 0
    recovered_ms: int | None = None
    learned: bool = False
    """Its renewal was refused: it will not renew again."""

    @property
    def token(self) -> bytes:
        return b"worker-%d" % self.number

    def waits_for(self, due_ms: int) -> int:
        """When what falls due at an instant is done: at once, or when the block ends that it falls into."""
        place = bisect_right(self.blocks, due_ms - self.taken_ms, key=lambda block: block.at_ms) - 1
        return due_ms if place < 0 else max(due_ms, self.taken_ms + self.blocks[place].until_ms)


class _Course:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._job = QueuedJob(setting.max_stalled)
        self._ledger = VirtualLedger()
        self._workers: list[_Worker] = []
        self._sweeps: list[SweepSeen] = []
        self._sweep_ms = setting.first_sweep_ms
        self._failed_ms: int | None = None
        self._now_ms = 0

    def run(self) -> Outcome:
        self._take()
        events = 0
        while not self._decided():
            events += 1
            if events > EVENTS_MAX:
                raise _too_long(self._setting)
            renewing = (worker for worker in self._workers if not worker.learned)
            first = min(renewing, key=lambda worker: worker.due_ms, default=None)
            if first is not None and first.due_ms <= self._sweep_ms:
                self._now_ms = first.due_ms
                self._renew(first)
            else:
                self._now_ms = self._sweep_ms
                self._sweep()
        self._ledger.tick(self._now_ms)
        return self._outcome()

    # ---------------------------------------------------------------- what happens

    def _take(self) -> None:
        setting, number = self._setting, len(self._workers) + 1
        blocks = setting.blocks if number == 1 or setting.block_every_attempt else ()
        worker = _Worker(number, self._now_ms, blocks, 0)
        worker.due_ms = worker.waits_for(self._now_ms + setting.renew_ms)
        self._workers.append(worker)
        self._job.take(worker.token, setting.lock_duration_ms, self._now_ms)
        self._ledger.granted(number, worker.token, setting.lock_duration_ms, self._now_ms)
        if self._job.deferred_failure:
            self._job.finish()
            self._ledger.released(number, worker.token, self._now_ms)
            self._failed_ms = self._now_ms

    def _renew(self, worker: _Worker) -> None:
        ttl_ms = self._setting.lock_duration_ms
        held = self._job.renew(worker.token, ttl_ms, self._now_ms)
        verdict = self._ledger.renewed(worker.number, worker.token, ttl_ms, self._now_ms, held=held)
        worker.renewals.append(
            RenewalSeen(
                at_ms=self._now_ms,
                outcome="ok" if held else "refused",
                grade=verdict.grade.value if verdict.grade else None,
                finding=verdict.finding.word if verdict.finding else None,
                age_ms=verdict.age_ms,
                remaining_ms=verdict.remaining_ms,
            )
        )
        if held:
            worker.kept += 1
            worker.renewed_ms = self._now_ms
            worker.due_ms = worker.waits_for(self._now_ms + self._setting.renew_ms)
        else:
            worker.learned = True

    def _sweep(self) -> None:
        swept = self._job.sweep(self._now_ms)
        self._sweeps.append(SweepSeen(at_ms=self._now_ms, job=swept.value))
        self._sweep_ms += self._setting.stalled_interval_ms
        if swept in {Swept.RECOVERED, Swept.OVER_LIMIT}:
            self._ledger.swept(self._now_ms)
            self._workers[-1].recovered_ms = self._now_ms
            self._take()

    # ---------------------------------------------------------------- what is known

    def _decided(self) -> bool:
        if self._failed_ms is not None:
            return True
        holder = self._workers[-1]
        blocked_until_ms = holder.taken_ms + holder.blocks[-1].until_ms if holder.blocks else 0
        return (
            self._setting.renew_ms <= self._setting.lock_duration_ms
            and holder.kept >= RENEWALS_SEEN
            and holder.renewed_ms >= blocked_until_ms
            and self._job.is_locked(self._now_ms)
        )

    def _outcome(self) -> Outcome:
        owned = not self._ledger.lapses_ms
        return Outcome(
            v=VERSION,
            setting=self._setting,
            outcome="owned" if owned else "recovered" if self._failed_ms is None else "failed",
            owned=owned,
            stalls=self._job.stalls,
            failed_ms=self._failed_ms,
            until_ms=self._now_ms,
            attempts=tuple(self._seen(worker) for worker in self._workers),
            sweeps=tuple(self._sweeps),
        )

    def _seen(self, worker: _Worker) -> AttemptSeen:
        end = self._ledger.ends.get(worker.token)
        lapsed_ms = self._ledger.lapses_ms.get(worker.token)
        return AttemptSeen(
            worker=f"worker {worker.number}",
            taken_ms=worker.taken_ms,
            renewals=tuple(worker.renewals),
            lapsed_ms=lapsed_ms,
            recovered_ms=worker.recovered_ms,
            learned_ms=None if lapsed_ms is None else worker.due_ms,
            end=end.value if end else None,
        )


def _too_long(setting: Setting) -> SettingError:
    option, shortest_ms = min(
        ("--stalled-interval", setting.stalled_interval_ms),
        ("--renew", setting.renew_ms),
        key=lambda candidate: candidate[1],
    )
    return SettingError(
        f"{option}: {shortest_ms} ms is so short beside the other times that {EVENTS_MAX} renewals and sweeps "
        "decide nothing; write a longer one"
    )
