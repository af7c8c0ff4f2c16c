"""The journal's lines, field for field as the contract's table has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emqproxy.locks.events import Deleted, Nothing, PerhapsGranted, Place, Queue, Untouched, Wiped
from emqproxy.locks.verdicts import Finding, Grade, Verdict
from emqproxy.observer.journal import Journal
from emqproxy.observer.journal_file import JournalFile
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Policy, Tokens
from emqproxy.records import CallSite, Line, Message, Record
from tests.observer.records_factory import ANCHOR, BOOT_NS, MS, RUN, TOKEN, Story, blind, call, decided, window

FIELDS = (
    "v,run,seq,time,op,outcome,target,code,code_name,db,prefix,queue,job,token,worker,script,sha,match,conn,client,"
    "client_name,opened_ns,closed_ns,effect,ttl_ms,age_ms,remaining_ms,grade,finding,scope,idle_ms,burst,cause,because,"
    "evidence,action,rule,took_us,lag_us,replay"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.ndjson"


def told(path: Path, *batch: Message, policy: Policy = "fingerprint") -> list[dict[str, Any]]:
    timeline = Timeline()
    timeline.anchor(ANCHOR)
    journal = Journal(RUN, timeline, Tokens(policy), JournalFile(str(path)))
    for message in batch:
        journal.on(message)
    journal.close()
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_line_has_the_tables_fields_in_its_order(path: Path) -> None:
    story = Story()
    lines = told(path, story.acquire(0), story.lapse(30_100), blind(story.numbers, 40_000))
    for line in lines:
        assert ",".join(line) == FIELDS


def test_a_renewal_in_full(path: Path) -> None:
    story = Story(db=3)
    _, line = told(path, story.acquire(0), story.renew(18_500.5, Grade.LATE))
    fingerprint = Tokens("fingerprint").name(TOKEN)
    assert line == {
        "v": 1,
        "run": RUN,
        "seq": 2,
        "time": "2026-11-30T00:53:38.500500Z",
        "op": "renew",
        "outcome": "ok",
        "target": None,
        "code": 1,
        "code_name": None,
        "db": 3,
        "prefix": "emq",
        "queue": "orders",
        "job": "42",
        "token": fingerprint.token,
        "worker": fingerprint.worker,
        "script": "extendLocks-1",
        "sha": "c35baf769e5dc3d9194b2bceca04ab59f7c510f7",
        "match": "catalogue",
        "conn": 7,
        "client": "127.0.0.1:51234",
        "client_name": "emq:b3JkZXJz:w:one",
        "opened_ns": BOOT_NS + 18_500_100_000,
        "closed_ns": BOOT_NS + 18_500_500_000,
        "effect": "renewed",
        "ttl_ms": 30_000,
        "age_ms": 18_500.1,
        "remaining_ms": 11_499.9,
        "grade": "late",
        "finding": "sound",
        "scope": None,
        "idle_ms": None,
        "burst": None,
        "cause": None,
        "because": None,
        "evidence": None,
        "action": None,
        "rule": None,
        "took_us": 400,
        "lag_us": 73,
        "replay": {"request": 2, "asked_ttl_ms": 30_000},
    }


def test_why_stands_on_the_line_with_what_it_rests_on(path: Path) -> None:
    story = Story()
    record = msgspec.structs.replace(
        story.acquire(0), idle_ms=1.23456, burst=2, cause="fixed_token", because="Words.", evidence=(1, 7)
    )
    (line,) = told(path, record)
    assert (line["idle_ms"], line["burst"], line["evidence"]) == (1.235, 2, [1, 7])
    assert (line["cause"], line["because"]) == ("fixed_token", "Words.")


def test_what_was_decided_on_a_call_stands_on_its_line(path: Path) -> None:
    story = Story()
    batch = [
        decided(story.acquire(0), "passed"),
        decided(story.renew(5, Grade.LATE), "would_block", "zero_token"),
        story.finish_blocked(6),
        story.renew(7),
        story.lapse(60_000),
        blind(story.numbers, 60_001),
    ]
    lines = told(path, *batch)
    assert [(line["action"], line["rule"]) for line in lines] == [
        ("passed", None), ("would_block", "zero_token"), ("blocked", "lapsed_holder"),
        (None, None), (None, None), (None, None),
    ]  # fmt: skip
    blocked = lines[2]
    assert (blocked["outcome"], blocked["code"], blocked["effect"]) == ("blocked", -6, "untouched")


def test_a_refused_renewal(path: Path) -> None:
    story = Story()
    _, line = told(path, story.acquire(0), story.renew_refused(31_000))
    assert (line["outcome"], line["code"], line["code_name"]) == ("refused", 0, "RenewRefused")
    assert (line["effect"], line["grade"], line["finding"]) == ("not_mine", "too_late", "straggler")
    assert (line["age_ms"], line["remaining_ms"]) == (31_000.123, -1_000.123)


def test_a_lapse_is_told_when_it_was_told_and_took_no_time(path: Path) -> None:
    story = Story()
    _, line = told(path, story.acquire(0), story.lapse(30_031))
    assert line["time"] == "2026-11-30T00:53:50.031000Z"
    assert line["closed_ns"] == BOOT_NS + 30_030 * MS
    assert (line["op"], line["outcome"], line["effect"]) == ("lapse", "told", "lapsed")
    assert line["took_us"] is None
    assert line["conn"] is None
    assert line["token"] == Tokens("fingerprint").name(TOKEN).token


def test_a_connection_gone_blind_has_no_job(path: Path) -> None:
    story = Story()
    (line,) = told(path, blind(story.numbers, 5))
    assert (line["op"], line["outcome"], line["effect"]) == ("blind", "told", "blinded")
    assert (line["conn"], line["client"]) == (7, "unix:7")
    assert [line[name] for name in ("db", "prefix", "queue", "job", "token", "finding")] == [None] * 6


def test_a_pickup_that_failed_names_its_queue_and_no_job(path: Path) -> None:
    fact = PerhapsGranted(Place(1, 1), window(0), Queue(0, b"{a}:b:q:"), TOKEN, 30_000)
    line = Line("acquire", "error", code_name="OOM")
    (told_line,) = told(path, Record(1, line, Verdict(fact, None), None, call("moveToActive-11")))
    assert [told_line[name] for name in ("prefix", "queue", "job", "db")] == ["{a}:b", "q", None, 0]
    assert told_line["effect"] == "perhaps_granted"
    assert told_line["token"] == Tokens("fingerprint").name(TOKEN).token


def test_keys_that_are_no_utf8_make_valid_lines(path: Path) -> None:
    story = Story(job=b'\xff\n"', queue=b"emq:\xc3:")
    (line,) = told(path, story.acquire(0))
    assert (line["queue"], line["job"]) == ("\\xc3", '\\xff\n"')


def test_the_token_is_told_as_the_policy_says(path: Path) -> None:
    story = Story()
    assert told(path, story.acquire(0), policy="off")[0]["token"] is None
    assert TOKEN not in path.read_bytes()
    assert told(path, story.acquire(0), policy="raw")[1]["token"] == TOKEN.decode()


def test_a_batch_is_one_write(path: Path) -> None:
    """Nothing is there before the flush, everything after it."""
    timeline, story = Timeline(), Story()
    journal = Journal(RUN, timeline, Tokens("off"), JournalFile(str(path)))
    journal.on(story.acquire(0))
    journal.on(story.finish(5))
    assert not path.exists()
    journal.flush()
    assert len(path.read_bytes().splitlines()) == 2


def test_numbers_that_are_skipped_are_counted_across_observers(path: Path) -> None:
    story = Story()
    batch = [story.acquire(0), story.renew(1_000), story.renew(2_000), story.renew(3_000), story.renew(4_000)]
    timeline = Timeline()
    timeline.anchor(ANCHOR)
    first = Journal(RUN, timeline, Tokens("off"), JournalFile(str(path)))
    first.on(batch[0])
    first.close()
    second = Journal(RUN, timeline, Tokens("off"), JournalFile(str(path)))  # the first was killed with two in hand
    second.on(batch[3])
    second.on(batch[4])
    second.close()
    assert (first.missing, second.missing) == (0, 2)
    other_run = Journal("another", timeline, Tokens("off"), JournalFile(str(path)))
    other_run.on(batch[0])
    assert other_run.missing == 0


def test_an_add_names_its_job_and_no_token(path: Path) -> None:
    story = Story()
    fact = Untouched(Place(8, 1), window(5), story.lock, story.queue, b"")
    (line,) = told(path, Record(1, Line("add", "ok"), Verdict(fact, None), None, call("addStandardJob-9")))
    fields = ("op", "effect", "db", "prefix", "queue", "job", "token", "finding")
    assert {field: line[field] for field in fields} == {
        "op": "add",
        "effect": "untouched",
        "db": 0,
        "prefix": "emq",
        "queue": "orders",
        "job": "42",
        "token": None,
        "finding": None,
    }


def test_a_command_that_is_no_script_has_its_name_and_no_sha(path: Path) -> None:
    story = Story()
    fact = Deleted(Place(8, 1), window(5), story.lock, story.queue, b"")
    verdict = Verdict(fact, Finding.UNWITNESSED)
    (line,) = told(path, Record(1, Line("raw", "ok", code=1), verdict, None, CallSite("DEL", "DEL", "", "", "")))
    assert [line[field] for field in ("op", "script", "sha", "match", "job", "code")] == [
        "raw", "DEL", None, None, "42", 1,
    ]  # fmt: skip


def test_a_wipe_has_no_job_and_of_a_database_no_queue(path: Path) -> None:
    place, seen = Place(8, 1), window(5)
    by_hand = CallSite("FLUSHDB", "FLUSHDB", "", "", "")
    whole = Record(1, Line("wipe", "ok"), Verdict(Wiped(place, seen, 3), None), None, by_hand)
    refused = Record(2, Line("wipe", "error"), Verdict(Nothing(place, seen, Queue(3, b"")), None), None, by_hand)
    obliterated = Verdict(Wiped(place, seen, 3, b"emq:orders:"), None)
    queue = Record(3, Line("wipe", "ok"), obliterated, None, call("obliterate-2"))
    lines = told(path, whole, refused, queue)
    assert [[line[field] for field in ("op", "db", "prefix", "queue", "job")] for line in lines] == [
        ["wipe", 3, None, None, None],
        ["wipe", 3, None, None, None],
        ["wipe", 3, "emq", "orders", None],
    ]
