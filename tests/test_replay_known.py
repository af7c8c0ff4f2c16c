"""Behind a gap only what is seen whole is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emqproxy import replay_known
from emqproxy.journal_lines import JournalLine
from emqproxy.observer.journal_replay import PickupFields
from emqproxy.replay_known import KnownSince
from tests.locks.test_hands import raw
from tests.observer.records_factory import OTHER_TOKEN, Numbers, Story
from tests.test_explain_story import read

OPENED = raw(None, "opened", op="conn", effect="met", job=None, prefix=None, queue=None, db=None, conn=7)


def compared(*lines: JournalLine, cause: str | None = None) -> list[bool]:
    since = KnownSince()
    return [since.line(line, cause) for line in lines]


@pytest.fixture
def attempt(tmp_path: Path) -> list[JournalLine]:
    story = Story()
    return read(tmp_path, story.acquire(0), story.renew(5_000), story.finish_refused(9_000))


def starts(line: JournalLine, count: int) -> JournalLine:
    return replace(line, replay=replace(line.replay, pickup=PickupFields(count)))


def test_a_job_is_known_from_its_first_pickup_or_its_add_on(attempt: list[JournalLine]) -> None:
    taken, renewed, _ = attempt
    assert compared(taken, renewed) == [False, True]
    assert compared(starts(taken, 2), renewed) == [False, False]
    assert compared(renewed, taken, renewed) == [False, False, False]
    add = raw(None, None, op="add", effect="no_proof")
    assert compared(add, starts(taken, 2), renewed) == [False, True, True]
    assert compared(replace(add, outcome="error"), starts(taken, 2), renewed) == [False, False, False]
    assert compared(raw("LPUSH", "wait"), taken, renewed) == [False, False, False]
    since = KnownSince()
    since.beside("0:emq:orders:42")
    assert [since.line(line, None) for line in (taken, renewed)] == [False, False]


def test_what_a_worker_was_before_must_be_seen_for_a_refusal(attempt: list[JournalLine]) -> None:
    taken, renewed, refused = attempt
    assert compared(taken, renewed, refused) == [False, True, False]
    assert compared(OPENED, taken, renewed, refused)[1:] == [False, True, True]
    elsewhere = replace(renewed, conn=3)
    assert compared(OPENED, taken, elsewhere, refused)[1:] == [False, True, False], "it has a connection from before"
    closed = replace(OPENED, target="closed")
    assert compared(OPENED, closed, taken, refused)[2:] == [False, False]


def test_a_token_must_have_taken_the_job_since(attempt: list[JournalLine], tmp_path: Path) -> None:
    taken, _, refused = attempt
    *_, other = read(tmp_path, Story(token=OTHER_TOKEN, numbers=Numbers()).acquire(0))
    stranger = replace(refused, token=other.token, worker=other.worker)
    assert compared(OPENED, taken, stranger, starts(other, 2), stranger)[1:] == [False, False, True, True]


@pytest.mark.parametrize(
    "vague", [{"finding": "doubtful"}, {"cause": "lock_vanished_early"}, {"cause": "eviction_suspected"}]
)
def test_what_rests_on_what_was_heard_before_is_not_compared(attempt: list[JournalLine], vague: dict[str, Any]) -> None:
    taken, _, refused = attempt
    assert compared(OPENED, taken, replace(refused, **vague))[1:] == [False, False]
    assert compared(OPENED, taken, refused, cause="eviction_suspected")[1:] == [False, False]


def test_what_names_no_job(attempt: list[JournalLine]) -> None:
    error = replace(attempt[0], job=None, outcome="error", effect="nothing")
    assert compared(error, replace(error, op="sweep", outcome="ok")) == [True, False]


def test_what_is_kept_is_bounded(attempt: list[JournalLine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_known, "KNOWN_MAX", 4)
    since, (taken, renewed, _) = KnownSince(), attempt
    assert [since.line(line, None) for line in (taken, renewed)] == [False, True]
    assert not since.line(replace(taken, job="43"), None)
    assert [since.line(line, None) for line in (taken, renewed)] == [False, False]
