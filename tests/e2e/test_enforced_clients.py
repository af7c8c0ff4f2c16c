"""Unmodified clients in enforce mode with every rule at `enforce`: whatever they offer is called, and nothing refused.

And their own ways of losing a job: a worker by hand whose token never changes is told what the script would say.
"""

from __future__ import annotations

import socket
from typing import Any

import pytest

from emqproxy.scripts.catalogue import Catalogue
from tests.e2e.peers import Peer
from tests.processes import LOOPBACK, EmqProxy, RedisServer, inline
from tests.proxy.breaches import lines_so_far

KINDS = {"ioredis": 40, "node-redis": 40, "bullmq5": 38, "bullmq4": 25, "python": 20, "python-bullmq2": 20}
"""How many scripts each calls at least."""
BROKEN = {("python-bullmq2", "changePriority")}
"""It puts a job's key in the place of its queue's prefix: it would change another job's priority, if there were one."""


def run(kind: str, program: str, port: int) -> list[dict[str, Any]]:
    """A client's program to its end; what it said."""
    peer = Peer(kind, program, {"port": port, "prefix": "emq", "queue": f"{program}-{kind}"})
    try:
        peer.wait(event="ended")
        return peer.lines
    finally:
        peer.end()


def loaded(redis: RedisServer) -> set[str]:
    """The published scripts that Redis has been given."""
    shas = {script.sha: script.label for script in Catalogue()}
    with socket.create_connection((LOOPBACK, redis.port), timeout=10) as client:
        client.sendall(inline("SCRIPT", "EXISTS", *shas))
        with client.makefile("rb") as answer:
            there = [answer.readline() for _ in range(len(shas) + 1)][1:]
    return {label for label, one in zip(shas.values(), there, strict=True) if one == b":1\r\n"}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_client_offers_is_refused(kind: str, redis_session: RedisServer, enforcing: EmqProxy) -> None:
    said = run(kind, "everything", enforcing.port)
    assert len(loaded(redis_session)) >= KINDS[kind]
    refused = {(kind, line["what"]) for line in said if "EMQPROXY" in line.get("message", "")}
    assert refused == {broken for broken in BROKEN if broken[0] == kind}
    name = f"everything-{kind}"
    lines = [line for line in lines_so_far(enforcing) if name in f"{line['prefix']}:{line['queue']}"]
    assert {"acquire", "finish", "renew", "add"} <= {line["op"] for line in lines}
    refusals = {(kind, line["script"].partition("-")[0]) for line in lines if line.get("rule")}
    assert refusals == {broken for broken in BROKEN if broken[0] == kind}


@pytest.mark.parametrize("kind", ["ioredis", "bullmq5", "bullmq4", "python"])
def test_a_token_that_never_changes(kind: str, redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """Without us the slow one's finish is accepted, and the one who has the job is told that its lock is gone. With us
    it is the other way round, in the library's own words, and both go on."""
    for port, late in ((redis_session.port, False), (enforcing.port, True)):
        assert redis_session.call("FLUSHALL") == b"+OK\r\n"
        said = run(kind, "fixed", port)
        told = [(line["who"], line["job"], "message" in line) for line in said if line["event"] == "told"]
        assert told == [("slow", "one", late), ("quick", "one", not late), ("slow", "two", False)]
        (result,) = [line["value"] for line in said if line["event"] == "result"]
        assert result in (("quick", '"quick"') if late else ("slow", '"slow"'))
        (message,) = [line["message"] for line in said if "message" in line]
        assert ("mismatch" in message or "not owned" in message) is late, message
    lines = [line for line in lines_so_far(enforcing) if line["queue"] == f"fixed-{kind}"]
    blocked = [line for line in lines if line.get("action") == "blocked"]
    assert [(line["op"], line["job"], line["code"]) for line in blocked] == [("finish", "one", -6)]
    assert blocked[0]["rule"] == "lapsed_holder"
