"""What a journal's line says, in the words of the ledger and of the doctor: its fact, the intent before it, its note.

Tokens are what the journal tells of them: fingerprints, which can be told apart, and no more is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from emqproxy.journal_lines import JournalLine
from emqproxy.locks.case import MOVES
from emqproxy.locks.events import (
    Absent,
    AnyFact,
    AnyIntent,
    Blinded,
    Bypassed,
    Deleted,
    Granted,
    HeldByOther,
    Lapsed,
    Lock,
    LockFact,
    Met,
    NoProof,
    Nothing,
    NotMine,
    Overwrite,
    Overwritten,
    Perhaps,
    PerhapsGranted,
    Place,
    Queue,
    Release,
    Released,
    Remove,
    Renew,
    Renewed,
    Sighted,
    Sweep,
    Take,
    Untouched,
    Window,
    Wipe,
    Wiped,
    Write,
)
from emqproxy.locks.notes import MS, Note
from emqproxy.locks.verdicts import Verdict
from emqproxy.observer.journal_replay import Beside, PickupFields

_SWEEPERS: Final = ("cleanJobsInSet-",)
_WIPERS: Final = ("removeOrphanedJobs-",)
_USUAL: Final = PickupFields()


class LineTold(NamedTuple):
    """What a fact is made of."""

    place: Place
    window: Window
    db: int | None
    queue: Queue
    lock: Lock
    token: bytes
    ttl_ms: int | None
    """What the call asked for."""
    swept: bool = False
    renewal: bool = False
    loose: bool = False
    """What the call did could not be read."""


FACTS: Final[dict[str, Callable[[LineTold], AnyFact]]] = {
    "granted": lambda t: Granted(t.place, t.window, t.lock, t.queue, t.token, t.ttl_ms or 0),
    "renewed": lambda t: Renewed(t.place, t.window, t.lock, t.queue, t.token, t.ttl_ms or 0),
    "released": lambda t: Released(t.place, t.window, t.lock, t.queue, t.token),
    "absent": lambda t: Absent(t.place, t.window, t.lock, t.queue, t.token, t.swept),
    "held_by_other": lambda t: HeldByOther(t.place, t.window, t.lock, t.queue, t.token),
    "not_mine": lambda t: NotMine(t.place, t.window, t.lock, t.queue, t.token, t.renewal, t.ttl_ms),
    "no_proof": lambda t: NoProof(t.place, t.window, t.lock, t.queue, t.token),
    "perhaps": lambda t: Perhaps(t.place, t.window, t.lock, t.queue, t.token, t.ttl_ms),
    "bypassed": lambda t: Bypassed(t.place, t.window, t.lock, t.queue, t.token),
    "deleted": lambda t: Deleted(t.place, t.window, t.lock, t.queue, t.token),
    "overwritten": lambda t: Overwritten(t.place, t.window, t.lock, t.queue, t.token, t.loose),
    "untouched": lambda t: Untouched(t.place, t.window, t.lock, t.queue, t.token),
    "nothing": lambda t: Nothing(t.place, t.window, t.queue),
    "perhaps_granted": lambda t: PerhapsGranted(t.place, t.window, t.queue, t.token, t.ttl_ms, t.loose),
    "wiped": lambda t: Wiped(t.place, t.window, t.db, t.queue.prefix),
    "blinded": lambda t: Blinded(t.place, t.window),
    "sighted": lambda t: Sighted(t.place, t.window),
    "met": lambda t: Met(t.place, t.window),
}
"""By the journal's `effect`; `lapsed` is the ledger's own word, and made by time."""
INTENTS: Final[dict[str, Callable[[LineTold], AnyIntent]]] = {
    "take": lambda t: Take(t.place, t.queue, t.token, t.ttl_ms, t.loose),
    "sweep": lambda t: Sweep(t.place, t.queue),
    "renew": lambda t: Renew(t.place, t.queue, t.lock, t.token, t.ttl_ms),
    "release": lambda t: Release(t.place, t.queue, t.lock, t.token),
    "write": lambda t: Write(t.place, t.queue, t.lock, t.token),
    "remove": lambda t: Remove(t.place, t.queue, t.lock, t.token),
    "overwrite": lambda t: Overwrite(t.place, t.queue, t.lock, t.token, t.loose),
    "wipe": lambda t: Wipe(t.place, Queue(t.db or 0, t.queue.prefix)),
}
"""By the journal's `intent`."""
OF_NO_JOB: Final = frozenset({"nothing", "perhaps_granted", "wiped", "blinded", "sighted", "met"})


class LineCall(NamedTuple):
    """A fact and the intent whose answer it is."""

    fact: AnyFact
    intent: AnyIntent | None
    sent: int
    """When it was sent at the earliest."""
    asked: int = 0
    """At which turn; 0 where the journal does not say."""
    queued: int = 0
    """Inside MULTI: what `sent` was until EXEC came."""

    @property
    def shared(self) -> bool:
        """The intent has a place of its own, which is answered when all of the call's facts are."""
        return self.intent is not None and self.intent.place != self.fact.place


