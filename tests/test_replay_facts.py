"""A line becomes the fact, the intent and the note that the data plane had of it."""

from __future__ import annotations

import msgspec
import pytest

from emqproxy.journal_lines import JournalLine
from emqproxy.locks import events
from emqproxy.locks.events import (
    Absent,
    Granted,
    Lock,
    Overwrite,
    PerhapsGranted,
    Place,
    Queue,
    Release,
    Sweep,
    Take,
    Window,
    Wipe,
)
from emqproxy.observer.journal_replay import Beside, Replay
from emqproxy.replay_facts import FACTS, call_of, call_of_beside, note_of

QUEUE, LOCK = Queue(3, b"emq:orders:"), Lock(3, b"emq:orders:42:lock")


def line(op: str, effect: str, **more: object) -> JournalLine:
    fields = {
        "v": 1, "run": "r", "seq": 5, "time": "2026-11-30T00:53:20Z", "op": op, "outcome": "ok", "opened_ns": 10,
        "closed_ns": 20, "effect": effect, "db": 3, "prefix": "emq", "queue": "orders", "job": "42", "token": "t",
        "conn": 7, "replay": {"request": 9, "asked_ttl_ms": 500, "sent_ns": 8},
    }  # fmt: skip
    return msgspec.convert(fields | more, JournalLine)


def test_every_fact_of_the_house_has_its_word() -> None:
    made = {effect for kind in vars(events).values() if (effect := _effect(kind)) is not None}
    assert set(FACTS) == made - {"lapsed"}


def _effect(kind: object) -> str | None:
    if not (isinstance(kind, type) and issubclass(kind, events.Fact)) or kind.__subclasses__():
        return None
    return events._EFFECTS[kind.__name__]


def test_a_grant_and_its_pickup() -> None:
    call = call_of(line("acquire", "granted"), 1)
    assert call is not None
    assert call.fact == Granted(Place(7, 9), Window(10, 20), LOCK, QUEUE, b"t", 500)
    assert call.intent == Take(Place(7, 9), QUEUE, b"t", 500)
    assert call.sent == 8


def test_a_sweep_is_asked_once_and_answered_last() -> None:
    call = call_of(line("reap", "absent", token=None, replay={"request": 9, "part": 2}), 1)
    assert call is not None
    assert call.fact == Absent(Place(7, 9, 2), Window(10, 20), LOCK, QUEUE, b"", swept=True)
    assert call.intent == Sweep(Place(7, 9), QUEUE)
    assert call.shared


@pytest.mark.parametrize(
    ("op", "effect", "more", "intent"),
    [
        ("finish", "held_by_other", {}, Release),
        ("raw", "deleted", {"script": "DEL"}, Overwrite),
        ("remove", "absent", {"script": "cleanJobsInSet-3"}, Sweep),
        ("remove", "deleted", {"script": "removeOrphanedJobs-1"}, Wipe),
        ("wipe", "wiped", {"job": None, "queue": None, "prefix": None}, Wipe),
        ("write", "untouched", {}, type(None)),
        ("finish", "untouched", {"outcome": "blocked"}, type(None)),
        ("acquire", "perhaps_granted", {"job": None}, Take),
    ],
)
def test_what_a_call_was_about_to_attempt(op: str, effect: str, more: dict[str, object], intent: type) -> None:
    call = call_of(line(op, effect, **more), 1)
    assert call is not None
    assert type(call.intent) is intent


def test_what_this_release_does_not_know_is_no_fact() -> None:
    assert call_of(line("finish", "melted"), 1) is None
    assert call_of(line("finish", "released", job=None), 1) is None
    assert call_of_beside(Beside("melted", 7, 1, 10, 20)) is None


def test_a_line_of_an_older_release_has_its_place_by_its_order() -> None:
    call = call_of(line("renew", "renewed", ttl_ms=700, replay={}), 33)
    assert call is not None
    assert call.fact.place == Place(7, 33)
    assert isinstance(call.fact, events.Renewed)
    assert (call.fact.ttl_ms, call.sent) == (700, 10)


def test_a_fact_without_a_line() -> None:
    beside = Beside("perhaps_granted", 7, 1, 10, 20, 0, 3, "emq", "orders", None, "t", 500, anything=True)
    call = call_of_beside(beside)
    assert call is not None
    assert call.fact == PerhapsGranted(Place(7, 1), Window(10, 20), QUEUE, b"t", 500, anything=True)
    assert call.intent == Take(Place(7, 1), QUEUE, b"t", 500, anything=True)


def test_what_a_fact_without_a_line_answers() -> None:
    nothing = Beside("nothing", 7, 1, 10, 20, 0, 3, "emq", "orders", turn=4, sent_ns=9, asked=2, queued_ns=5)
    taken = call_of_beside(msgspec.structs.replace(nothing, intent="take"))
    assert taken is not None
    assert taken[1:] == (Take(Place(7, 1), QUEUE, b"", None), 9, 2, 5)
    renewed = call_of_beside(msgspec.structs.replace(nothing, intent="renew", job="42"))
    assert renewed is not None
    assert renewed.intent == events.Renew(Place(7, 1), QUEUE, LOCK, b"", None)
    strange = call_of_beside(msgspec.structs.replace(nothing, intent="melt"))
    assert strange is not None
    assert strange.intent is None


def test_a_note_has_the_worker_that_the_token_names() -> None:
    assert note_of(line("renew", "renewed", worker="w"), None).worker == "w"
    assert note_of(msgspec.structs.replace(line("renew", "renewed"), replay=Replay(worker="v")), None).worker == "v"
    note = note_of(line("renew", "renewed", lag_us=1500), None)
    assert (note.worker, note.queue, note.job, note.lag_ms) == ("t", (3, "emq:orders:"), "emq:orders:42", 1.5)
