"""One Redis and one sidecar for the scenarios of a test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import EmqProxy, RedisServer
from tests.scenarios.play import Play, stage


@pytest.fixture(scope="session")
def scenario_redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def scenario_proxy(scenario_redis: RedisServer) -> Iterator[EmqProxy]:
    with stage(scenario_redis) as proxy:
        yield proxy


@pytest.fixture
def play(scenario_redis: RedisServer, scenario_proxy: EmqProxy) -> Iterator[Play]:
    made = Play(scenario_redis, scenario_proxy)
    try:
        yield made
    finally:
        made.close()
