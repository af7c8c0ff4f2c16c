"""TROUBLE's `eviction_suspected`: a lock that a real Redis evicts, and locks that a hand deletes past emqproxy.

Each has a Redis and a sidecar of its own, whose journal is judged again when it has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.processes import RedisServer, eventually
from tests.scenarios.play import Play, stage
from tests.scripts.talk import lock

BALLAST = b"x" * 100_000
ROOM_BYTES = 1 << 20


@contextlib.contextmanager
def limited(policy: str) -> Iterator[tuple[Play, Probes]]:
    """A Redis whose memory is limited, but not short; the sidecar knows it."""
    with RedisServer(**{"maxmemory": str(1 << 30), "maxmemory-policy": policy}) as redis, stage(redis) as proxy:
        play, probes = Play(redis, proxy), Probes(redis)
        try:
            probes.until(3)  # of the server, of memory, of keys evicted so far
            yield play, probes
        finally:
            play.close()


def info(redis: RedisServer, section: str) -> dict[str, str]:
    lines = redis.call("INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


class Probes:
    """How often the sidecar has asked for INFO."""

    def __init__(self, redis: RedisServer) -> None:
        self._redis, self._ours = redis, 0

    def count(self) -> int:
        self._ours += 1  # redis counts this one when it has answered it
        counted = info(self._redis, "commandstats").get("cmdstat_info", "calls=0,")
        return int(counted.removeprefix("calls=").split(",")[0]) - (self._ours - 1)

    def until(self, count: int) -> None:
        eventually(lambda: self.count() >= count, 20, "the sidecar's own INFO")

    def another(self) -> None:
        """Waits until it has asked anew, and once more, so that it has read the first."""
        self.until(self.count() + 2)


def evict(play: Play) -> None:
    """Fills Redis until the lock is gone; then there is room again."""
    redis = play.redis
    redis.call("CONFIG", "SET", "maxmemory", str(int(info(redis, "memory")["used_memory"]) + ROOM_BYTES))
    numbers = iter(range(10_000))

    def gone() -> bool:
        redis.call("SET", f"ballast:{next(numbers)}", BALLAST)
        return not play.locked()

    eventually(gone, 30, "the lock's eviction")
    redis.call("CONFIG", "SET", "maxmemory", str(1 << 30))


@pytest.mark.parametrize("policy", ["volatile-lru", "allkeys-random"])
def test_a_lock_that_was_evicted(policy: str) -> None:
    with limited(policy) as (play, probes):
        owner = play.owner("a:1")
        evict(play)
        probes.another()
        assert owner.renew(play.job, "a:1") == 0
        assert play.causes() == [("renew", "refused", "eviction_suspected")]
        words = play.cause("renew", "eviction_suspected")["because"]
        evicted = int(info(play.redis, "stats")["evicted_keys"])
        assert f"Redis evicted {evicted} key" in words
        assert f"maxmemory-policy {policy}" in words
        assert "should have lived" in words

        other = play.hand()
        play.anew()
        play.add()
        assert other.pick("b:1") == play.job
        play.redis.call("DEL", lock(play.job).key)
        probes.another()
        assert other.renew(play.job, "b:1") == 0
        assert play.causes() == [("renew", "refused", "lock_vanished_early")], "none was evicted meanwhile"


def test_a_lock_that_was_deleted_where_nothing_is_evicted() -> None:
    with limited("noeviction") as (play, _):
        owner = play.owner("a:1")
        play.redis.call("DEL", lock(play.job).key)
        assert owner.renew(play.job, "a:1") == 0
        assert play.causes() == [("renew", "refused", "lock_vanished_early")]
        assert "evicted, deleted past us" in play.cause("renew", "lock_vanished_early")["because"]


def test_where_info_is_forbidden_nothing_is_claimed() -> None:
    with RedisServer(**{"maxmemory": str(1 << 30), "maxmemory-policy": "volatile-lru"}) as redis:
        redis.call("ACL", "SETUSER", "poor", "on", ">s3cret", "~*", "+@all", "-info")
        with stage(redis, user="poor:s3cret") as proxy:
            play = Play(redis, proxy)
            owner = play.owner("a:1")
            evict(play)
            assert owner.renew(play.job, "a:1") == 0
            assert play.causes() == [("renew", "refused", "lock_vanished_early")]
            assert b'"memory":[' not in proxy.journal_path.read_bytes()
            play.close()
