"""Stories of a lawful owner and of somebody who breaks a rule, each told as a list of what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.proxy.breaches import Scene, told
from tests.proxy.hand import Hand
from tests.scripts import talk
from tests.scripts.talk import PREFIX, keys, lock

DELETES = b"return redis.call('DEL', KEYS[1])"
Story = Callable[[Scene], list[Any]]


class Case(NamedTuple):
    """A story, and what it tells where its breach is let through and where it is refused. `JOB` stands for the id."""

    rule: str
    story: Story
    harmed: list[Any]
    unharmed: list[Any]


def or_an_error(reply: Any) -> Any:
    """What a script says in words is no matter; what we say is."""
    seen = told(reply)
    return "an error of the script's" if isinstance(reply, str) and seen == reply else seen


# ---------------------------------------------------------------- hands on the lock, scripts nobody knows


def on_the_lock(*words: Any) -> Story:
    """A tool's command; `LOCK` stands for the lock's key. What it was answered, what a sweep puts back, who takes it,
    what its owner is told when it finishes."""

    def story(scene: Scene) -> list[Any]:
        owner, tool, other = scene.owner(), scene.hand(), scene.hand()
        key = lock(scene.job).key
        done = told(Hand.answer(tool.wire.call(*(key if word == "LOCK" else word for word in words))))
        return [done, scene.swept(tool), other.pick("b:1"), owner.finish(scene.job, "a:1")]

    return story


def hand_case(done: Any, *words: Any) -> Case:
    harmed = [done, ["JOB"], "JOB", -6]  # the job runs twice, and the first result is thrown away
    return Case("raw_lock_write", on_the_lock(*words), harmed, ["EMQPROXY raw_lock_write", [], None, 0])


def script_case(*words: Any) -> Case:
    harmed = [1, ["JOB"], "JOB", -6]
    return Case("unknown_script", on_the_lock(*words), harmed, ["EMQPROXY unknown_script", [], None, 0])


# ---------------------------------------------------------------- tokens that are none, tokens that are worn out


def zero(label: str, call: Callable[[str, str], list[Any]]) -> Story:
    """A stranger moves the job with the token "0". What it is told, the owner's renewal, the owner's finish."""

    def story(scene: Scene) -> list[Any]:
        owner, tool = scene.owner(), scene.hand()
        children = PREFIX + scene.job.encode() + b":dependencies"
        scene.redis.call("SADD", children, "emq:orders:child")  # a parent can wait only for a child
        if label != "moveToWaitingChildren-7":
            scene.redis.call("DEL", children)
        done = tool.call(label, call(scene.job, "0"))
        scene.redis.call("DEL", children)
        return [done, owner.renew(scene.job, "a:1"), owner.finish(scene.job, "a:1")]

    return story


def zero_case(label: str, call: Callable[[str, str], list[Any]]) -> Case:
    return Case("zero_token", zero(label, call), [0, 1, -3], [-6, 1, 0])


def zombie(scene: Scene) -> list[Any]:
    """Who lost the job to another writes its data and its progress: what it is told, what the new owner then reads."""
    was, has = scene.lost("a:1", "b:1")
    key = PREFIX + scene.job.encode()
    scene.redis.call("HSET", key, "data", "new", "progress", "new")
    wrote = told(was.call("updateData-1", talk.evalsha(b"", [key], "old")))
    call = talk.evalsha(b"", [key, *keys("events", "meta")], scene.job, "old")
    moved = told(was.call("updateProgress-3", call))
    return [wrote, moved, told(has.wire.call("HMGET", key, "data", "progress")), has.finish(scene.job, "b:1")]


def stale(ends: Callable[[Hand, str], Any]) -> Story:
    """Two workers use one token. The one who lost the job speaks; then the one who has it finishes."""

    def story(scene: Scene) -> list[Any]:
        was, has = scene.lost("SAME", "SAME")
        return [told(ends(was, scene.job)), has.finish(scene.job, "SAME")]

    return story


def stale_renewals(scene: Scene) -> list[Any]:
    """It keeps alive by its renewals what another holds: told 1, and []; and how long the lock then lives."""
    was, has = scene.lost("SAME", "SAME")
    alone = was.renew(scene.job, "SAME", 1)  # and lets it lapse
    lives = scene.redis.call("GET", lock(scene.job).key) == b"$4\r\nSAME\r\n"
    return [alone, lives if not alone else "lapses", has.finish(scene.job, "SAME") if not alone else "lost"]


def stale_batch(scene: Scene) -> list[Any]:
    was, has = scene.lost("SAME", "SAME")
    failed = told(was.call("extendLocks-1", talk.renew_all([scene.job], ["SAME"])))
    return [failed, has.finish(scene.job, "SAME")]


# ---------------------------------------------------------------- calls that do not hold together


def shifted_sweep(scene: Scene) -> list[Any]:
    """A sweep of another release's keys: the failed jobs stand where the guard should, and it is written there."""
    owner, sweeper = scene.owner(), scene.hand()
    names = ("stalled", "wait", "active", "failed", "stalled-check", "meta", "paused", "marker", "events")
    call = talk.evalsha(b"", keys(*names), 1, PREFIX, 1_700_000_000_000, 60_000)
    found = or_an_error(sweeper.call("moveStalledJobsToWait-9", call))
    kind = told(owner.wire.call("TYPE", PREFIX + b"failed"))
    ended = owner.call("moveToFinished-14", talk.finish(scene.job, "a:1", target="failed"))
    return [found, kind, ended if isinstance(ended, int) else "WRONGTYPE" in ended]


