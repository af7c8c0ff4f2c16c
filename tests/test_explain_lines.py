"""One line in words."""

from __future__ import annotations

from typing import Any

import pytest

from emqproxy.explain_lines import hand_words, words
from emqproxy.journal_lines import JournalLine
from tests.locks.test_hands import FIELDS, raw


def line(op: str, **more: Any) -> JournalLine:
    return JournalLine(**{**FIELDS, "op": op, **more})


@pytest.mark.parametrize(
    ("said", "script", "target", "more"),
    [
        ("puts it into wait by hand (LPUSH)", "LPUSH", "wait", {"code": 1}),
        ("puts it into delayed by hand (ZADD)", "ZADD", "delayed", {"code": 1}),
        ("sets its place in prioritized by hand (ZADD)", "ZADD", "prioritized", {"code": 0}),
        ("moves it into wait by hand (LMOVE)", "LMOVE", "wait", {}),
        ("takes it out of active by hand (LREM)", "LREM", "active", {"code": 1}),
        ("takes it out of active by hand (RPOP)", "RPOP", "active", {}),
        ("deletes the job's hash (DEL)", "DEL", "job", {"code": 1}),
        ("renames the job's hash (RENAME)", "RENAME", "job", {}),
        ("deletes the whole active list (DEL)", "DEL", "active", {"job": None, "code": 1}),
        ("trims the whole wait list (LTRIM)", "LTRIM", "wait", {"job": None}),
        ("changes the whole delayed set (ZREMRANGEBYSCORE)", "ZREMRANGEBYSCORE", "delayed", {"job": None}),
    ],
)
def test_a_hand(said: str, script: str, target: str, more: dict[str, Any]) -> None:
    told = raw(script, target, **more)
    assert hand_words(told) == said
    assert words(told, "a-hand", "one") == f"a-hand {said}"


def test_a_hand_that_did_nothing_is_not_told() -> None:
    for script, target in (("LREM", "active"), ("ZREM", "delayed"), ("DEL", "job")):
        assert words(raw(script, target, code=0), "a-hand", None) is None


def test_a_hand_whose_call_failed() -> None:
    failed = raw("LREM", "active", outcome="error", code_name="WRONGTYPE")
    assert words(failed, "a-hand", None) == "a-hand: LREM on active by hand failed: WRONGTYPE"
    unheard = raw("DEL", "job", outcome="unknown")
    assert words(unheard, "a-hand", None) == "a-hand: DEL on the job's hash by hand, whose answer never came"
    blocked = raw("DEL", None, outcome="blocked", rule="raw_lock_write")
    assert words(blocked, "a-hand", None) == "a-hand: DEL on its lock by hand refused by emqproxy (raw_lock_write)"


def test_a_hand_on_the_lock_itself() -> None:
    assert words(raw("DEL", None, effect="deleted", code=1), "x", "one") == "x deletes its lock by hand (DEL)"
    assert words(raw("SET", None, effect="overwritten"), "x", "one") == "x writes on its lock by hand (SET)"
    script = raw(None, None, effect="overwritten", sha="c35baf769e5d")
    assert words(script, "x", None) == "x writes on its lock by a script that nobody knows (sha c35baf76…)"
    assert words(raw("DEL", None, effect="absent", code=0), "x", None) is None


def test_who_is_given_it_from_whom() -> None:
    taken = line("acquire", effect="granted", ttl_ms=30_000)
    assert words(taken, "two", "one") == "two is given it, which one held; the lock lives 30.0 s"
    assert words(taken, "two", None) == "two is given it; the lock lives 30.0 s"
    assert words(line("acquire", effect="no_proof"), "two", None) == "two is given it, without a lock"


def test_only_a_late_renewal_is_late() -> None:
    late = line("renew", effect="renewed", grade="late", age_ms=20_000.0)
    assert words(late, "one", None) == "one renews late, 20.0 s after its last proof"
    odd = line("renew", effect="renewed", grade="on_time", age_ms=20.0, cause="fixed_token")
    assert words(odd, "one", None) == "one renews"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (line("finish", target="completed", effect="bypassed"),
         'x finishes it (completed) with the token "0", without its lock'),
        (line("reap", target="failed", effect="absent"), "a sweep by x finds it without a lock: back to failed"),
        (line("wipe", effect="wiped", script="obliterate-2"), "x empties its queue (obliterate-2)"),
        (line("wipe", effect="wiped", script="FLUSHDB", queue=None), "x empties its database (FLUSHDB)"),
        (line("wipe", effect="wiped", script="FLUSHALL", queue=None, db=None), "x empties all databases (FLUSHALL)"),
        (line("wipe", effect="wiped", script="SWAPDB", queue=None), "x swaps its database for another (SWAPDB)"),
        (line("wipe", effect="nothing", script="FLUSHDB"), None),
        (line("conn", effect="met", conn=None), "Redis was lost, or another one answers"),
        (line("watch", cause="no_sweeper", because="No sweep."), "no_sweeper: No sweep."),
        (line("retry", outcome="refused", code=-6, code_name="Mismatch"), "x: retry refused: -6 Mismatch"),
        (line("write"), None),
    ],
)  # fmt: skip
def test_what_else_happens(told: JournalLine, said: str | None) -> None:
    assert words(told, "x", None) == said
