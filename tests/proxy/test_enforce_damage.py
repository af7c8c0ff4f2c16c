"""Each rule on a real Redis: what becomes of a lawful owner's job where nobody refuses, and that enforce prevents it.

One story is played four times: directly, in observe, in shadow and in enforce mode. The first three are alike, answer
by answer. In the last the owner finishes with 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from emqproxy.locks.policy import Rule
from tests.processes import EmqProxy, RedisServer
from tests.proxy.breaches import Scene, lines_so_far, strict_sidecar
from tests.proxy.damages import CASES, Story

MODES = ("observe", "shadow", "enforce")


@pytest.fixture(scope="module")
def sidecars(_shared_redis: RedisServer) -> Iterator[dict[str, EmqProxy]]:
    with contextlib.ExitStack() as ends:
        yield {mode: ends.enter_context(strict_sidecar(_shared_redis, mode)) for mode in MODES}


def played(redis: RedisServer, port: int, story: Story) -> Any:
    assert redis.call("FLUSHALL") == b"+OK\r\n"
    scene = Scene(redis, port)
    try:
        return without_name(story(scene), scene.job)
    finally:
        scene.close()


def without_name(seen: Any, job: str) -> Any:
    if isinstance(seen, list):
        return [without_name(one, job) for one in seen]
    return "JOB" if seen == job else seen


@pytest.mark.parametrize("name", CASES)
def test_without_us_the_damage_happens_and_with_enforce_it_does_not(
    name: str, redis_session: RedisServer, sidecars: dict[str, EmqProxy]
) -> None:
    rule, story, harmed, unharmed = CASES[name]
    assert played(redis_session, redis_session.port, story) == harmed
    for mode, proxy in sidecars.items():
        before = len(lines_so_far(proxy))
        seen = played(redis_session, proxy.port, story)
        assert seen == (unharmed if mode == "enforce" else harmed), mode
        lines = lines_so_far(proxy)[before:]
        told_of = [line for line in lines if line.get("rule") == rule]
        if mode == "observe":
            assert {line.get("action") for line in lines} <= {None}
        else:
            assert {line["action"] for line in told_of} == {"would_block" if mode == "shadow" else "blocked"}
            assert {line["rule"] for line in lines} <= {rule, None}, "nothing else of the story breaks a rule"


def test_no_rule_is_left_out() -> None:
    assert {case.rule for case in CASES.values()} == {rule.value for rule in Rule}
    for case in CASES.values():
        assert case.unharmed[-1] == 0, "the lawful owner finishes"
        assert case.harmed[-1] != 0 or case.rule in {"zombie_write", "lapsed_holder"}
