"""Scenario S39 and its kin: somebody writes on a queue's lists, or deletes a job, by commands of their own."""

from __future__ import annotations

import pytest

from emqproxy.journal_lines import JournalLine, LineReader
from emqproxy.redaction import Redactor
from tests.processes import RedisServer, eventually
from tests.proxy.hand import Hand
from tests.scenarios.play import SHORT_MS, Play, calm, rejudged, stage
from tests.scripts import talk
from tests.scripts.talk import PREFIX

WAIT, ACTIVE = PREFIX + b"wait", PREFIX + b"active"
JOB = "the job"
"""In a command: the scenario's."""
Command = tuple[str | bytes | int, ...]


def by_hand(play: Play, *commands: Command) -> Hand:
    """Somebody's who says its name."""
    hand = play.hand()
    hand.wire.call("CLIENT", "SETNAME", "a-hand")
    for command in commands:
        sent = (play.job if word == JOB else word for word in command)
        assert not str(hand.wire.call(*sent)).startswith("ERR")
    return hand


def evidence_of(play: Play, op: str, cause: str) -> str:
    """What is said of the first line with a cause; it rests on a line of the hand's."""
    line = play.cause(op, cause)
    hands = {each["seq"] for each in play.lines("raw") if each["client_name"] == "a-hand"}
    assert hands & set(line["evidence"])
    return str(line["because"])


PUSHES: dict[str, list[Command]] = {
    "LPUSH": [("LREM", ACTIVE, 1, JOB), ("LPUSH", WAIT, JOB)],
    "RPUSH": [("RPUSH", WAIT, JOB)],
    "LMOVE": [("LMOVE", ACTIVE, WAIT, "LEFT", "RIGHT")],
    "RPOPLPUSH": [("RPOPLPUSH", ACTIVE, WAIT)],
    "ZADD": [("ZADD", PREFIX + b"prioritized", 1, JOB)],
}


@pytest.mark.parametrize("how", PUSHES)
def test_whoever_pushes_a_job_that_is_held_is_named(play: Play, how: str) -> None:
    first, second = play.owner("a:1"), play.hand()
    by_hand(play, *PUSHES[how])
    assert second.pick("b:1") == play.job
    assert first.finish(play.job, "a:1") == -6
    assert play.causes() == [("acquire", "ok", "double_grant"), ("finish", "refused", "double_grant")]
    where = "prioritized" if how == "ZADD" else "wait"
    for op in ("acquire", "finish"):
        assert f"a-hand had put it into {where} by hand ({how})." in evidence_of(play, op, "double_grant")


def test_in_enforce_mode_hands_on_lists_pass_and_are_named(scenario_redis: RedisServer) -> None:
    with stage(scenario_redis, "--mode", "enforce") as proxy:
        play = Play(scenario_redis, proxy)
        test_whoever_pushes_a_job_that_is_held_is_named(play, "LPUSH")
        play.anew()
        test_whoever_deletes_a_job_is_named(play, "DEL")
        play.close()


def test_in_a_transaction_too(play: Play) -> None:
    first, second = play.owner("a:1"), play.hand()
    by_hand(play, ("MULTI",), ("LREM", ACTIVE, 1, play.job), ("LPUSH", WAIT, play.job), ("EXEC",))
    assert second.pick("b:1") == play.job
    assert first.renew(play.job, "a:1") == 0
    assert "a-hand had put it into wait by hand (LPUSH)" in evidence_of(play, "renew", "double_grant")


def test_a_transaction_that_is_discarded_did_nothing(play: Play) -> None:
    owner = play.owner("a:1")
    by_hand(play, ("MULTI",), ("LREM", ACTIVE, 1, play.job), ("DEL", PREFIX + play.job.encode()), ("DISCARD",))
    assert owner.finish(play.job, "a:1") == 0
    assert not play.lines("raw")
    assert not play.causes()


@calm
def test_a_job_that_lapsed_and_was_pushed_is_retaken(play: Play) -> None:
    first = play.owner("a:1", SHORT_MS)
    play.lapsed()
    by_hand(play, ("LREM", ACTIVE, 1, play.job), ("LPUSH", WAIT, play.job))
    assert play.hand().pick("b:1") == play.job
    assert first.finish(play.job, "a:1") == -6
    assert "a-hand had put it into wait by hand (LPUSH)." in evidence_of(play, "finish", "retaken")


