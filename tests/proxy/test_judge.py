"""What a call is charged with on account of what the wire has proved, and that doubt passes: through real sidecars, and
by words that no client would send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.config import Config
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.policy import PASS, Action, Rule
from emqproxy.proxy.judge import Judge, blocked, refusal
from emqproxy.proxy.surmised import Surmised
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.raw import SCRIPT_CALLS
from emqproxy.scripts.wipes import WIPES
from emqproxy.session.commands import WRITES
from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.breaches import Scene, lines_so_far, told
from tests.scripts import talk
from tests.scripts.talk import PREFIX, command, keys, lock

ALL = dict.fromkeys((rule.value for rule in Rule), "enforce")
CONFIG = Config.model_validate({})


def judge_of(mode: str = "enforce", *allowed: str) -> Judge:
    made = Judge(Catalogue(), LockLedger(), Surmised())
    made.use(mode, ALL, CONFIG.limits, allowed)
    return made


@pytest.fixture
def scene(redis_session: RedisServer, enforcing: EmqProxy) -> Iterator[Scene]:
    made = Scene(redis_session, enforcing.port)
    yield made
    made.close()


# ---------------------------------------------------------------- what is not certain passes


def test_token_zero_against_a_lock_that_has_lapsed(scene: Scene) -> None:
    """Nobody holds it: a tool may move a job that was left."""
    owner, tool = scene.owner(ttl_ms=30), scene.hand()
    eventually(lambda: scene.redis.call("EXISTS", lock(scene.job).key) == b":0\r\n", what="the lock's end")
    assert tool.finish(scene.job, "0") == 0
    assert owner.finish(scene.job, "a:1") == -2


def test_token_zero_against_a_holder_who_hung_up(scene: Scene, enforcing: EmqProxy) -> None:
    """It may have given the lock back over another road."""
    owner, tool = scene.owner(), scene.hand()
    picked = enforcing.wait_journal(lambda line: line["op"] == "acquire" and line["job"] == scene.job)
    owner.close()
    enforcing.wait_journal(lambda line: line["target"] == "closed" and line["conn"] == picked["conn"])
    assert tool.finish(scene.job, "0") == 0


def test_token_zero_against_a_lock_that_nobody_saw_granted(scene: Scene) -> None:
    scene.add()
    with_redis = Scene(scene.redis, scene.redis.port)
    unseen = with_redis.hand()
    assert unseen.pick("u:1") == scene.job
    assert scene.hand().finish(scene.job, "0") == 0
    with_redis.close()


def test_a_token_of_a_pool_is_nobodys_sign(scene: Scene) -> None:
    """It was used over two connections within one acquisition: the finish over either passes, on and on."""
    first, second = scene.owner("POOL"), scene.hand()
    assert second.renew(scene.job, "POOL") == 1
    assert first.renew(scene.job, "POOL", 30) == 1
    eventually(lambda: scene.redis.call("EXISTS", lock(scene.job).key) == b":0\r\n", what="the lock's end")
    assert scene.swept(first) == [scene.job]
    assert second.pick("POOL") == scene.job
    assert first.renew(scene.job, "POOL") == 1
    assert first.finish(scene.job, "POOL") == 0


def test_the_holder_of_a_fixed_token_is_never_refused(scene: Scene) -> None:
    was, has = scene.lost("SAME", "SAME")
    for _ in range(3):
        assert was.renew(scene.job, "SAME") == 0
        assert has.renew(scene.job, "SAME") == 1
    assert told(was.call("extendLocks-1", talk.renew_all([scene.job], ["SAME"]))) == [scene.job]
    assert has.finish(scene.job, "SAME") == 0


def test_who_took_it_back_is_the_holder(scene: Scene) -> None:
    """A job goes to another and comes back to who had it first, under one token: it speaks for what it holds."""
    was, has = scene.lost("SAME", "SAME")
    assert has.renew(scene.job, "SAME", 30) == 1
    eventually(lambda: scene.redis.call("EXISTS", lock(scene.job).key) == b":0\r\n", what="the lock's end")
    assert scene.swept(was) == [scene.job]
    assert was.pick("SAME") == scene.job
    assert has.renew(scene.job, "SAME") == 0
    assert was.finish(scene.job, "SAME") == 0


def test_a_write_by_the_same_worker_over_its_old_connection_passes(scene: Scene) -> None:
    """`uuid:1` lost it to `uuid:2`: one worker's, whose producer side may write."""
    was, has = scene.lost("w:1", "w:2")
    call = talk.evalsha(b"", keys(scene.job, "events", "meta"), scene.job, "5")
    assert was.call("updateProgress-3", call) == 0
    assert has.finish(scene.job, "w:2") == 0


