"""A journal's lines become a timeline: what was seen, and no more."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emqproxy.journal_timeline import lock_timeline, name_of
from emqproxy.lock_timeline import LockTimeline, Mark, Marked, Proof, Stretch
from emqproxy.locks.verdicts import Grade
from emqproxy.observer.journal import Journal
from emqproxy.observer.journal_file import JournalFile
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from tests.observer.records_factory import ANCHOR, OTHER_TOKEN, RUN, Numbers, Story

DAY = "2026-11-29T18:00"
SUBJECT = {"db": 0, "prefix": "emq", "queue": "demo", "job": "stuck"}
TARGETS = {"reap": "wait", "finish": "completed"}


def line(at_s: float, op: str, effect: str, token: str | None = "aa11", **more: Any) -> dict[str, Any]:
    """One line as the journal writes it, of the fields that are read and some others."""
    outcome = {"lapsed": "told", "not_mine": "refused", "held_by_other": "refused"}.get(effect, "ok")
    if op == "finish" and effect == "absent":
        outcome = "refused"
    return {
        "v": 1, "run": "r", "seq": 1, "time": f"{DAY}:{at_s:09.6f}Z", "op": op, "outcome": outcome,
        "target": TARGETS.get(op), "code": None, **SUBJECT, "token": token, "worker": token and token * 4, "conn": 3,
        "client": "127.0.0.1:5", "client_name": None, "effect": effect, "ttl_ms": 3000, "grade": None,
    } | more  # fmt: skip


STUCK = [
    line(1, "acquire", "granted"),
    line(2, "renew", "renewed", grade="on_time"),
    line(4.2, "renew", "renewed", grade="late"),
    line(7.206, "lapse", "lapsed", ttl_ms=None),
    line(9, "reap", "absent", token=None, ttl_ms=None),
    line(9.1, "acquire", "granted", token="bb22"),
    line(9.5, "renew", "not_mine", grade="too_late"),
    line(9.6, "write", "untouched"),
    line(9.7, "finish", "held_by_other"),
    line(10, "finish", "released", token="bb22"),
]


def told(lines: list[dict[str, Any]]) -> LockTimeline:
    return lock_timeline(lines, "emq:demo:stuck")


def test_a_lock_that_was_lost_and_taken_over() -> None:
    timeline = told(STUCK)
    first, second = timeline.holdings
    assert first.proofs == (Proof(0, 3000), Proof(1000, 4000), Proof(3200, 6200, Mark.LATE))
    # It lapsed when its time was over; it was told a little later.
    assert first.marks == (
        Marked(6200, Mark.LAPSED),
        Marked(8500, Mark.REFUSED),
        Marked(8700, Mark.FINISH_REFUSED),
    )
    assert second.proofs == (Proof(8100, 11100),)
    assert second.marks == (Marked(9000, Mark.FINISHED),)
    assert timeline.queue == (Marked(8000, Mark.SWEEP_RECOVERS),)
    assert (timeline.start_ms, timeline.end_ms) == (0, 9000)
    assert [holding.name for holding in timeline.holdings] == ["worker aa11aa11", "worker bb22bb22"]


def test_lines_of_other_jobs_and_of_no_job_are_passed_over() -> None:
    others = [
        line(0, "acquire", "granted", **{name: other}) for name, other in {"job": "x", "queue": "q", "db": 3}.items()
    ]
    others += [line(0, "conn", "sighted", job=None, prefix=None, queue=None, db=None), {}]
    assert told([*others, *STUCK]) == told(STUCK)
    assert lock_timeline(others, "emq:demo:stuck", 3).holdings


@pytest.mark.parametrize(
    "taken",
    [
        line(3, "raw", "deleted", token=None),
        line(3, "acquire", "granted", token="bb22"),
        line(3, "renew", "renewed", token="bb22"),
        line(3, "reap", "absent", token=None),
    ],
)
def test_a_lock_that_lives_and_is_taken_away_is_lost(taken: dict[str, Any]) -> None:
    assert told([STUCK[0], taken]).holdings[0].marks == (Marked(2000, Mark.LOST),)


def test_a_lapse_that_was_not_told_is_known_by_the_sweep() -> None:
    swept = told([STUCK[0], line(4.5, "reap", "absent", token=None, target="failed")])
    assert swept.holdings[0].marks == (Marked(3000, Mark.LAPSED),)
    assert swept.queue == (Marked(3500, Mark.OVER_LIMIT),)


@pytest.mark.parametrize(
    ("at_s", "took_us", "mark"),
    [(3.9, 0, Mark.LOST), (3.995, 0, Mark.LOST), (3.997, 0, Mark.LAPSED), (3.9, 100_000, Mark.LAPSED)],
)
def test_just_before_its_end_a_lock_is_as_good_as_over(at_s: float, took_us: int, mark: Mark) -> None:
    """The time to live began somewhere in the call, and Redis may be a little off."""
    swept = told([STUCK[0] | {"took_us": took_us}, line(at_s, "reap", "absent", token=None)])
    assert swept.holdings[0].marks == (Marked(pytest.approx(at_s * 1000 - 1000), mark),)


def test_what_was_not_seen_is_not_made_up() -> None:
    partial, stranger = told([line(0, "renew", "renewed"), line(1, "finish", "absent", token="cc33")]).holdings
    assert (partial.partial, partial.proofs) == (True, (Proof(0, 3000),))
    assert (stranger.partial, stranger.proofs, stranger.marks) == (True, (), (Marked(1000, Mark.FINISH_REFUSED),))
    assert told([line(0, "lapse", "lapsed")]).holdings[0].marks == (Marked(0, Mark.LAPSED),)
    assert told([]).holdings == ()


def test_refused_by_us_is_refused() -> None:
    blocked = told([*STUCK[:1], line(2, "renew", "not_mine", outcome="blocked"), line(2, "add", "no_proof")])
    assert blocked.holdings[0].marks == (Marked(1000, Mark.REFUSED),)


def test_a_zero_of_ones_own_is_shared_by_many_jobs() -> None:
    zero = datetime.fromisoformat(f"{DAY}:00Z")
    timeline = lock_timeline(STUCK, "emq:demo:stuck", zero=zero)
    assert timeline.holdings[0].proofs[0] == Proof(1000, 4000)


def test_without_tokens_a_connection_is_the_speaker() -> None:
    lines = [line(0, "acquire", "granted", token=None, conn=1), line(1, "renew", "not_mine", token=None, conn=2)]
    first, second = told(lines).holdings
    assert (first.marks, second.marks) == ((), (Marked(1000, Mark.REFUSED),))


def test_two_names_under_one_token_are_two_rows() -> None:
    """Of a lapse no client is told: it is of who held it last."""
    told_by = {"one": (1, 2), "two": (5, 6)}
    lines = [
        line(at_s, op, effect, client_name=name)
        for name, (first, then) in told_by.items()
        for at_s, op, effect in ((first, "acquire", "granted"), (then, "renew", "renewed"))
    ]
    lapse = line(9.1, "lapse", "lapsed", ttl_ms=None, client=None, conn=None)
    late = line(9.5, "renew", "not_mine", client_name="one")
    one, two = told([*lines, lapse, late]).holdings
    assert [len(row.proofs) for row in (one, two)] == [2, 2]
    assert Marked(8500, Mark.REFUSED) in one.marks
    assert two.marks == (Marked(8000, Mark.LAPSED),)


def test_who_waited_long_is_drawn_from_the_first_pickup_on() -> None:
    add = line(1, "add", "no_proof", token=None, ttl_ms=None)
    course = [line(6, "acquire", "granted"), line(6.02, "renew", "renewed"), line(6.04, "finish", "released")]
    timeline = told([add, *course])
    assert [at_ms for at_ms, *_ in timeline.holdings[0].proofs] == [0, 20]
    assert (timeline.start_ms, timeline.end_ms, timeline.before) == (0, 40, "added 5.0 s before")
    hand = line(5.99, "raw", "untouched", token=None, target="wait", script="LPUSH")
    timeline = told([add, hand, *course])
    assert timeline.queue == (Marked(0, Mark.HAND_PUTS),)
    assert (timeline.holdings[0].proofs[0].at_ms, timeline.before) == (10, "added 5.0 s before")
    assert told([hand | {"time": add["time"]}, *course]).before == "first heard of 5.0 s before"


def test_who_waited_no_longer_than_it_lived_is_drawn_from_its_add_on() -> None:
    add = line(1, "add", "no_proof", token=None, ttl_ms=None)
    timeline = told([add, line(3, "acquire", "granted"), line(5, "finish", "released")])
    assert (timeline.holdings[0].proofs[0].at_ms, timeline.end_ms, timeline.before) == (2000, 4000, "")
    zero = datetime.fromisoformat(f"{DAY}:00Z")
    shared = lock_timeline([add, line(9, "acquire", "granted")], "emq:demo:stuck", zero=zero)
    assert (shared.holdings[0].proofs[0].at_ms, shared.before) == (9000, "")
    assert told([add]).before == ""


def test_names() -> None:
    assert name_of(STUCK[0] | {"client_name": "invoices"}) == "invoices"
    assert name_of(STUCK[0] | {"worker": None}) == "worker aa11"
    assert name_of(STUCK[0] | {"worker": None, "token": None}) == "127.0.0.1:5"
    assert name_of({}) == "somebody"
    assert lock_timeline(STUCK, "emq:demo:stuck", name=lambda _: "w").holdings[0].name == "w"


def test_a_line_that_is_none_is_said() -> None:
    with pytest.raises(msgspec.ValidationError, match="time"):
        told([STUCK[0] | {"time": "noon"}])


def test_it_reads_what_the_journal_writes(tmp_path: Path) -> None:
    timeline, path = Timeline(), tmp_path / "journal.ndjson"
    timeline.anchor(ANCHOR)
    journal = Journal(RUN, timeline, Tokens("fingerprint"), JournalFile(str(path)))
    first, numbers = Story(), Numbers()
    second = Story(token=OTHER_TOKEN, numbers=numbers)
    for record in (
        first.acquire(0), first.renew(20_000, Grade.LATE), first.lapse(50_031), first.reap(60_000),
        second.acquire(60_010), first.renew_refused(61_000), first.finish_refused(61_500), first.finish_blocked(61_600),
        second.finish(70_000),
    ):  # fmt: skip
        journal.on(record)
    journal.close()
    lines = [json.loads(text) for text in path.read_bytes().splitlines()]
    told = lock_timeline(lines, "emq:orders:42")
    assert [[mark for _, mark in holding.marks] for holding in told.holdings] == [
        [Mark.LAPSED, Mark.REFUSED, Mark.FINISH_REFUSED, Mark.FINISH_REFUSED],
        [Mark.FINISHED],
    ]
    assert told.holdings[0].proofs == (Proof(0, 30_000), Proof(20_000, 50_000, Mark.LATE))
    assert told.holdings[0].marks[0].at_ms == 50_000
    assert [mark for _, mark in told.queue] == [Mark.SWEEP_RECOVERS]


def test_what_the_holder_is_told_ends_its_holding() -> None:
    (row,) = told([line(1, "acquire", "granted"), line(2, "renew", "not_mine"), line(3, "finish", "absent")]).holdings
    assert row.doubts == (Stretch(0, 1000),), "nobody knows since when"
    went = line(2, "finish", "released", outcome="refused", code=-3)
    (row,) = told([line(1, "acquire", "granted"), went, line(3, "finish", "absent")]).holdings
    assert row.doubts == (Stretch(1000, 1000),), "until that call it was held"
    (row,) = told([line(1, "acquire", "granted"), line(5, "finish", "absent")]).holdings
    assert row.doubts == (), "its time was over"
    pending = line(2, "finish", "no_proof", outcome="refused", code=-4)
    (row,) = told([line(1, "acquire", "granted"), pending]).holdings
    assert row.doubts == (), "-4 says nothing of the lock"


def test_behind_a_script_s_hand_on_the_lock_nothing_is_known() -> None:
    hand = line(2, "raw", "overwritten", token=None)
    for then, doubt in (
        (line(3, "renew", "not_mine"), Stretch(1000, 2000)),
        (line(3, "renew", "renewed"), Stretch(1000, 2000)),
        (line(3, "write", "untouched"), Stretch(1000, 3000)),
    ):
        (row,) = told([line(1, "acquire", "granted"), hand, then]).holdings
        assert row.doubts == (doubt,), then


def of_queue(at_s: float, op: str, effect: str, **more: Any) -> dict[str, Any]:
    """A line that names no job."""
    return line(at_s, op, effect, token=None, **({"job": None, "target": None} | more))


@pytest.mark.parametrize(
    "wipe",
    [
        of_queue(3, "wipe", "wiped", prefix=None, queue=None, db=None),
        of_queue(3, "wipe", "wiped", prefix=None, queue=None),
        of_queue(3, "wipe", "wiped"),
        line(3, "wipe", "deleted", token=None),
    ],
)
def test_a_wipe_ends_the_holder_s_bar_and_has_a_mark(wipe: dict[str, Any]) -> None:
    timeline = told([STUCK[0], wipe])
    assert timeline.holdings[0].marks == (Marked(2000, Mark.LOST),)
    assert timeline.queue == (Marked(2000, Mark.WIPED),)
    assert timeline.end_ms == 2000


def test_a_wipe_of_others_before_it_or_that_did_nothing_is_nothing_to_a_job() -> None:
    for wipe in (
        of_queue(3, "wipe", "wiped", db=3, prefix=None, queue=None), of_queue(3, "wipe", "wiped", queue="mails"),
        of_queue(3, "wipe", "nothing"), of_queue(0.5, "wipe", "wiped"), of_queue(3, "sweep", "nothing"),
    ):  # fmt: skip
        lines = sorted([STUCK[0], wipe], key=lambda each: str(each["time"]))
        assert told(lines).queue == ()
        assert told(lines).holdings[0].marks == ()
    given_back = told([STUCK[0], line(2, "finish", "released"), of_queue(9, "wipe", "wiped")])
    assert given_back.end_ms == 1000, "nobody held it: the picture ends where its lines do"


@pytest.mark.parametrize(
    ("script", "target", "job", "mark"),
    [
        ("LPUSH", "wait", "stuck", Mark.HAND_PUTS),
        ("LMOVE", "wait", "stuck", Mark.HAND_PUTS),
        ("LREM", "active", "stuck", Mark.HAND_TAKES),
        ("LTRIM", "active", None, Mark.HAND_TAKES),
        ("UNLINK", "job", "stuck", Mark.HAND_DELETES),
    ],
)
def test_a_hand_has_a_mark_and_takes_no_lock(script: str, target: str, job: str | None, mark: Mark) -> None:
    hand = line(3, "raw", "untouched", token=None, script=script, target=target, job=job, code=1)
    timeline = told([STUCK[0], hand])
    assert timeline.queue == (Marked(2000, mark),)
    assert timeline.holdings[0].marks == ()
    assert told([STUCK[0], hand | {"code": 0}]).queue == ()
