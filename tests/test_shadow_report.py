"""From a journal's lines to what enforcement would have refused: what is counted, and what is passed over and said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emqproxy import shadow_report
from emqproxy.locks.events import Nothing, Place, Queue
from emqproxy.locks.policy import Rule
from emqproxy.locks.verdicts import Verdict
from emqproxy.records import CallSite, Line, Peer, Record
from emqproxy.shadow_report import ADVICE, GROUPS_MAX, OTHERS, ShadowReader, ShadowReport
from tests.observer.records_factory import RUN, Numbers, Story, blind, decided, window
from tests.shadowed import write_journal


def report(lines: bytes) -> ShadowReport:
    reader = ShadowReader()
    for line in lines.splitlines(keepends=True):
        reader.take(line)
    return reader.report({"zero_token": "enforce", "mass_delete": "shadow"})


def line(**fields: Any) -> bytes:
    told = {
        "v": 1, "run": "r", "seq": 1, "time": "2026-11-30T00:53:38.5Z", "op": "renew", "outcome": "ok", "db": 0,
        "prefix": "emq", "queue": "q", "job": "7", "script": "extendLock-2", "client": "10.0.0.1:5", "action": "passed",
        "rule": None,
    }  # fmt: skip
    return json.dumps(told | fields).encode() + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.ndjson"


def test_calls_are_counted_by_rule_client_and_script(path: Path) -> None:
    story, other = Story(), Story(job=b"43", db=3)
    other.numbers, other.peer = story.numbers, Peer(8, "[::1]:4711", None)
    wipe = Verdict(Nothing(Place(9, 1), window(9), Queue(2, b"")), None)
    batch = [
        decided(story.acquire(0), "passed"),
        decided(story.renew(1), "would_block", "zero_token"),
        decided(story.renew_refused(2), "would_block", "zero_token"),
        decided(other.acquire(3), "would_block", "zero_token"),
        Record(5, Line("wipe", "ok"), wipe, None, CallSite("FLUSHDB", "FLUSHDB", "", "", ""), action="would_block",
               rule="mass_delete"),
        blind(Numbers(), 9),
    ]  # fmt: skip
    story.numbers.seq += 1
    told = report(write_journal(path, *batch).read_bytes())
    assert (told.lines, told.judged, told.unjudged, told.would_block, told.blocked) == (6, 5, 0, 4, 0)
    zero, mass = told.rules  # in the order of the rules
    assert (zero.rule, zero.stance, zero.would_block, zero.accepted) == ("zero_token", "enforce", 3, 2)
    found = {(one.client, one.script): (one.would_block, one.accepted) for one in zero.offences}
    assert found == {
        ("emq:b3JkZXJz:w:one", "extendLocks-1"): (1, 1),
        ("emq:b3JkZXJz:w:one", "extendLock-2"): (1, 0),
        ("[::1]", "moveToActive-11"): (1, 1),
    }
    (of_db_3,) = [one for one in zero.offences if one.client == "[::1]"]
    assert of_db_3.example == shadow_report.Example("emq:orders:43@3", "acquire", RUN, 4)
    (wiped,) = mass.offences
    assert (mass.stance, wiped.client, wiped.script) == ("shadow", "-", "FLUSHDB")
    assert wiped.example is not None
    assert wiped.example.subject == "database 2"


def test_what_was_blocked_is_told_apart_from_what_would_have_been(path: Path) -> None:
    story = Story()
    batch = [decided(story.acquire(0), "would_block", "bad_duration"), *(story.finish_blocked(at) for at in range(5))]
    told = report(write_journal(path, *batch).read_bytes())
    assert (told.would_block, told.blocked) == (1, 5)
    assert [(rule.rule, rule.would_block, rule.blocked) for rule in told.rules] == [
        ("lapsed_holder", 0, 5), ("bad_duration", 1, 0),
    ]  # fmt: skip
    (offence,) = told.rules[0].offences
    assert (offence.first < offence.last, offence.lines) == (True, 5)


def test_the_most_frequent_stands_first() -> None:
    lines = [line(client="a:1", action="would_block", rule="zero_token")]
    lines += [line(client=f"b:{port}", action="would_block", rule="zero_token") for port in range(3)]
    (rule,) = report(b"".join(lines)).rules
    assert [(one.client, one.would_block) for one in rule.offences] == [("b", 3), ("a", 1)]


def test_a_script_that_nobody_knows_is_its_sha_and_a_connection_of_a_socket_its_kind() -> None:
    told = report(line(script=None, sha="f" * 40, client="unix:7", action="would_block", rule="unknown_script"))
    (offence,) = told.rules[0].offences
    assert (offence.client, offence.script) == ("unix", "f" * 40)


def test_lines_of_observe_mode_and_of_older_releases_are_no_proof() -> None:
    older = json.loads(line())
    del older["action"], older["rule"]
    told = report(
        line(action=None) + json.dumps(older).encode() + b"\n" + line(op="lapse", outcome="told", action=None)
    )
    assert (told.lines, told.judged, told.unjudged, told.rules) == (3, 0, 2, [])


@pytest.mark.parametrize(
    ("text", "unreadable", "others"),
    [
        (b"", 0, 0),
        (b"\n  \n", 0, 0),
        (b'{"v":1,"run":"r","seq":2,"ti\n', 1, 0),
        (b"no json\n", 1, 0),
        (b"\xff\xfe\x00\n", 1, 0),
        (b'{"v":1,"run":"\xff","seq":2}\n', 1, 0),
        (b"[1]\n", 1, 0),
        (b"[" * 100_000 + b"\n", 1, 0),
        (b'{"v":"one"}\n', 1, 0),
        (b'{"v":1}\n', 1, 0),
        (b'{"v":2}\n', 0, 1),
        (line(v=2, action="would_block", rule="zero_token"), 0, 1),
        (line(action=7), 1, 0),
    ],
)
def test_what_is_no_line_of_ours_is_counted_and_the_rest_is_read(text: bytes, unreadable: int, others: int) -> None:
    told = report(line() + text + line(seq=2))
    assert (told.lines, told.judged, told.unreadable, told.other_versions) == (2, 2, unreadable, others)


def test_gaps_are_counted_within_each_run() -> None:
    order = [("a", 5), ("a", 6), ("b", 1), ("a", 9), ("b", 2), ("b", 2), ("c", 70)]
    assert report(b"".join(line(run=run, seq=seq) for run, seq in order)).missing == 2


def test_memory_is_bounded_by_clients_and_nothing_is_lost() -> None:
    reader = ShadowReader()
    for number in range(GROUPS_MAX + 50):
        reader.take(line(client_name=f"c{number}", action="would_block", rule="zero_token"))
    (rule,) = reader.report({}).rules
    assert rule.would_block == GROUPS_MAX + 50
    assert len(rule.offences) == GROUPS_MAX + 1
    assert (rule.offences[0].client, rule.offences[0].would_block) == (OTHERS, 50)


def test_every_rule_has_its_advice_and_an_unknown_one_stands_last() -> None:
    assert set(ADVICE) == {rule.value for rule in Rule}
    told = report(line(action="would_block", rule="newer") + line(action="would_block", rule="mass_delete"))
    assert [rule.rule for rule in told.rules] == ["mass_delete", "newer"]
    assert all(rule.advice.endswith(".") for rule in told.rules)
    assert told.rules[1].stance == ""


def test_the_report_is_plain_data() -> None:
    told = msgspec.to_builtins(report(line(action="would_block", rule="zero_token")))
    assert set(told) == {
        "lines", "judged", "unjudged", "other_versions", "unreadable", "missing", "first", "last", "would_block",
        "blocked", "rules",
    }  # fmt: skip
    (rule,) = told["rules"]
    assert set(rule) == {"rule", "stance", "would_block", "blocked", "accepted", "advice", "offences"}
    (offence,) = rule["offences"]
    assert offence == {
        "client": "10.0.0.1", "script": "extendLock-2", "would_block": 1, "blocked": 0, "accepted": 1,
        "first": "2026-11-30T00:53:38.5Z", "last": "2026-11-30T00:53:38.5Z",
        "example": {"subject": "emq:q:7", "op": "renew", "run": "r", "seq": 1},
    }  # fmt: skip
