"""What Redis executed, in one world: it tells the truth of it, and keeps which lines need which cause."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import Any, NamedTuple, Protocol

import hiredis

from tests.causes.asks import Ask
from tests.causes.truth import MS, Ending, Expected, Truth

LATE = 0.60
BURST_NS = 5 * MS
UNRENEWED = frozenset({"renew_config", "retaken", "recovered_not_retaken"})
MOVES = frozenset({"finish", "delay", "retry", "back", "wait_children", "release"})

Key = tuple[str, str | None, str, str]
"""(client, job, token, op): whose lines come in the order of the calls."""


class Speaks(Protocol):
    """A connection."""

    client: str
    owner: Any
    heard: list[int]


class Lock(NamedTuple):
    token: str
    ttl_ms: int
    until: int


class Recorder:
    """One world's."""

    def __init__(self, chance: random.Random) -> None:
        self.truth, self._chance = Truth(), chance
        self.over = False
        """The world has ended: what its queue is asked now is nobody's."""
        self.expected: dict[Key, deque[Expected | None]] = defaultdict(deque)
        """By line, in order: the cause that it needs; None where it needs none."""
        self.locks: dict[str, Lock] = {}
        self.proved: dict[tuple[str, str], int] = {}
        """(job, token): when the sidecar read the last answer that proved it."""
        self.ttls: dict[tuple[str, str], int] = {}
        self.edge_ms = 3.0
        """So near to a threshold either side of it may be said."""
        self.erring = "server_refused"
        """What an error means now."""
        self.unheard_of: set[str] = set()
        """Connections that ended before all was said."""
        self._pauses: list[tuple[int, int]] = []
        self._renewed_once: set[tuple[str, str]] = set()
        self._renewed_twice: set[tuple[str, str]] = set()
        self._renewals_refused: set[tuple[str, str]] = set()
        self._met: dict[tuple[str, str], int] = {}
        """When a result was refused."""
        self._unheard: dict[int, list[tuple[str, str]]] = defaultdict(list)
        """By connection: its own endings whose answer is under way."""

    # ---------------------------------------------------------------- time

    def lapse(self, now: int) -> list[str]:
        """The jobs whose locks run out."""
        over = [job for job, lock in self.locks.items() if lock.until <= now]
        for job in over:
            lock = self.locks.pop(job)
            self.truth.end(job, lock.token, Ending(lock.until, "expired"))
        return over

    def paused(self, begin: int, end: int) -> None:
        self._pauses.append((begin, end))

    def dropped(self, job: str, cause: str, now: int) -> None:
        """A lock ends by somebody's hand."""
        if (lock := self.locks.pop(job, None)) is not None:
            self.truth.end(job, lock.token, Ending(now, cause))

    def removed(self, job: str, cause: str, now: int) -> None:
        """A job is no more, nor its lock."""
        lock = self.locks.pop(job, None)
        self.truth.remove(job, lock.token if lock else None, cause, now)

    # ---------------------------------------------------------------- calls

    def executed(self, ask: Ask, value: Any, link: Speaks, arrived: int, now: int) -> None:
        """Redis ran a call."""
        if self.over:
            return
        if ask.kind in {"other", "ping", "sweep"} and not (ask.kind == "sweep" and isinstance(value, list)):
            return
        if isinstance(value, hiredis.ReplyError):
            for job, token in ask.pairs:
                self._expect(link, job or None, token, ask.op, Expected(self.erring))
        elif ask.kind == "sweep":
            for job in map(bytes.decode, value):
                self.truth.swept[job] = now
        elif ask.kind == "pick":
            self._picked(ask, value, link, now)
        elif ask.kind in {"renew", "renew_all"}:
            self._renewed(ask, value, link, arrived, now)
        elif ask.kind in MOVES:
            self._moved(ask, value, link, arrived, now)
        elif ask.kind == "remove" and value == 1:
            self.removed(ask.pairs[0][0], "job_removed", now)
        elif ask.kind == "write":
            job = ask.pairs[0][0]
            gone = Expected(self.truth.gone.get(job, "job_vanished")) if value == -1 else None
            self._expect(link, job, "", "write", gone)

    def _expect(self, link: Speaks, job: str | None, token: str, op: str, expected: Expected | None) -> None:
        self.expected[link.client, job, token, op].append(expected)

    def _picked(self, ask: Ask, value: Any, link: Speaks, now: int) -> None:
        token = ask.pairs[0][1]
        if not (isinstance(value, list) and isinstance(value[0], list) and value[0]):
            return
        job, fields = value[1].decode(), dict(zip(value[0][::2], value[0][1::2], strict=True))
        before, cause = self.locks.get(job), None
        if b"defa" in fields:
            cause = "stall_limit"
        elif not {b"name", b"data", b"opts"} & set(fields):
            cause = "ghost_job"
        elif before is not None and before.token != token:
            cause = "double_grant"
        elif (job, token) in self.truth.granted:
            cause = "fixed_token"
        if before is not None and before.token != token:
            self.truth.end(job, before.token, Ending(now, "double_grant"))
        self.truth.grant(job, token, now)
        self.locks[job] = Lock(token, ask.ttl_ms, now + ask.ttl_ms * MS)
        self._expect(link, job, token, "acquire", Expected(cause) if cause else None)

    def _renewed(self, ask: Ask, value: Any, link: Speaks, arrived: int, now: int) -> None:
        failed = set(map(bytes.decode, value)) if isinstance(value, list) else set()
        for job, token in ask.pairs:
            if job in failed or value == 0:
                self._refused(job, token, "renew", 0, link, arrived, now)
                self._renewals_refused.add((job, token))
                continue
            expected = None
            if (proved := self.proved.get((job, token))) is not None:
                age_ms, ttl = (arrived - proved) / MS, self.ttls[job, token]
                edge = abs(age_ms - LATE * ttl) < self.edge_ms or any(end >= proved for _, end in self._pauses)
                if age_ms >= LATE * ttl - self.edge_ms:
                    expected = Expected("renewal_late", not edge, age_ms, ttl)
            self.locks[job] = Lock(token, ask.ttl_ms, now + ask.ttl_ms * MS)
            link.owner.regular |= (job, token) in self._renewed_once
            (self._renewed_twice if (job, token) in self._renewed_once else self._renewed_once).add((job, token))
            self._expect(link, job, token, "renew", expected)

    def _moved(self, ask: Ask, code: Any, link: Speaks, arrived: int, now: int) -> None:
        (job, token) = ask.pairs[0]
        if not isinstance(code, int) or code < 0 or (ask.kind == "release" and code == 0) or (
            ask.kind == "wait_children" and code == 1
        ):
            if code == -3 and job in self.locks and self.locks[job].token == token:
                del self.locks[job]
            code = -4 if ask.kind == "wait_children" and code == 1 else code
            self._refused(job, token, ask.op, code, link, arrived, now)
            return
        expected = None
        if token == "0":
            if (lock := self.locks.get(job)) is not None:
                self.truth.end(job, lock.token, Ending(now, "lock_bypass"))
                expected = Expected("lock_bypass")
        else:
            self.locks.pop(job, None)
            self.truth.end(job, token, Ending(now, "own", ask.op))
            self._unheard[id(link)].append((job, token))
            if ask.keep == 0:
                self.truth.gone[job] = "job_removed"
        self._expect(link, job, token, ask.op, expected)

    def _refused(self, job: str, token: str, op: str, code: int, link: Speaks, arrived: int, now: int) -> None:
        key = (job, token)
        ttl = float(self.ttls.get(key, 0))
        cause, decidable = self.truth.why(job, token, op, code, arrived, ttl)
        proved = self.proved.get(key)
        age = None if proved is None else (arrived - proved) / MS
        if proved is not None and any(end >= proved for _, end in self._pauses):
            age = None  # less our own lag in it: that is not counted here
        silence = held = None
        worker = link.owner
        if cause == "expired_worker_silent" and worker.spell is not None:
            begin, freed, held = worker.spell
            first = min((at for each in worker.links for at in each.heard if at > begin and at >= freed), default=now)
            silence = (first - begin) / MS
            decidable = worker.regular and silence > max(ttl, 1000) and not self._alone(key, op, worker, arrived, now)
        elif self.truth.plight.get(key) == "renew_config" and not worker.chatty and cause in UNRENEWED:
            decidable = False  # it looks as one that is blocked
        elif cause == "renew_stopped" and key not in self._renewed_twice:
            decidable = False  # nobody saw that a timer ran
        elif cause == "link_loss" and worker.half_lost:
            decidable = False
        if op != "renew":
            self._met[key] = arrived
        self._expect(link, job, token, op, Expected(cause, decidable, age, ttl, silence, held))

    def _alone(self, key: tuple[str, str], op: str, worker: Any, arrived: int, now: int) -> bool:
        """One result after a silence, with nothing else said at once: it may as well be a timer that was stopped."""
        if op == "renew" or key in self._renewals_refused:
            return False
        said = sum(arrived - BURST_NS < at <= now for each in worker.links for at in each.heard[-8:])
        return said - (arrived - self._met.get(key, 0) <= BURST_NS) < 2

    # ---------------------------------------------------------------- answers

    def answered(self, ask: Ask, value: Any, now: int) -> None:
        """The sidecar read an answer, and gave it on."""
        failed = value if isinstance(value, list) else ()
        for job, token in ask.pairs:
            if ask.kind == "pick":
                if failed and isinstance(failed[0], list) and failed[0]:
                    self._prove(failed[1].decode(), token, ask.ttl_ms, now)
            elif ask.kind == "renew_all":
                if isinstance(value, list) and job.encode() not in failed:
                    self._prove(job, token, ask.ttl_ms, now)
            elif ask.kind == "renew":
                if value == 1:
                    self._prove(job, token, ask.ttl_ms, now)
            else:
                for pairs in self._unheard.values():
                    if (job, token) in pairs:
                        pairs.remove((job, token))

    def _prove(self, job: str, token: str, ttl_ms: int, now: int) -> None:
        self.proved[job, token], self.ttls[job, token] = now, ttl_ms

    def deaf(self, link: Speaks) -> None:
        """Its answers under way reach nobody."""
        self.unheard_of.add(link.client)
        for key in self._unheard.pop(id(link), ()):
            self.truth.ended[key] = self.truth.ended[key]._replace(heard=False)
