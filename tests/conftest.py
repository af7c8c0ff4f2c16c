"""Fixtures every test may ask for: a real Redis, a fresh one or one shared by the session's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import EmqProxy, RedisServer
from tests.proxy.breaches import strict_sidecar


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A server of the test's own: it may be frozen, stopped and started again."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def _shared_redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_session(_shared_redis: RedisServer) -> RedisServer:
    """One server for all tests of a worker, emptied before each. Leave it running and configured as it is."""
    assert _shared_redis.call("FLUSHALL") == b"+OK\r\n"
    assert _shared_redis.call("SCRIPT", "FLUSH") == b"+OK\r\n"
    return _shared_redis


@pytest.fixture(scope="module")
def enforcing(_shared_redis: RedisServer) -> Iterator[EmqProxy]:
    """A sidecar before the shared server that enforces all rules; a module's own, for its journal."""
    with strict_sidecar(_shared_redis, "enforce") as made:
        yield made