@pytest.mark.parametrize(
    "command",
    [
        ("LREM", ACTIVE, 0, JOB),
        ("LPOP", ACTIVE),
        ("RPOP", ACTIVE, 1),
        ("LTRIM", ACTIVE, 5, 6),
        ("DEL", ACTIVE),
        ("RENAME", ACTIVE, "elsewhere"),
        ("RPOPLPUSH", ACTIVE, "elsewhere"),
        ("BLPOP", "nothing", ACTIVE, 1),
        ("LMPOP", 1, ACTIVE, "LEFT"),
    ],
    ids=lambda command: str(command[0]),
)
def test_whoever_takes_a_job_out_of_the_active_list_is_named(play: Play, command: Command) -> None:
    owner = play.owner("a:1")
    by_hand(play, command)
    assert owner.finish(play.job, "a:1") == -3
    again = owner.call("moveToFinished-14", talk.finish(play.job, "a:1", target="failed"))
    assert again == -2, "a worker that could not finish says so"
    assert play.causes() == [("finish", "refused", "not_in_active")] * 2, "one incident"
    words = evidence_of(play, "finish", "not_in_active")
    whole = command[0] in {"LTRIM", "DEL", "RENAME"}
    assert f"a-hand had {'written on the whole' if whole else 'taken it out'} of that list" in words
    assert f"by hand ({command[0]})" in words


def test_a_hand_that_found_nothing_is_not_blamed(play: Play) -> None:
    owner = play.owner("a:1")
    by_hand(play, ("LREM", ACTIVE, 0, "another"), ("LREM", ACTIVE, 0, play.job.encode() + b"0"), ("DEL", WAIT))
    play.redis.call("LREM", ACTIVE, "0", play.job)
    by_hand(play, ("LREM", ACTIVE, 0, play.job))
    assert owner.finish(play.job, "a:1") == -3
    line = play.cause("finish", "not_in_active")
    assert "a-hand" not in line["because"]


@pytest.mark.parametrize("name", ["DEL", "UNLINK", "RENAME", "MOVE"])
def test_whoever_deletes_a_job_is_named(play: Play, name: str) -> None:
    owner, key = play.owner("a:1"), PREFIX + play.job.encode()
    rest = {"RENAME": ("elsewhere",), "MOVE": (7,)}.get(name, ())
    by_hand(play, (name, key, *rest))
    assert owner.renew(play.job, "a:1") == 1
    assert owner.finish(play.job, "a:1") == -1
    assert play.causes() == [("finish", "refused", "job_removed")]
    assert f"a-hand had deleted the job's own key ({name})" in evidence_of(play, "finish", "job_removed")


@pytest.mark.parametrize(
    "commands",
    [
        [("LREM", ACTIVE, 1, JOB), ("RPUSH", ACTIVE, JOB)],
        [("LREM", ACTIVE, 0, "another"), ("DEL", WAIT)],
    ],
)
def test_what_was_put_back_is_not_missing_for_that(play: Play, commands: list[Command]) -> None:
    owner = play.owner("a:1")
    by_hand(play, *commands)
    play.redis.call("LREM", ACTIVE, "0", play.job)
    assert owner.finish(play.job, "a:1") == -3
    assert "a-hand" not in play.cause("finish", "not_in_active")["because"]


@pytest.mark.parametrize(
    "commands",
    [
        [("LPUSH", WAIT, JOB), ("LREM", WAIT, 1, JOB)],
        [("ZADD", PREFIX + b"prioritized", "XX", 1, JOB)],
        [("LPUSHX", PREFIX + b"paused", JOB)],
        [("LINSERT", WAIT, "BEFORE", "nobody", JOB)],
    ],
)
def test_what_was_taken_back_or_did_nothing_gave_nothing_out(play: Play, commands: list[Command]) -> None:
    first, second = play.owner("a:1"), play.hand()
    by_hand(play, *commands)
    play.redis.call("LPUSH", WAIT, play.job)
    assert second.pick("b:1") == play.job
    assert first.finish(play.job, "a:1") == -6
    assert "a-hand" not in play.cause("acquire", "double_grant")["because"]
    assert "a-hand" not in play.cause("finish", "double_grant")["because"]


