"""A Redis for the tests of one module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.demo.queues import Queue
from tests.processes import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def queue(server: RedisServer) -> Queue:
    """A queue of the test's own. `play` closes its client, in the loop that used it."""
    return Queue(server)