def key_prefix(scene: Scene) -> list[Any]:
    """A pickup by a client that puts a prefix of its own before KEYS, and not into ARGV: a ghost, and a job lost."""
    scene.add()
    ghost, worker = scene.hand(), scene.hand()
    call = talk.pick("g:1", prefix=b"q:orders:")
    call[3:14] = [b"em" + (key or b"") for key in call[3:14]]
    got = told(ghost.call("moveToActive-11", call))
    payload = "data" in got[0] if isinstance(got, list) else got
    taken = worker.pick("a:1")
    return [payload, taken, worker.finish(scene.job, "a:1") if taken else None]


def another_jobs_id(scene: Scene) -> list[Any]:
    """A finish that names one job by its key and another by its id: that one leaves the list of active jobs."""
    owner, muddler = scene.owner(), scene.hand()
    scene.add(scene.other)
    assert muddler.pick("m:1") == scene.other
    call = talk.finish(scene.other, "m:1")
    args = 3 + 14
    assert call[args] == scene.other.encode()
    call[args] = scene.job.encode()
    done = told(muddler.call("moveToFinished-14", call))
    return [done, owner.finish(scene.job, "a:1"), muddler.finish(scene.other, "m:1")]


# ---------------------------------------------------------------- pickups without a lock, and all locks at once


def lockless(ttl_ms: Any) -> Story:
    """A pickup without a lock's time. Whether the job is active, whether a lawful worker gets it and can finish it."""

    def story(scene: Scene) -> list[Any]:
        scene.add()
        careless, worker = scene.hand(), scene.hand()
        refused = or_an_error(careless.call("moveToActive-11", talk.pick("c:1", ttl_ms)))
        active = told(worker.wire.call("LLEN", PREFIX + b"active"))
        taken = worker.pick("a:1")
        return [refused, active, taken, worker.finish(scene.job, "a:1") if taken else None]

    return story


def lockless_fetch(scene: Scene) -> list[Any]:
    """The same by a finish that fetches the next job, which is then active without a lock."""
    owner = scene.owner()
    scene.add(scene.other)
    call = talk.finish(scene.job, "a:1", fetch="1", ttl_ms=0)
    refused = or_an_error(owner.call("moveToFinished-14", call))
    active = told(owner.wire.call("LRANGE", PREFIX + b"active", 0, -1))
    return [refused, active == [scene.job], owner.finish(scene.job, "a:1")]


def mass(*words: Any) -> Story:
    """All that there is, gone under a worker's hands."""

    def story(scene: Scene) -> list[Any]:
        owner, tool = scene.owner(), scene.hand()
        done = told(Hand.answer(tool.wire.call(*words)))
        return [done, owner.renew(scene.job, "a:1"), owner.finish(scene.job, "a:1")]

    return story


