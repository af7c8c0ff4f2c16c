"""Jobs are added as any worker of the protocol expects them."""

from __future__ import annotations

import json

import pytest
from redis.asyncio import Redis

from emqproxy.demo.producer import add
from tests.demo.queues import Queue, play


def test_a_job_waits_and_workers_are_woken(queue: Queue) -> None:
    async def story() -> None:
        numbers = [await add(queue.client, queue.name, "n", {"a": [1, "ü"]}) for _ in range(2)]
        assert numbers == ["1", "2"]
        assert await queue.client.lrange(queue.key("wait"), 0, -1) == ["2", "1"]
        assert await queue.client.zrange(queue.key("marker"), 0, -1, withscores=True) == [("0", 0)]
        name, data, opts = await queue.hash("1", "name", "data", "opts")
        assert (name, json.loads(data or ""), json.loads(opts or "")) == ("n", {"a": [1, "ü"]}, {"attempts": 1})

    play(queue, story())


def test_a_delayed_job_says_when_it_falls_due(queue: Queue) -> None:
    async def story() -> None:
        assert await queue.add("later", attempts=3, delay_ms=60_000, backoff_ms=100) == "later"
        assert await queue.state("later") == "delayed"
        timestamp, delay, opts = await queue.hash("later", "timestamp", "delay", "opts")
        due_ms = int(timestamp or 0) + 60_000
        assert (delay, await queue.client.zscore(queue.key("delayed"), "later")) == ("60000", due_ms * 4096)
        assert await queue.client.zscore(queue.key("marker"), "1") == due_ms
        backoff = {"type": "exponential", "delay": 100}
        assert json.loads(opts or "") == {"attempts": 3, "delay": 60_000, "backoff": backoff}

    play(queue, story())


def test_an_id_is_added_once_and_a_client_need_not_decode(queue: Queue) -> None:
    async def story() -> None:
        async with Redis.from_url(queue.url) as plain:
            for _ in range(2):
                assert await add(plain, queue.name, "n", None, job_id="one") == "one"
        assert await queue.client.lrange(queue.key("wait"), 0, -1) == ["one"]

    play(queue, story())


def test_what_is_no_json_is_not_added(queue: Queue) -> None:
    async def story() -> None:
        with pytest.raises(TypeError):
            await queue.add("bad", data={1, 2})
        assert await queue.client.keys(queue.key("*")) == []

    play(queue, story())
