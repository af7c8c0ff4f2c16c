"""What replay needs of a line, and nothing where all is as usual."""

from __future__ import annotations

import json

import msgspec
from msgspec.structs import replace

from emqproxy.locks.events import Nothing, Overwritten, PerhapsGranted, Place, Renew, Window
from emqproxy.observer.journal_replay import SETTINGS_EVERY, Beside, JudgedBy, PickupFields, Replay, ReplayNotes
from emqproxy.observer.tokens import Tokens
from emqproxy.records import FactBeside, JobFields, ObserverSettings
from tests.observer.records_factory import TOKEN, TTL_MS, Story, blind, window

TOKENS = Tokens("fingerprint")


def test_a_healthy_renewal_needs_its_place_and_its_duration() -> None:
    story = Story()
    story.acquire(0)
    told = ReplayNotes(TOKENS).of(story.renew(5), "worker")
    assert json.loads(msgspec.json.encode(told)) == {"request": 2, "asked_ttl_ms": TTL_MS}


def test_from_when_its_age_counts_where_that_is_another_instant() -> None:
    record = Story().acquire(0)
    notes, opened = ReplayNotes(TOKENS), record.verdict.fact.window.opened
    assert notes.of(replace(record, sent_ns=opened), "w").sent_ns == 0
    assert notes.of(replace(record, sent_ns=opened - 5), "w").sent_ns == opened - 5


def test_a_pickup_says_what_it_gave() -> None:
    record = Story().acquire(0, JobFields(attempts_started=3, stalled_count=1, doomed=True))
    assert ReplayNotes(TOKENS).of(record, "w").pickup == PickupFields(3, 1, payload=False, doomed=True)


def test_a_worker_that_the_line_does_not_name() -> None:
    story = Story(token=b"w1:3")
    told = ReplayNotes(TOKENS).of(story.acquire(0), None)
    assert told.worker == TOKENS.name(b"w1").token
    assert ReplayNotes(Tokens("off")).of(story.acquire(0), None).worker is None
    assert ReplayNotes(TOKENS).of(Story(token=b"w1").acquire(0), None).worker is None


def test_what_came_between_with_its_tokens_as_the_policy_says() -> None:
    story = Story(db=3)
    taken = PerhapsGranted(Place(9, 4), window(1), story.queue, TOKEN, 500, anything=True)
    hand = Overwritten(Place(9, 5, 1), window(2), story.lock, story.queue, b"", unread=False)
    pauses = (Window(1, 2), Window(5, 9))
    renew = Renew(Place(9, 6), story.queue, story.lock, TOKEN, 500)
    nothing = Nothing(renew.place, window(3), story.queue)
    besides = (FactBeside(taken, 7), FactBeside(hand, 8), FactBeside(nothing, 9, renew, 3, 2, 1))
    told = ReplayNotes(TOKENS).of(replace(story.acquire(3), besides=besides, pauses=pauses), "w")
    opened, closed = window(1)
    token = TOKENS.name(TOKEN).token
    first = Beside(
        "perhaps_granted", 9, 4, opened, closed, 0, 3, "emq", "orders", None, token, 500, anything=True, turn=7
    )
    second = Beside("overwritten", 9, 5, *window(2), 1, 3, "emq", "orders", "42", turn=8)
    third = Beside("nothing", 9, 6, *window(3), 0, 3, "emq", "orders", "42", turn=9, intent="renew", sent_ns=3, asked=2,
                   queued_ns=1)  # fmt: skip
    assert told.besides == (first, second, third)
    assert msgspec.json.decode(msgspec.json.encode(told), type=Replay) == told
    assert TOKEN not in msgspec.json.encode(told)


def test_the_settings_go_with_the_first_line_one_a_minute_and_when_they_change() -> None:
    story, notes = Story(), ReplayNotes(TOKENS, ObserverSettings(late=0.5, began_ns=7))
    by = JudgedBy(0.5, 0.8, sole_path=False, locks=50_000, began_ns=7)
    record = story.acquire(0)
    assert [notes.of(record, "w").judged for _ in range(2)] == [by, None]
    for _ in range(SETTINGS_EVERY):
        notes.beat()
    assert [notes.of(record, "w").judged for _ in range(2)] == [by, None]
    notes.use(ObserverSettings(sole_path=True))
    changed = notes.of(record, "w").judged
    assert changed is not None
    assert changed.sole_path


def test_a_line_of_no_call_needs_nothing() -> None:
    story = Story()
    story.acquire(0)
    notes = ReplayNotes(TOKENS)
    assert msgspec.json.encode(notes.of(story.lapse(30_031), "w")) == b"{}"
    assert notes.of(blind(story.numbers, 5), None).request == 1