def obliteration(scene: Scene) -> list[Any]:
    owner, tool = scene.owner(), scene.hand()
    scene.redis.call("HSET", PREFIX + b"meta", "paused", "1")
    done = told(tool.call("obliterate-2", talk.evalsha(b"", [PREFIX + b"meta", PREFIX], 100, "force")))
    return [done, owner.renew(scene.job, "a:1"), owner.finish(scene.job, "a:1")]


def mass_case(done: Any, *words: Any) -> Case:
    return Case("mass_delete", mass(*words), [done, 0, -1], ["EMQPROXY mass_delete", 1, 0])


CASES = {
    "DEL": hand_case(1, "DEL", "LOCK"),
    "UNLINK": hand_case(1, "unlink", "k", "LOCK"),
    "GETDEL": hand_case("a:1", "GETDEL", "LOCK"),
    "PEXPIRE": hand_case(1, "PEXPIRE", "LOCK", 0),
    "RENAME": hand_case("OK", "RENAME", "LOCK", "k"),
    "MOVE": hand_case(1, "MOVE", "LOCK", 9),
    "SET": Case(
        "raw_lock_write", on_the_lock("SET", "LOCK", "mine"), ["OK", [], None, -6],
        ["EMQPROXY raw_lock_write", [], None, 0],
    ),
    "EVAL": script_case("EVAL", DELETES, 1, "LOCK"),
    "eval": script_case("eval", b"redis.call('DEL', KEYS[2]); return 1", 2, "k", "LOCK", "an argument"),
    "finish 0": zero_case("moveToFinished-14", talk.finish),
    "delay 0": zero_case("moveToDelayed-11", talk.delay),
    "retry 0": zero_case("retryJob-11", talk.retry),
    "back 0": zero_case("moveJobFromActiveToWait-9", talk.back),
    "children 0": zero_case("moveToWaitingChildren-7", talk.to_children),
    "zombie": Case(
        "zombie_write", zombie, [0, 0, ["old", "old"], 0],
        ["EMQPROXY zombie_write", "EMQPROXY zombie_write", ["new", "new"], 0],
    ),
    "stale finish": Case("lapsed_holder", stale(lambda was, job: was.finish(job, "SAME")), [0, -2], [-6, 0]),
    "stale delay": Case(
        "lapsed_holder", stale(lambda was, job: was.call("moveToDelayed-11", talk.delay(job, "SAME"))),
        [0, -2], [-6, 0],
    ),
    "stale retry": Case(
        "lapsed_holder", stale(lambda was, job: was.call("retryJob-11", talk.retry(job, "SAME"))), [0, -2], [-6, 0]
    ),
    "stale release": Case(
        "lapsed_holder", stale(lambda was, job: was.call("releaseLock-1", talk.release(job, "SAME"))), [1, -2], [0, 0]
    ),
    "stale renewal": Case("lapsed_holder", stale_renewals, [1, "lapses", "lost"], [0, True, 0]),
    "stale batch": Case("lapsed_holder", stale_batch, [[], 0], [["JOB"], 0]),
    "shifted sweep": Case(
        "malformed_call", shifted_sweep, ["an error of the script's", "string", True],
        ["EMQPROXY malformed_call", "none", 0],
    ),
    "keyPrefix": Case(
        "malformed_call", key_prefix, [False, None, None], ["EMQPROXY malformed_call", "JOB", 0]
    ),
    "another's id": Case(
        "malformed_call", another_jobs_id, [0, -3, -2], ["EMQPROXY malformed_call", 0, 0]
    ),
    "no time": Case(
        "bad_duration", lockless(0), ["an error of the script's", 1, None, None],
        ["EMQPROXY bad_duration", 0, "JOB", 0],
    ),
    "nil time": Case(
        "bad_duration", lockless(None), ["an error of the script's", 1, None, None],
        ["EMQPROXY bad_duration", 0, "JOB", 0],
    ),
    "fetch": Case(
        "bad_duration", lockless_fetch, ["an error of the script's", False, -2], ["EMQPROXY bad_duration", True, 0]
    ),
    "FLUSHDB": mass_case("OK", "FLUSHDB"),
    "FLUSHALL": mass_case("OK", "flushall", "ASYNC"),
    "SWAPDB": mass_case("OK", "SWAPDB", 0, 1),
    "obliterate": Case("mass_delete", obliteration, [0, 0, -1], ["EMQPROXY mass_delete", 1, 0]),
}  # fmt: skip
