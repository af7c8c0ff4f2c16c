"""Plays histories of a small Redis past a judge that sits before the send, and holds each refusal against what is true.

*Lawful from the holder*: the process to which Redis gave the job last renews it, ends it or writes to it, while the
lock of that grant lives, over any of its connections. A refusal of that is wrong. So is one of anybody while no
lives, or while it is the speaker's own: each refusal must be of a speaker to whom another is the holder in truth.

*Proof*: with nothing out, and all that bore on the job asked one after the other, the answers that were read say that
this connection was given the job, another process after it, and that its lock lives. What such a speaker sends then,
and Redis would take, must not be let through.

One thing no wire can show (`Scheme.hides`): a pool that has not yet spoken for one acquisition over two connections.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from emqproxy.locks.events import (
    Absent,
    AnyIntent,
    Bypassed,
    Deleted,
    NoProof,
    Overwrite,
    Place,
    Release,
    Renew,
    Sighted,
    Sweep,
    Take,
    Untouched,
    Window,
    Write,
)
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.policy import Action, Charge, Decision, Rules, Stance, decide
from emqproxy.proxy.judge import Judge
from emqproxy.proxy.surmised import Surmised
from emqproxy.scripts.catalogue import Catalogue
from tests.locks.schemes import Scheme
from tests.locks.simulator import BrokenError, facts
from tests.locks.small_redis import MS, QUEUE, TTL_MS, Ask, Choice, Model, Out, after, alive, begin, lock_of

RULES: Final = Rules(Stance.ENFORCE)
CATALOGUE: Final = Catalogue()
INTRUDER: Final = 2
"""As a worker's number."""


class Door:
    """A sidecar: its ledger and its judge."""

    def __init__(self) -> None:
        self.ledger = LockLedger()
        self.judge = Judge(CATALOGUE, self.ledger, Surmised())

    def decide(self, intent: AnyIntent, now: int) -> Decision:
        """As `Judge.weigh` does with a call's intents."""
        charge: Charge | None = None
        if isinstance(intent, (Renew, Release)):
            charge = self.judge._of_speaker(intent, now)
        elif isinstance(intent, Write):
            charge = self.judge._of_write(intent, now)
        return decide([charge] if charge is not None else [], RULES)


class Heard(NamedTuple):
    """A request whose answer was read: what the wire has shown."""

    worker: int
    conn: int
    ask: Ask
    sent: int
    read: int
    answer: object


