"""Plays histories of a small Redis through a ledger, and holds each thing that is said against what is true.

Nothing here knows how the ledger works. Everybody goes through us, and everybody keeps to the scripts: so nobody but a
straggler may be accused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from emqproxy.locks.events import (
    Absent,
    AnyFact,
    Granted,
    HeldByOther,
    Lapsed,
    Lock,
    Nothing,
    NotMine,
    Place,
    Release,
    Released,
    Renew,
    Renewed,
    Sweep,
    Take,
    Window,
)
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Finding, Grade, Suspect, Verdict
from tests.locks.small_redis import MS, QUEUE, TTL_MS, Choice, Model, Out, after, alive, begin, lock_of


class BrokenError(AssertionError):
    """The ledger said something that is not true."""


class Loss(NamedTuple):
    """How a token's holding of a job ended, in truth."""

    at: int
    how: str
    """`expired`, `released`, `taken`."""


class Run:
    """One history through one ledger, with the truth beside it."""

    def __init__(self, ledger: LockLedger, jobs: int) -> None:
        self.ledger, self.m = ledger, begin(jobs)
        self.losses: dict[tuple[int, bytes], Loss] = {}
        """Of holdings that are over; a pick makes its token anew, so each has one."""
        self.sets: dict[tuple[int, bytes], list[int]] = {}
        """When each token's time to live truly began."""
        self.verdicts: list[Verdict] = []

    def play(self, history: Sequence[Choice]) -> Run:
        for choice in history:
            self.step(choice)
        return self

    def step(self, choice: Choice) -> None:
        before, self.m = self.m, after(self.m, choice)
        kind, conn, _ = choice
        m = self.m
        if kind == "send":
            out = m.out[conn]
            assert out is not None
            self._asked(conn, out)
        elif kind == "run":
            self._truth(before, m.out[conn])
        elif kind == "read":
            out = before.out[conn]
            assert out is not None
            self._read(conn, out)
        self._note_expiries()
        self._said(self.ledger.tick(m.now))
        self._claims()

    # ---------------------------------------------------------------- the truth

    def _truth(self, before: Model, out: Out | None) -> None:
        assert out is not None
        ask, m = out.ask, self.m
        self._note_expiries()
        if ask.kind == "pick" and out.answer is not None:
            job: int = out.answer  # type: ignore[assignment]
            was = before.locks[job]
            if was is not None and (job, was[0]) not in self.losses:
                self.losses[job, was[0]] = Loss(m.now, "taken")
            self.sets[job, ask.token] = [m.now]
        elif out.answer == "ok" and ask.kind == "renew":
            self.sets[ask.job, ask.token].append(m.now)
        elif out.answer == "ok":
            self.losses[ask.job, ask.token] = Loss(m.now, "released")

    def _note_expiries(self) -> None:
        for job, held in enumerate(self.m.locks):
            if held is not None and held[2] <= self.m.now:
                self.losses.setdefault((job, held[0]), Loss(held[2], "expired"))

    # ---------------------------------------------------------------- the ledger's side

    def _asked(self, conn: int, out: Out) -> None:
        place, ask = Place(conn, out.number), out.ask
        if ask.kind == "pick":
            self.ledger.asked(Take(place, QUEUE, ask.token, TTL_MS), out.sent)
        elif ask.kind == "sweep":
            self.ledger.asked(Sweep(place, QUEUE), out.sent)
        elif ask.kind == "renew":
            self.ledger.asked(Renew(place, QUEUE, lock_of(ask.job), ask.token, TTL_MS), out.sent)
        else:
            self.ledger.asked(Release(place, QUEUE, lock_of(ask.job), ask.token), out.sent)

    def _read(self, conn: int, out: Out) -> None:
        for fact in facts(conn, out, self.m.now):
            self._said(self.ledger.observe(fact))

    def _said(self, verdicts: list[Verdict]) -> None:
        self.verdicts += verdicts
        for verdict in verdicts:
            self._check(verdict)

    # ---------------------------------------------------------------- what is said must be true

    def _check(self, verdict: Verdict) -> None:
        fact, finding = verdict.fact, verdict.finding
        if finding is not None and finding.suspects in {Suspect.BYPASSER, Suspect.CLOCK}:
            raise BrokenError(f"{finding.word} of {fact}")
        if isinstance(fact, Lapsed):
            loss = self._loss(fact.lock, fact.token)
            if loss is None or loss.how != "expired":
                raise BrokenError(f"lapse told of {fact.token!r}, in truth {loss}")
            return
        if not isinstance(fact, (Renewed, NotMine, Released, Absent, HeldByOther)):
            return
        if finding is Finding.STRAGGLER:
            loss = self._loss(fact.lock, fact.token)
            if loss is None or loss.at > fact.window.opened:
                raise BrokenError(f"straggler {fact}, in truth {loss}")
        if isinstance(fact, Renewed) and verdict.grade in {Grade.LATE, Grade.CRITICAL}:
            sets = self.sets[self._key(fact.lock, fact.token)]
            since = max(s for s in sets if s <= fact.window.opened)
            if fact.window.opened - since < 0.6 * TTL_MS * MS:
                raise BrokenError(f"{verdict.grade} of a renewal {fact.window.opened - since} ns after a success")
        if verdict.grade is Grade.TOO_LATE:
            loss = self._loss(fact.lock, fact.token)
            if loss is None or loss.how == "released":
                raise BrokenError(f"too late {fact}, in truth {loss}")

    def _claims(self) -> None:
        """What `judge` says while nothing is out: a stranger's success would be foreign while the lock is certainly
        alive, and a holder's a resurrection once it is certainly gone."""
        if any(self.m.out):
            return
        for job in range(len(self.m.locks)):
            holder = alive(self.m, job)
            if self._judged(job, b"stranger") is Finding.FOREIGN and holder is None:
                raise BrokenError(f"{job} is held by nobody, and the ledger is certain that it is")
            for _, token in self.sets:
                found = self._judged(job, token)
                if holder == token and found is not None and found.suspects is not Suspect.NOBODY:
                    raise BrokenError(f"{token!r} holds {job}, and the ledger would call its finish {found}")
                if holder is not None and found is Finding.RESURRECTED:
                    raise BrokenError(f"{holder!r} holds {job}, and the ledger is certain that nobody does")

    def _judged(self, job: int, token: bytes) -> Finding | None:
        return self.ledger.judge(Release(Place(9, 1), QUEUE, lock_of(job), token), self.m.now).finding

    def _key(self, lock: Lock, token: bytes) -> tuple[int, bytes]:
        return int(lock.key[2:-5]), token

    def _loss(self, lock: Lock, token: bytes) -> Loss | None:
        return self.losses.get(self._key(lock, token))


