"""What Redis takes, we take: a pipeline of any length, written whole before one answer is given, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import EmqProxy, RedisServer
from tests.session.flood import flood

GROWTH_KB_MAX = 80 * 1024
"""Generous: buffers, and what the allocator keeps."""


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(redis: RedisServer) -> Iterator[EmqProxy]:
    with EmqProxy(redis.url, env={"EMQPROXY_LIMITS__PENDING_BYTES": "12000000"}) as proxy:
        yield proxy


def blind_reasons(proxy: EmqProxy) -> list[str]:
    return [line["reason"] for line in proxy.log if "cannot be followed" in line.get("event", "")]


@pytest.mark.parametrize(
    ("kind", "count", "lines"),
    [("ping", 600_000, 600_000), ("unknown script", 20_000, 20_000), ("transaction", 20_000, 40_000)],
)
def test_a_pipeline_passes_and_is_followed(
    redis: RedisServer, proxy: EmqProxy, kind: str, count: int, lines: int
) -> None:
    blind = blind_reasons(proxy)
    found = flood(redis, proxy, kind, count)
    assert found.lines == lines
    assert found.peak_kb - found.before_kb < GROWTH_KB_MAX
    assert blind_reasons(proxy) == blind


def test_more_renewals_than_may_be_kept_pass_unseen(redis: RedisServer, proxy: EmqProxy) -> None:
    found = flood(redis, proxy, "renewal", 30_000)  # a third of them is more than the limit
    assert found.lines == 30_000
    assert found.peak_kb - found.before_kb < GROWTH_KB_MAX
    proxy.wait_log(lambda line: "limits.pending_bytes" in line.get("reason", ""))
    assert flood(redis, proxy, "renewal", 100).lines == 100
    assert blind_reasons(proxy) == ["its unanswered requests take more than limits.pending_bytes"], "once, of one"
