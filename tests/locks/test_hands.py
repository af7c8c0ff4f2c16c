"""Which raw lines are hands on lists and hashes, and what they did there."""

from __future__ import annotations

from typing import Any

import pytest

from emqproxy.journal_lines import JournalLine
from emqproxy.locks.hands import Deed, done, meant, pushed, took_off_active

FIELDS: dict[str, Any] = {
    "v": 1, "run": "r", "seq": 1, "time": "2026-11-30T00:53:20.000000Z", "outcome": "ok", "opened_ns": 1_000_000_000,
    "closed_ns": 1_000_400_000, "effect": "untouched", "db": 0, "prefix": "emq", "queue": "orders", "job": "42",
    "client": "127.0.0.1:5", "client_name": "a-hand",
}  # fmt: skip


def raw(script: str | None, target: str | None, **more: Any) -> JournalLine:
    """A hand's line, as the journal has it."""
    return JournalLine(**{**FIELDS, "op": "raw", "script": script, "target": target, **more})


@pytest.mark.parametrize(
    ("script", "target", "code", "deed"),
    [
        ("LPUSH", "wait", 1, Deed.PUT),
        ("LINSERT", "paused", 3, Deed.PUT),
        ("LSET", "wait", None, Deed.PUT),
        ("ZADD", "delayed", 0, Deed.PUT),
        ("LREM", "active", 1, Deed.TAKEN),
        ("ZREM", "prioritized", 2, Deed.TAKEN),
        ("RPOP", "active", None, Deed.TAKEN),
        ("LMOVE", "active", None, Deed.TAKEN),
        ("LMOVE", "wait", None, Deed.MOVED),
        ("RPOPLPUSH", "paused", None, Deed.MOVED),
        ("DEL", "job", 1, Deed.HASH),
        ("RENAME", "job", None, Deed.HASH),
    ],
)
def test_what_a_hand_did(script: str, target: str, code: int | None, deed: Deed) -> None:
    assert done(raw(script, target, code=code)) is deed


def test_a_line_that_names_no_job_is_of_the_whole_list() -> None:
    assert done(raw("DEL", "active", job=None, code=1)) is Deed.LIST
    assert done(raw("LTRIM", "wait", job=None)) is Deed.LIST


@pytest.mark.parametrize(
    ("script", "target", "code"),
    [("LREM", "active", 0), ("ZREM", "delayed", 0), ("DEL", "job", 0), ("LPUSHX", "wait", 0), ("LINSERT", "wait", -1)],
)
def test_what_says_that_it_did_nothing_did_nothing(script: str, target: str, code: int) -> None:
    assert done(raw(script, target, code=code)) is None


def test_what_failed_did_nothing_that_is_known() -> None:
    for outcome in ("error", "unknown"):
        assert done(raw("LREM", "active", outcome=outcome)) is None
        assert meant(raw("LREM", "active", outcome=outcome)) is Deed.TAKEN


def test_a_write_on_the_lock_is_no_hand() -> None:
    assert meant(raw("DEL", None, effect="deleted", code=1)) is None
    assert meant(raw("LREM", "active", op="finish")) is None


@pytest.mark.parametrize(
    ("script", "target", "more", "puts", "takes"),
    [
        ("LPUSH", "wait", {}, True, False),
        ("ZINCRBY", "prioritized", {}, True, False),
        ("RPOPLPUSH", "paused", {}, True, False),
        ("LPUSHX", "wait", {"code": 0}, False, False),
        ("LREM", "wait", {"code": 1}, False, False),
        ("RPOPLPUSH", "active", {}, False, True),
        ("LREM", "active", {"code": 1}, False, True),
        ("LREM", "active", {"code": 0}, False, False),
        ("LTRIM", "active", {"job": None}, False, True),
        ("DEL", "wait", {"job": None, "code": 1}, False, False),
        ("LPUSH", "active", {}, False, False),
        ("DEL", "job", {"code": 1}, False, False),
        ("DEL", None, {"code": 1}, False, False),
    ],
)
def test_what_gives_a_job_out_again_and_what_hides_it(
    script: str, target: str | None, more: dict[str, Any], puts: bool, takes: bool
) -> None:
    line = raw(script, target, **more)
    assert (pushed(line), took_off_active(line)) == (puts, takes)