def facts(conn: int, out: Out, now: int) -> list[AnyFact]:
    """What an answer proves, by the same map the recognisers keep."""
    ask, window, place = out.ask, Window(out.sent, now), Place(conn, out.number)
    if ask.kind == "pick":
        if out.answer is None:
            return [Nothing(place, window, QUEUE)]
        job: int = out.answer  # type: ignore[assignment]
        return [Granted(place, window, lock_of(job), QUEUE, ask.token, TTL_MS)]
    if ask.kind == "sweep":
        named: tuple[int, ...] = out.answer  # type: ignore[assignment]
        found: list[AnyFact] = [
            Absent(place._replace(part=part), window, lock_of(job), QUEUE, b"", swept=True)
            for part, job in enumerate(named, 1)
        ]
        return [*found, Nothing(place, window, QUEUE)]
    lock = lock_of(ask.job)
    if ask.kind == "renew":
        if out.answer == "ok":
            return [Renewed(place, window, lock, QUEUE, ask.token, TTL_MS)]
        return [NotMine(place, window, lock, QUEUE, ask.token, renewal=True, ttl_ms=TTL_MS)]
    if out.answer == "ok":
        return [Released(place, window, lock, QUEUE, ask.token)]
    if out.answer == "absent":
        return [Absent(place, window, lock, QUEUE, ask.token)]
    return [HeldByOther(place, window, lock, QUEUE, ask.token)]
