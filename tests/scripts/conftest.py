"""One catalogue for all tests that only read it, and a conversation with a real Redis that knows the scripts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emqproxy.scripts.catalogue import Catalogue
from tests.processes import RedisServer
from tests.scripts.roles import NEW, OLD, Speaker, speakers
from tests.scripts.talk import Conversation, text_of

LABELS = (
    "moveToActive-11", "moveToFinished-14", "moveToDelayed-11", "retryJob-11", "moveToWaitingChildren-7",
    "moveJobFromActiveToWait-9", "moveStalledJobsToWait-9", "extendLock-2", "extendLocks-1", "releaseLock-1",
    "removeJob-2", "updateProgress-3",
)  # fmt: skip


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue()


@pytest.fixture
def talk(redis_session: RedisServer, catalogue: Catalogue) -> Iterator[Conversation]:
    """A fresh server's first connection; the scripts are loaded."""
    conversation = Conversation(redis_session.port, catalogue)
    for label in LABELS:
        assert isinstance(conversation.redis("SCRIPT", "LOAD", text_of(label)), bytes)
    yield conversation
    conversation.close()


@pytest.fixture(params=[NEW, OLD])
def speaker(request: pytest.FixtureRequest, redis_server: RedisServer, catalogue: Catalogue) -> Iterator[Speaker]:
    """A connection that calls scripts of either release."""
    yield from speakers(request, redis_server, catalogue)