def call_of(line: JournalLine, index: int) -> LineCall | None:
    """What the ledger was asked and told; None where it is no fact that this release knows. `index` stands for the
    number of the request where a line has none."""
    make, rest = FACTS.get(line.effect), line.replay
    if make is None or (line.job is None and line.effect not in OF_NO_JOB):
        return None
    place = Place(line.conn or 0, rest.request or (0 if line.op in {"conn", "blind"} else index), rest.part)
    asked_ttl_ms = line.ttl_ms if rest.asked_ttl_ms is None and line.effect in {"granted", "renewed"} else None
    told = LineTold(
        place,
        Window(line.opened_ns, line.closed_ns),
        line.db,
        *_names(line.db, line.prefix, line.queue, line.job),
        (line.token or "").encode(),
        rest.asked_ttl_ms if asked_ttl_ms is None else asked_ttl_ms,
        line.op == "reap",
        line.op == "renew",
        not _is_pickup(line) if line.effect == "perhaps_granted" else bool(line.match),
    )
    intent = None if line.outcome == "blocked" else _intent(line, told)
    return LineCall(make(told), intent, rest.sent_ns or line.opened_ns, rest.asked, rest.queued_ns)


def fact_of(line: JournalLine) -> AnyFact | None:
    """What the line says, a lapse too; None where it is no fact that this release knows."""
    if line.effect != "lapsed":
        call = call_of(line, 0)
        return None if call is None else call.fact
    call = call_of(replace(line, effect="untouched"), 0)
    if call is None or not isinstance(fact := call.fact, LockFact):
        return None
    return Lapsed(fact.place, fact.window, fact.lock, fact.queue, fact.token)


def call_of_beside(beside: Beside) -> LineCall | None:
    """The same, of a fact that has no line of its own."""
    make = FACTS.get(beside.effect)
    if make is None or (beside.job is None and beside.effect not in OF_NO_JOB):
        return None
    told = LineTold(
        Place(beside.conn, beside.request, beside.part),
        Window(beside.opened_ns, beside.closed_ns),
        beside.db,
        *_names(beside.db, beside.prefix, beside.queue, beside.job),
        (beside.token or "").encode(),
        beside.asked_ttl_ms,
        loose=beside.anything,
    )
    intent = _intent_of_beside(beside, told)
    return LineCall(make(told), intent, beside.sent_ns or beside.opened_ns, beside.asked, beside.queued_ns)


def _intent_of_beside(beside: Beside, told: LineTold) -> AnyIntent | None:
    place, queue = told.place, told.queue
    if beside.intent is not None:
        return INTENTS[beside.intent](told) if beside.intent in INTENTS else None
    match beside.effect:
        case "perhaps_granted":
            return Take(place, queue, told.token, told.ttl_ms, told.loose)
        case "perhaps" if told.ttl_ms is not None:
            return Renew(place, queue, told.lock, told.token, told.ttl_ms)
        case "perhaps":
            return Release(place, queue, told.lock, told.token)
        case "overwritten" | "deleted":
            return Overwrite(place, queue, told.lock, told.token, told.loose)
        case "wiped":
            return Wipe(place, Queue(beside.db or 0, queue.prefix))
        case _:
            return None


def note_of(line: JournalLine, verdict: Verdict | None) -> Note:
    """What the doctor is told: the line, with what the ledger says of it today."""
    rest, queue = line.replay, None
    if line.queue is not None:
        queue = (line.db, f"{line.prefix}:{line.queue}:")
    taken = rest.pickup or _USUAL
    return Note(
        line.seq,
        line.op,
        line.outcome,
        line.effect,
        line.opened_ns,
        line.closed_ns,
        queue,
        line.key,
        line.target,
        line.code,
        line.code_name,
        line.token,
        line.worker or rest.worker or line.token,
        line.conn,
        line.who,
        line.script or "",
        verdict.ttl_ms if verdict else None,
        verdict.age_ms if verdict else None,
        verdict.remaining_ms if verdict else None,
        verdict.grade.value if verdict and verdict.grade else None,
        verdict.finding.word if verdict and verdict.finding else None,
        line.idle_ms,
        line.burst or 0,
        line.lag_us * 1000 / MS,
        taken.starts,
        taken.stalls,
        taken.payload,
        taken.doomed,
        rest.interval_ms,
    )


def _intent(line: JournalLine, told: LineTold) -> AnyIntent | None:
    place, queue, lock, token = told.place, told.queue, told.lock, told.token
    script, whole = line.script or "", told.place._replace(part=0)
    match line.op:
        case "acquire":
            return Take(place, queue, token, told.ttl_ms, told.loose and line.job is None)
        case "renew":
            return Renew(place, queue, lock, token, told.ttl_ms)
        case "reap" | "sweep":
            return Sweep(whole, queue)
        case "wipe":
            return Wipe(whole, Queue(line.db or 0, queue.prefix))
        case "raw" if line.job is not None and line.target is None:
            return Overwrite(place, queue, lock, token, told.loose)
        case "remove" if script.startswith(_SWEEPERS):
            return Sweep(whole, queue) if line.effect == "absent" else None
        case "remove" if script.startswith(_WIPERS):
            return Wipe(whole, queue)
        case "remove" if line.job is not None:
            return Remove(place, queue, lock, token)
        case op if op in MOVES:
            return Release(place, queue, lock, token)
        case _:
            return None


def _names(db: int | None, prefix: str | None, queue: str | None, job: str | None) -> tuple[Queue, Lock]:
    keys = "" if queue is None else f"{prefix}:{queue}:"
    return Queue(db or 0, keys.encode()), Lock(db or 0, f"{keys}{job}:lock".encode())


def _is_pickup(line: JournalLine) -> bool:
    return line.op == "acquire" and (line.script or "moveTo").startswith("moveTo")