def test_writes_of_managers_pass(scene: Scene) -> None:
    """Who never had the job may change its data, its priority, its logs while another has it."""
    owner, manager = scene.owner(), scene.hand()
    key = PREFIX + scene.job.encode()
    assert manager.call("updateData-1", talk.evalsha(b"", [key], "{}")) == 0
    assert manager.call("addLog-2", talk.evalsha(b"", [key, key + b":logs"], scene.job, "row", "")) == 1
    assert owner.finish(scene.job, "a:1") == 0


@pytest.mark.parametrize("words", [("FLUSHDB",), ("FLUSHALL",), ("SWAPDB", 0, 1)])
def test_where_nothing_is_held_all_may_be_wiped(scene: Scene, words: tuple[Any, ...]) -> None:
    tool = scene.hand()
    assert tool.answer(tool.wire.call(*words)) == b"OK"
    tool.wire.call("SELECT", 3)
    owner = scene.owner()
    assert tool.answer(tool.wire.call("FLUSHDB")) == b"OK", "of another database"
    assert owner.finish(scene.job, "a:1") == 0


def test_what_is_blocked_is_told_by_job_queue_or_database(scene: Scene, enforcing: EmqProxy) -> None:
    owner, tool = scene.owner(), scene.hand()
    tool.wire.call("FLUSHALL")
    tool.call("moveToActive-11", talk.pick("x", 0))
    both = ("DEL", lock(scene.job).key, lock(scene.other).key)
    tool.answer(tool.wire.call(*both))
    tool.finish(scene.job, "0")
    assert owner.finish(scene.job, "a:1") == 0
    lines = [line for line in lines_so_far(enforcing) if line.get("rule")][-5:]
    fields = [(line["op"], line["job"], line["rule"], line["code"], line["outcome"]) for line in lines]
    assert fields == [
        ("wipe", None, "mass_delete", None, "blocked"),
        ("acquire", None, "bad_duration", None, "blocked"),
        ("raw", scene.job, "raw_lock_write", None, "blocked"),
        ("raw", scene.other, "raw_lock_write", None, "blocked"),
        ("finish", scene.job, "zero_token", -6, "blocked"),
    ]


# ---------------------------------------------------------------- by itself

names = st.sampled_from(sorted(SCRIPT_CALLS | WRITES | WIPES | {b"SCRIPT"}))
some = st.one_of(
    st.none(), st.binary(max_size=20), st.integers(-2, 20).map(lambda n: b"%d" % n),
    st.sampled_from([PREFIX + b"1:lock", PREFIX, PREFIX + b"wait", talk.sha_of("moveToFinished-14"),
                     talk.text_of("extendLock-2"), talk.sha_of("promote-9"), b"\xc0\xff\x81"]),
)  # fmt: skip
JUDGE = judge_of()


@given(names, st.lists(some, max_size=25))
def test_no_words_are_a_fault(name: bytes, rest: list[bytes | None]) -> None:
    """Whatever is refused can be told, and what its client is given is one line."""
    call = command([name, *rest])
    operation = JUDGE._catalogue.recognise(call)
    judged = JUDGE.weigh(call, operation, 1, 10)
    if judged.decision.action is Action.BLOCKED:
        charge = judged.decision.charge
        assert charge is not None
        assert judged.operation is not None
        answer = refusal(judged.operation, charge)
        assert answer.startswith(b"-EMQPROXY ")
        assert answer.count(b"\r\n") == 1
        assert answer.count(b"\n") == 1
        assert [line for _, line in blocked(call, judged.operation, charge, 1, 10) if line is not None]


def test_observe_mode_has_no_judge_and_forgets() -> None:
    judge = judge_of("observe")
    assert not judge.sits
    assert not judge.enforces
    judge.use("shadow", ALL, CONFIG.limits, ())
    assert judge.sits
    assert not judge.enforces
    sent = command([b"DEL", lock("1").key])
    assert judge.weigh(sent, judge._catalogue.recognise(sent), 1, 10).decision.action is Action.WOULD_BLOCK


def test_an_allowed_script_passes_from_the_next_call_on() -> None:
    own = b"return redis.call('SET', KEYS[1], 'x')"
    sent = command(talk.words("EVAL", own, keys("meta")))
    judge = judge_of()
    assert judge.weigh(sent, None, 1, 10).decision.action is Action.BLOCKED
    judge.use("enforce", ALL, CONFIG.limits, [talk.hashlib.sha1(own).hexdigest()])
    assert judge.weigh(sent, None, 1, 10).decision == PASS
