"""A redacted journal: every field that can hold a name is tried with a canary; what is left means the same."""

from __future__ import annotations

import ast
import inspect
import json
from typing import Any

import msgspec
import pytest

from emqproxy.journal_lines import JournalLine
from emqproxy.locks import deeds, diagnosis, silences, watches
from emqproxy.redaction import CAUSES, OPS, Redactor

CANARY = "canary"
NUMBERS = {"v", "seq", "db", "conn", "code", "opened_ns", "closed_ns", "ttl_ms", "age_ms", "remaining_ms"}


def line(**more: Any) -> JournalLine:
    fields = {
        "v": 1, "run": "r", "seq": 5, "time": "2026-11-30T00:53:38.500500Z", "op": "finish", "outcome": "refused",
        "opened_ns": 10, "closed_ns": 20, "effect": "absent", "code": -2, "code_name": "JobLockNotExist",
        "target": "completed", "db": 3, "prefix": "emq", "queue": "orders", "job": "42", "token": "t", "worker": "w",
        "script": "moveToFinished-14", "sha": "a" * 40, "match": "catalogue", "client": "10.0.0.1:5",
        "client_name": "me", "cause": "retaken", "because": "me took it", "evidence": [1, 2],
    }  # fmt: skip
    return msgspec.convert(fields | more, JournalLine)


def redacted(told: JournalLine, redactor: Redactor | None = None) -> dict[str, Any]:
    data = (redactor or Redactor(b"key", frozenset({"moveToFinished-14"}))).line(told)
    assert data is not None
    read: dict[str, Any] = json.loads(data)
    return read


def test_names_become_pseudonyms_and_the_rest_stays() -> None:
    before, after = json.loads(msgspec.json.encode(line())), redacted(line())
    same = {field for field, value in before.items() if after[field] == value}
    assert before.keys() - same == {
        "run", "queue", "job", "token", "worker", "client", "client_name", "because",
    }  # fmt: skip
    assert after["because"] is None
    assert after["queue"].startswith("queue-")


def test_the_same_name_has_the_same_pseudonym_and_another_key_another() -> None:
    redactor = Redactor(b"key", frozenset())
    first, second = redacted(line(), redactor), redacted(line(seq=6, worker="t"), redactor)
    assert (first["job"], first["token"]) == (second["job"], second["token"])
    assert second["worker"] == second["token"], "a worker's token may be its name: they are compared"
    assert redacted(line(), Redactor(b"other", frozenset()))["job"] != first["job"]


@pytest.mark.parametrize("field", sorted({each.name for each in msgspec.structs.fields(JournalLine)}))
def test_whatever_holds_a_canary_it_is_gone(field: str) -> None:
    if isinstance(getattr(line(), field), str):
        held = line()
        setattr(held, field, CANARY)  # some could not be read so
        data = Redactor(b"key", frozenset()).line(held)
        assert data is None or CANARY.encode() not in data
    else:
        assert field in NUMBERS | {"evidence", "replay", "scope", "grade", "finding", "idle_ms", "burst", "action",
                                   "rule", "took_us", "lag_us"}  # fmt: skip
    for vague in ("scope", "grade", "finding", "action", "rule", "match"):
        data = Redactor(b"key", frozenset()).line(line(**{vague: CANARY}))
        assert data is not None
        assert CANARY.encode() not in data


def test_what_replay_needs_is_redacted_too() -> None:
    beside = {
        "effect": "perhaps", "conn": 7, "request": 1, "opened_ns": 1, "closed_ns": 2, "prefix": CANARY,
        "queue": CANARY, "job": CANARY, "token": CANARY,
    }  # fmt: skip
    told = line(replay={"request": 3, "worker": CANARY, "besides": [beside, beside | {"effect": CANARY}]})
    after = redacted(told)
    assert CANARY not in json.dumps(after)
    assert len(after["replay"]["besides"]) == 1
    assert after["replay"]["besides"][0]["token"] == redacted(line(token=CANARY))["token"]


def test_what_redis_said_of_its_memory_stays_where_it_is_what_redis_says() -> None:
    said = [[5, "volatile-lru", 1 << 30, 7], [6, CANARY, 1 << 30, 8]]
    assert redacted(line(replay={"interval_ms": 1500, "memory": said}))["replay"] == {
        "interval_ms": 1500, "memory": said[:1],
    }  # fmt: skip


def test_prefixes_that_everybody_has_stay() -> None:
    assert redacted(line(prefix="bull"))["prefix"] == "bull"
    assert redacted(line(prefix="acme"))["prefix"].startswith("prefix-")


def test_a_script_that_is_no_published_one_has_a_pseudonym() -> None:
    redactor = Redactor(b"key", frozenset({"moveToFinished-14"}))
    assert redacted(line(script="DEL"), redactor)["script"] == "DEL"
    assert redacted(line(script="acmeMove-3"), redactor)["script"].startswith("script-")


def test_what_no_release_says_is_left_out_and_counted() -> None:
    redactor = Redactor(b"key", frozenset())
    assert redactor.line(line(op=CANARY)) is None
    assert redactor.line(line(outcome=CANARY)) is None
    assert redactor.dropped == 2
    assert "acquire" in OPS


def test_every_cause_that_is_given_stays() -> None:
    """Those in the source of the rules: a new one must be told here, or its reports lose it."""
    given = set()
    for module in (deeds, silences, diagnosis, watches):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Diagnosis" and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    given.add(first.value)
    assert len(given) > 20
    assert given <= CAUSES
