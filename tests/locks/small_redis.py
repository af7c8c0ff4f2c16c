"""A small Redis with the lock scripts, and everything two workers can do with it: a value, and what can follow it.

A history is a sequence of choices: a connection sends a request, Redis executes one that was sent, an answer is read
(in any order across connections), or time passes. Everybody keeps to the scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from emqproxy.locks.events import Lock, Queue

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
    """A request: `pick`, `sweep`, or `renew` and `finish` of a job with a token. Beyond the ledger's own simulator:
    `write` to a job, which no token fences; `bypass`, a move with the token "0"; `delete` of its lock by hand."""

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
    elif ask.kind == "write":
        answer = "ok"
    elif ask.kind == "bypass":
        answer = "ok" if where[ask.job] == "active" else "not active"
        where[ask.job] = "wait" if answer == "ok" else where[ask.job]
    elif ask.kind == "delete":
        answer = "ok" if alive(m, ask.job) is not None else "absent"
        locks[ask.job] = None
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


def unique(worker: int, pick: int) -> bytes:
    """A token made anew for each pickup."""
    return b"w%d:%d" % (worker, pick)


def after(m: Model, choice: Choice, token_of: Callable[[int, int], bytes] = unique) -> Model:
    """What is true after a choice; `token_of` worker and number of the pickup."""
    kind, conn, ask = choice
    m = m._replace(now=m.now + (LEAP_NS if kind == "leap" else STEP_NS))
    if kind == "leap":
        return m._replace(leaps=m.leaps + 1)
    worker = conn // (len(m.out) // len(m.held))
    if kind == "send":
        assert ask is not None
        picks = m.picks
        if ask.kind == "pick":
            ask, picks = ask._replace(token=token_of(worker, picks)), picks + 1
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
