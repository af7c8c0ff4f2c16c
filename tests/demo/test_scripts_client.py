"""The moves as calls: by sha, with the text sent once where a server does not know it; and what they leave in Redis."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from emqproxy.demo.job import Job
from emqproxy.demo.scripts_client import REFUSALS, Nothing, Scripts, now_ms
from emqproxy.scripts import texts
from tests.demo.queues import Queue, play

ENDS: dict[str, Any] = {"lock_ms": 1000, "name": "w", "fetch": False}


async def taken(scripts: Scripts) -> Job:
    found = await scripts.pick_up("t", 60_000, "w")
    assert isinstance(found, Job)
    return found


def test_a_text_is_sent_once_and_again_after_a_flush(queue: Queue) -> None:
    async def story() -> None:
        scripts = Scripts(queue.client, queue.name, "emq")
        sha = texts.load("moveToActive-11").sha
        for _ in range(2):
            await queue.client.script_flush()
            await queue.client.config_resetstat()
            assert await scripts.pick_up("t", 1000, "w") == Nothing()
            assert await scripts.pick_up("t", 1000, "w") == Nothing()
            assert await queue.client.script_exists(sha) == [True]
            stats = await queue.client.info("commandstats")
            assert (stats["cmdstat_evalsha"]["calls"], stats["cmdstat_script|load"]["calls"]) == (3, 1)

    play(queue, story())


def test_another_error_is_the_callers(queue: Queue) -> None:
    async def story() -> None:
        await queue.client.set(queue.key("wait"), "no list")
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await Scripts(queue.client, queue.name, "emq").pick_up("t", 1000, "w")

    play(queue, story())


def test_nothing_says_when_to_ask_again(queue: Queue) -> None:
    async def story() -> None:
        scripts = Scripts(queue.client, queue.name, "emq")
        await queue.add("later", delay_ms=60_000)
        found = await scripts.pick_up("t", 1000, "w")
        assert isinstance(found, Nothing)
        assert 0 < found.due_ms - now_ms() <= 60_000
        due_ms = await scripts.marked(queue.client, 1)
        assert (due_ms, await scripts.marked(queue.client, 0.01)) == (found.due_ms, None)
        await queue.client.hset(queue.key("meta"), mapping={"max": 1, "duration": 50_000})
        await queue.add("first")
        await queue.add("second")
        assert isinstance(await scripts.pick_up("t", 1000, "w"), Job)
        limited = await scripts.pick_up("t", 1000, "w")
        assert isinstance(limited, Nothing)
        assert 0 < limited.limited_ms <= 50_000

    play(queue, story())


@pytest.mark.parametrize(
    ("keep", "kept"), [(None, True), (True, False), (False, True), (0, False), (1, True), ({"count": 0}, False)]
)
def test_an_ended_job_is_kept_as_its_producer_said(queue: Queue, keep: Any, kept: bool) -> None:
    async def story() -> None:
        scripts = Scripts(queue.client, queue.name, "emq")
        for target, option in (("completed", "removeOnComplete"), ("failed", "removeOnFail")):
            await queue.add(f"{target} one")
            job = await taken(scripts)
            ended = Job(job.id, job.name, job.data, job.token, opts={option: keep})
            assert await scripts.finish(ended, target, "1", {}, **ENDS) == 0
            assert await queue.state(job.id) == (target if kept else None)
            assert await queue.is_unlocked(job.id)

    play(queue, story())


@pytest.mark.parametrize(("lifo", "first"), [(True, "one"), (False, "two")])
def test_a_retry_goes_to_the_end_that_its_producer_chose(queue: Queue, lifo: bool, first: str) -> None:
    async def story() -> None:
        scripts = Scripts(queue.client, queue.name, "emq")
        await queue.add("one")
        await queue.add("two")
        job = await taken(scripts)
        assert await scripts.retry(Job(job.id, job.name, job.data, job.token, opts={"lifo": lifo}), {}) == 0
        assert (job.id, (await taken(scripts)).id) == ("one", first)

    play(queue, story())


def test_a_refusal_has_a_name(queue: Queue) -> None:
    async def story() -> None:
        scripts = Scripts(queue.client, queue.name, "emq")
        await queue.add("one")
        job = await taken(scripts)
        other = Job(job.id, job.name, job.data, "another's")
        finish = await scripts.finish(other, "completed", "1", {}, **ENDS)
        codes = [finish, await scripts.delay(other, 1, {}), await scripts.retry(other, {})]
        assert [REFUSALS[code] for code in codes if isinstance(code, int)] == ["JobLockMismatch"] * 3
        assert await scripts.renew([job, other], 1000) == ["one"]
        assert await scripts.retry(job, {"failedReason": "why"}) == 0
        assert await scripts.renew([job], 1000) == ["one"]
        assert await queue.hash("one", "failedReason", "atm") == ["why", "1"]
        assert await scripts.finish(job, "completed", "1", {}, **ENDS) == -2
        assert await scripts.delay(Job("none", "n", None, "t"), 1, {}) == -1

    play(queue, story())
