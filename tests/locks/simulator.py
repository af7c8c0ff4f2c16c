"""A small Redis with the lock scripts whose true state is known, and everything two workers can do with it.

A history is a sequence of choices: a connection sends a request, Redis executes one that was sent, an answer is read
(in any order across connections), or time passes. `choices` gives what can happen next, `Run` plays a history through
a ledger and checks each thing the ledger says against what is true. Nothing here knows how the ledger works.

Everybody goes through us, and everybody keeps to the scripts: so nobody but a straggler may be accused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    Queue,
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

MS = 1_000_000
STEP_NS = MS // 4
"""Every choice takes a quarter of a millisecond."""
TTL_MS = 10
LEAP_NS = 6 * MS
"""More than half a lock, less than a whole one: two leaps outlive it."""
QUEUE = Queue(0, b"q:")
START = 1_000 * MS


def lock_of(job: int) -> Lock:
    return Lock(0, b"q:%d:lock" % job)


class Ask(NamedTuple):
    """A request: `pick`, `sweep`, or `renew` and `finish` of a job with a token."""

    kind: str
    job: int = -1
    token: bytes = b""


class Out(NamedTuple):
    """A connection's request and how far it is; `answer` is what Redis said."""

    ask: Ask
    number: int
    sent: int
    executed: bool = False
    answer: object = None


class Model(NamedTuple):
    """All that is true, as a value."""

    now: int
    locks: tuple[tuple[bytes, int, int] | None, ...]
    """By job: token, when it was set, when it expires. What has expired still stands here."""
    where: tuple[str, ...]
    """By job: `wait`, `active`, `done`."""
    marked: tuple[bool, ...]
    """By job: marked by the sweep before."""
    out: tuple[Out | None, ...]
    """By connection: one request at a time."""
    held: tuple[tuple[tuple[int, bytes], ...], ...]
    """By worker: (job, token) it believes to hold."""
    asked: int = 0
    picks: int = 0
    leaps: int = 0


def begin(jobs: int, workers: int = 2, conns: int = 2) -> Model:
    return Model(START, (None,) * jobs, ("wait",) * jobs, (False,) * jobs, (None,) * (workers * conns), ((),) * workers)


Choice = tuple[str, int, Ask | None]
"""`send` on a connection, `run` its request, `read` its answer; `leap`."""


def choices(m: Model, leaps_max: int = 3) -> Iterator[Choice]:
    """All that can happen next. Workers are alike: the second does nothing before the first has."""
    conns = len(m.out) // len(m.held)
    for conn, out in enumerate(m.out):
        worker = conn // conns
        if out is None:
            if worker and not m.asked:
                continue
            if conn % conns and m.out[conn - 1] is None:
                continue  # a worker's connections are alike, too: the second is for what overlaps
            yield "send", conn, Ask("pick")
            yield "send", conn, Ask("sweep")
            for job, token in m.held[worker]:
                yield "send", conn, Ask("renew", job, token)
                yield "send", conn, Ask("finish", job, token)
        elif not out.executed:
            yield "run", conn, None
        else:
            yield "read", conn, None
    if m.leaps < leaps_max:
        yield "leap", 0, None


PICKED: tuple[Choice, ...] = (("send", 0, Ask("pick")), ("run", 0, None), ("read", 0, None))
"""A preamble: the first worker has the first job."""


def alive(m: Model, job: int) -> bytes | None:
    held = m.locks[job]
    return held[0] if held is not None and m.now < held[2] else None


def execute(m: Model, ask: Ask) -> tuple[Model, object]:
    """As the scripts do it; the answer."""
    locks, where, marked = list(m.locks), list(m.where), list(m.marked)
    answer: object = None
    if ask.kind == "pick":
        waiting = [job for job, at in enumerate(where) if at == "wait"]
        if waiting:
            answer = job = waiting[0]
            where[job], locks[job] = "active", (ask.token, m.now, m.now + TTL_MS * MS)
    elif ask.kind == "sweep":
        lost = [job for job, at in enumerate(where) if at == "active" and marked[job] and alive(m, job) is None]
        for job in lost:
            where[job] = "wait"
        marked = [at == "active" for at in where]
        answer = tuple(lost)
    else:
        holder = alive(m, ask.job)
        if holder == ask.token:
            answer = "ok"
            if ask.kind == "renew":
                locks[ask.job], marked[ask.job] = (ask.token, m.now, m.now + TTL_MS * MS), False
            else:
                locks[ask.job], where[ask.job], marked[ask.job] = None, "done", False
        else:
            answer = "absent" if holder is None else "other"
    return m._replace(locks=tuple(locks), where=tuple(where), marked=tuple(marked)), answer


def after(m: Model, choice: Choice) -> Model:
    """What is true after a choice."""
    kind, conn, ask = choice
    m = m._replace(now=m.now + (LEAP_NS if kind == "leap" else STEP_NS))
    if kind == "leap":
        return m._replace(leaps=m.leaps + 1)
    worker = conn // (len(m.out) // len(m.held))
    if kind == "send":
        assert ask is not None
        picks = m.picks
        if ask.kind == "pick":
            ask, picks = ask._replace(token=b"w%d:%d" % (worker, picks)), picks + 1
        out: Out | None = Out(ask, m.asked + 1, m.now)
        m = m._replace(asked=m.asked + 1, picks=picks)
    else:
        standing = m.out[conn]
        assert standing is not None
        if kind == "run":
            m, answer = execute(m, standing.ask)
            out = standing._replace(executed=True, answer=answer)
        else:
            out = None
            held = m.held[worker]
            if standing.ask.kind == "pick" and standing.answer is not None:
                held = (*held, (standing.answer, standing.ask.token))  # type: ignore[assignment]
            elif standing.ask.kind == "finish":
                held = tuple(h for h in held if h != (standing.ask.job, standing.ask.token))
            m = m._replace(held=(*m.held[:worker], held, *m.held[worker + 1 :]))
    return m._replace(out=(*m.out[:conn], out, *m.out[conn + 1 :]))


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


def histories(jobs: int, depth: int, preamble: Sequence[Choice] = ()) -> Iterator[list[Choice]]:
    """Every history of a length, after a preamble: depth first."""
    m = begin(jobs)
    for choice in preamble:
        m = after(m, choice)

    def walk(m: Model, history: list[Choice]) -> Iterator[list[Choice]]:
        if len(history) == depth:
            yield history
            return
        for choice in choices(m):
            yield from walk(after(m, choice), [*history, choice])

    for history in walk(m, []):
        yield [*preamble, *history]
