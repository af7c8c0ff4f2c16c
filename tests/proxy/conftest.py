"""One sidecar before the session's Redis, for tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import EmqProxy, RedisServer
from tests.proxy.wires import sidecar


@pytest.fixture(scope="session")
def proxy(_shared_redis: RedisServer) -> Iterator[EmqProxy]:
    with sidecar(_shared_redis.url) as shared:
        yield shared