class EnforcedRun:
    """One history past the judges, with the truth beside it."""

    def __init__(self, scheme: Scheme, jobs: int) -> None:
        self.scheme = scheme
        workers = INTRUDER + bool(scheme.intruder)
        self.m = begin(jobs, workers, scheme.conns)
        self.doors = [Door() for _ in range(scheme.doors)]
        self.at = [0] * len(self.m.out)
        """By connection: the door it goes through."""
        self.numbers = list(range(1, len(self.m.out) + 1))
        """By connection: how the doors call it; another one after it was made anew."""
        self.owner: dict[int, int] = {}
        """By job: the worker that it was given to last, until it gave it back."""
        self.log: list[Heard] = []
        self.refused = self.hidden = 0
        self._unnoticed: list[tuple[Door, int]] = []
        self._users: dict[tuple[int, bytes], set[int]] = {}
        """By job and token: connections it was used over since it was taken."""
        self._takers: dict[tuple[int, bytes], set[int]] = {}
        """By job and token: connections that ever took it."""
        self._last: dict[int, bytes] = {}
        """By job: the token that took it last."""
        self._together: list[set[int]] = []
        """Connections that once were."""

    def play(self, history: Sequence[Choice]) -> EnforcedRun:
        for choice in history:
            self.step(choice)
        return self

    def worker(self, conn: int) -> int:
        return conn // self.scheme.conns

    # ---------------------------------------------------------------- what happens

    def choices(self, leaps_max: int = 3) -> Iterator[Choice]:
        """All that can happen next."""
        m = self.m
        for conn, out in enumerate(m.out):
            worker = self.worker(conn)
            if out is not None:
                yield "read" if out.executed else "run", conn, None
            elif worker == INTRUDER:
                if conn % self.scheme.conns == 0:
                    yield from (("send", conn, Ask(self.scheme.intruder, job, b"0")) for job in range(len(m.locks)))
            elif not (worker and not m.asked):
                yield "send", conn, Ask("pick")
                yield "send", conn, Ask("sweep")
                for job, token in m.held[worker]:
                    for kind in ("renew", "finish", "write"):
                        yield "send", conn, Ask(kind, job, token)
        if m.leaps < leaps_max:
            yield "leap", 0, None

    def step(self, choice: Choice) -> None:
        before, m = self.m, after(self.m, choice, self.scheme.token_of)
        kind, conn, _ = choice
        out, was = m.out[conn], before.out[conn]
        self.m = m
        if kind == "send":
            assert out is not None
            self._send(before, conn, out)
        elif kind == "run":
            assert out is not None
            self._run(conn, out)
        elif kind == "read":
            assert was is not None
            self._read(conn, was)
        for door in self.doors:
            door.ledger.tick(self.m.now)

    def connect(self, conn: int, door: int, *, noticed: bool) -> None:
        """A connection that waits for nothing is closed and made anew, through this door. The old one's end may be
        noticed later."""
        self._unnoticed.append((self.doors[self.at[conn]], self.numbers[conn]))
        self.at[conn], self.numbers[conn] = door, max(self.numbers) + 1
        if noticed:
            self.notice()

    def notice(self) -> None:
        """Ends of connections are noticed."""
        for door, number in self._unnoticed:
            fact = Sighted(Place(number, 0), Window(self.m.now, self.m.now))
            door.ledger.observe(fact)
            door.judge.observed(fact)
        self._unnoticed.clear()

    def _send(self, before: Model, conn: int, out: Out) -> None:
        door, intent = self.doors[self.at[conn]], intent_of(Place(self.numbers[conn], out.number), out.ask)
        decision = door.decide(intent, self.m.now)
        if decision.action is Action.BLOCKED:
            self._refuse(before, conn, out, decision)
            return
        if self.scheme.doors == 1 and (why := self._proof(conn, out)):
            raise BrokenError(f"let through: {out.ask}, {why}")
        self._used(conn, out.ask)
        door.judge.passed([intent], decision)
        door.ledger.asked(intent, out.sent)

    def _used(self, conn: int, ask: Ask) -> None:
        """A token is used. Another has the job since, and this connection took it with this token, too: then it may
        speak for what it took itself, as one of two workers with one token would."""
        key = (ask.job, ask.token)
        if ask.kind not in {"renew", "finish"} or (
            self._last.get(ask.job) != ask.token and conn in self._takers.get(key, ())
        ):
            return
        users = self._users.setdefault(key, set())
        users.add(conn)
        self._together += [set(users)] * (len(users) > 1)

    def _refuse(self, before: Model, conn: int, out: Out, decision: Decision) -> None:
        """It goes nowhere; the worker is answered as the script would."""
        ask, m, worker = out.ask, self.m, self.worker(conn)
        self.refused += 1
        lives, owner = alive(m, ask.job), self.owner.get(ask.job)
        nobodys = lives is None and self.scheme.doors == 1  # what went on behind another door cannot be known
        if nobodys or (owner == worker and ask.kind != "bypass"):
            if not (self.scheme.hides and owner == worker and not self._shown(worker)):
                raise BrokenError(f"refused {ask} of worker {worker} by {decision}; in truth {lives!r} of {owner}")
            self.hidden += 1
        held = list(m.held)
        if ask.kind == "finish":
            held[worker] = tuple(h for h in held[worker] if h != (ask.job, ask.token))
        self.m = m._replace(out=before.out, held=tuple(held))

    def _run(self, conn: int, out: Out) -> None:
        ask = out.ask
        if ask.kind == "pick" and out.answer is not None:
            job: int = out.answer  # type: ignore[assignment]
            self.owner[job] = self.worker(conn)
        elif out.answer == "ok" and ask.kind in {"finish", "delete"}:
            self.owner.pop(ask.job, None)

    def _read(self, conn: int, out: Out) -> None:
        door, now, ask = self.doors[self.at[conn]], self.m.now, out.ask
        self.log.append(Heard(self.worker(conn), conn, ask, out.sent, now, out.answer))
        if ask.kind == "pick" and out.answer is not None:
            key: tuple[int, bytes] = (out.answer, ask.token)  # type: ignore[assignment]
            self._users[key], self._last[key[0]] = {conn}, ask.token
            self._takers.setdefault(key, set()).add(conn)
        place, about = Place(self.numbers[conn], out.number), (Window(out.sent, now), lock_of(ask.job), QUEUE)
        match ask.kind:
            case "write":
                found = [Untouched(place, *about, b"")]
            case "bypass":
                proof = Bypassed if out.answer == "ok" else NoProof
                found = [proof(place, *about, ask.token)]  # type: ignore[list-item]
            case "delete":
                found = [(Deleted if out.answer == "ok" else Absent)(place, *about, b"")]  # type: ignore[list-item]
            case _:
                found = facts(self.numbers[conn], out, now)  # type: ignore[assignment]
        for fact in found:
            door.ledger.observe(fact)
            door.judge.observed(fact)

    # ---------------------------------------------------------------- what the wire has shown

    def _shown(self, worker: int) -> bool:
        """Whether one of its tokens was used over two connections within an acquisition."""
        mine = {conn for conn in range(len(self.m.out)) if self.worker(conn) == worker}
        return any(len(conns & mine) > 1 for conns in self._together)

    def _proof(self, conn: int, out: Out) -> str:
        """How the answers prove that a call must not pass; empty where they do not, or it is lawful."""
        ask, m = out.ask, self.m
        if ask.kind not in {"renew", "finish", "write", "bypass"} or any(o for c, o in enumerate(m.out) if c != conn):
            return ""
        heard = [h for h in self.log if h.ask.job == ask.job or _names(h, ask.job)]
        if any(b.sent <= a.read for a, b in itertools.pairwise(heard)):
            return ""
        at = [i for i, h in enumerate(heard) if h.ask.kind == "pick"]
        if not at or any(h.ask.kind in {"bypass", "delete"} for h in heard):
            return ""
        last, since = heard[at[-1]], heard[at[-1] + 1 :]
        mine = [h for h in since if h.answer == "ok" and h.ask.token == last.ask.token]
        if any(h.ask.kind == "finish" for h in mine) or any(h.ask.kind == "sweep" for h in since):
            return ""
        alive_until = max([last.sent, *(h.sent for h in mine if h.ask.kind == "renew")]) + TTL_MS * MS
        if m.now >= alive_until or self._together:
            return ""
        if ask.kind == "bypass":
            return f"{last} holds it"
        lost = [heard[i] for i in at[:-1] if heard[i].worker == self.worker(conn)][-1:]
        if not lost or lost[0].conn != conn or _gave_back(heard, lost[0]) or last.worker == self.worker(conn):
            return ""
        if ask.kind == "write" and last.ask.token == lost[-1].ask.token:
            return ""  # one token for both: for a write they are one worker
        if ask.kind != "write" and ask.token != last.ask.token:
            return ""  # Redis itself refuses it
        return f"lost by {lost[-1]}, to {last}"


def _names(heard: Heard, job: int) -> bool:
    if heard.ask.kind == "pick":
        return heard.answer == job and heard.answer is not None
    return heard.ask.kind == "sweep" and job in heard.answer  # type: ignore[operator]


def _gave_back(heard: Sequence[Heard], grant: Heard) -> bool:
    own = (h for h in heard if h.ask.kind == "finish" and h.answer == "ok" and h.sent > grant.read)
    return any(h.ask.token == grant.ask.token for h in own)


def intent_of(place: Place, ask: Ask) -> AnyIntent:
    """What a request is about to attempt."""
    lock = lock_of(ask.job)
    match ask.kind:
        case "pick":
            return Take(place, QUEUE, ask.token, TTL_MS)
        case "sweep":
            return Sweep(place, QUEUE)
        case "renew":
            return Renew(place, QUEUE, lock, ask.token, TTL_MS)
        case "write":
            return Write(place, QUEUE, lock, b"")
        case "delete":
            return Overwrite(place, QUEUE, lock, b"")
        case _:
            return Release(place, QUEUE, lock, ask.token)