def unheard(play: Play, *commands: Command) -> None:
    """By a hand that wants no answers, and goes."""
    hand = Hand(play.proxy.port)
    hand.wire.call("CLIENT", "SETNAME", "a-hand")
    sent = [tuple(play.job if word == JOB else word for word in command) for command in commands]
    hand.wire.write(("CLIENT", "REPLY", "OFF"), *sent)
    hand.close()
    eventually(lambda: play.lines("raw", "wipe"), what="what it did in the journal")


def test_what_nobody_heard_the_answer_of_may_have_been_done(play: Play) -> None:
    first, second = play.owner("a:1"), play.hand()
    unheard(play, ("LREM", ACTIVE, 1, JOB), ("LPUSH", WAIT, JOB))
    assert eventually(lambda: second.pick("b:1")) == play.job
    assert first.finish(play.job, "a:1") == -6
    said = "a-hand may have put it into wait by hand (LPUSH) (its answer was not seen)."
    for op in ("acquire", "finish"):
        assert said in evidence_of(play, op, "double_grant")


@pytest.mark.parametrize("command", [("DEL", JOB), ("FLUSHDB",)], ids=lambda command: str(command[0]))
def test_whoever_may_have_removed_a_job_is_named(play: Play, command: Command) -> None:
    owner, key = play.owner("a:1"), PREFIX + play.job.encode()
    unheard(play, tuple(key if word == JOB else word for word in command))
    eventually(lambda: play.redis.call("EXISTS", key) == b":0\r\n", what="the job's end")
    assert owner.finish(play.job, "a:1") == -1
    line = play.cause("finish", "job_removed")
    assert "a-hand may have" in line["because"]
    assert "its answer was not seen" in line["because"]


def test_a_key_that_was_gone_already_is_nobodys_deed(play: Play) -> None:
    owner, key = play.owner("a:1"), PREFIX + play.job.encode()
    play.redis.call("DEL", key)
    by_hand(play, ("DEL", key))
    assert owner.finish(play.job, "a:1") == -1
    assert play.causes() == [("finish", "refused", "job_vanished")]


def test_who_pushed_a_ghost_is_named(play: Play) -> None:
    by_hand(play, ("LPUSH", WAIT, play.job))
    assert play.hand().pick("a:1") == play.job
    assert play.causes() == [("acquire", "ok", "ghost_job")]
    assert "a-hand had put it into wait by hand (LPUSH)." in evidence_of(play, "acquire", "ghost_job")


def test_workers_that_pop_for_themselves_are_no_hands(play: Play) -> None:
    play.add()
    assert by_hand(play).wire.call("BRPOPLPUSH", WAIT, ACTIVE, 1) == play.job.encode()
    assert not play.lines("raw")


def test_a_push_of_long_ago_explains_nothing(play: Play) -> None:
    """It was given out since, and given back."""
    play.add()
    play.redis.call("DEL", WAIT)
    by_hand(play, ("LPUSH", WAIT, play.job))
    first = play.hand()
    assert first.pick("a:1") == play.job
    play.redis.call("LPUSH", WAIT, play.job)
    assert play.hand().pick("b:1") == play.job
    assert first.call("moveToFinished-14", talk.finish(play.job, "a:1")) == -6
    assert "a-hand" not in play.cause("finish", "double_grant")["because"]
    assert "a-hand" not in play.cause("acquire", "double_grant")["because"]


def test_a_redacted_journal_of_hands_is_judged_alike(play: Play) -> None:
    test_whoever_pushes_a_job_that_is_held_is_named(play, "LPUSH")
    test_in_a_transaction_too(play)
    journal = play.proxy.journal_path.read_bytes().splitlines(keepends=True)
    redactor, reader = Redactor(b"key", frozenset({"moveToActive-11"})), LineReader(JournalLine)
    told = [redactor.line(line) for line in map(reader.read, journal) if line is not None]
    assert b'"target":"wait"' in b"".join(line for line in told if line is not None)
    assert not list(rejudged(line for line in told if line is not None))
