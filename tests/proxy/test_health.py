"""/healthz and /readyz over real HTTP, and what makes a sidecar ready."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from emqproxy.proxy.health import ANSWER_AGE_NS_MAX, Health, Ready, readiness
from tests.processes import http_get

NOW = 50_000_000_000
GOOD: dict[str, Any] = {
    "listening": True,
    "draining": False,
    "full": False,
    "upstream_answered_at": NOW - 1,
    "upstream_error": None,
    "telemetry_fault": None,
    "now": NOW,
}


@pytest.mark.parametrize(
    ("changed", "ready", "reason"),
    [
        ({}, True, None),
        ({"listening": False}, False, "not listening yet"),
        ({"draining": True}, False, "draining"),
        ({"draining": True, "listening": False}, False, "draining"),
        ({"draining": True, "full": True}, False, "draining"),
        ({"full": True}, False, "no descriptors are left for more clients"),
        ({"upstream_answered_at": None}, False, "upstream does not answer: no PING was answered yet"),
        ({"upstream_answered_at": None, "upstream_error": "refused"}, False, "upstream does not answer: refused"),
        ({"upstream_answered_at": NOW - ANSWER_AGE_NS_MAX}, True, None),
        (
            {"upstream_answered_at": NOW - ANSWER_AGE_NS_MAX - 1, "upstream_error": "no answer within 1.5 s"},
            False,
            "upstream does not answer: no answer within 1.5 s",
        ),
        ({"upstream_error": "one failed, another answered since"}, True, None),
        ({"telemetry_fault": "the observer is restarting"}, True, None),
    ],
)
def test_readiness(changed: dict[str, Any], ready: bool, reason: str | None) -> None:
    told, body = readiness(**(GOOD | changed))
    assert (told, body["ready"], body.get("reason")) == (ready, ready, reason)
    assert body["telemetry"] == ("degraded" if changed.get("telemetry_fault") else "ok")
    assert body.get("telemetry_reason") == changed.get("telemetry_fault")


def serving(ready: Callable[[], Ready], look: Callable[[Health], Awaitable[None]]) -> None:
    async def run() -> None:
        health = Health(ready, "127.0.0.1", 0)
        await health.start()
        try:
            await look(health)
        finally:
            await health.stop()

    asyncio.run(run())


def test_both_paths_and_both_methods() -> None:
    state: dict[str, Ready] = {"now": (True, {"ready": True, "telemetry": "ok"})}

    async def look(health: Health) -> None:
        async def get(path: str, method: str = "GET") -> tuple[int, bytes]:
            return await asyncio.to_thread(http_get, health.port, path, method)

        assert await get("/readyz") == (200, b'{"ready": true, "telemetry": "ok"}\n')
        assert await get("/readyz", "HEAD") == (200, b"")
        state["now"] = (False, {"ready": False, "reason": "draining"})
        status, body = await get("/readyz")
        assert (status, json.loads(body)) == (503, {"ready": False, "reason": "draining"})
        assert await get("/readyz", "HEAD") == (503, b"")
        # Alive all the same: an unready sidecar must not be killed.
        assert await get("/healthz") == (200, b'{"alive": true}\n')
        assert (await get("/"))[0] == 404
        assert (await get("/readyz", "POST"))[0] == 405

    serving(lambda: state["now"], look)


def test_a_taken_port_is_an_os_error() -> None:
    async def look(health: Health) -> None:
        second = Health(lambda: (True, {}), "127.0.0.1", health.port)
        with pytest.raises(OSError, match="address already in use") as told:
            await second.start()
        assert told.value.errno == errno.EADDRINUSE
        await second.stop()

    serving(lambda: (True, {}), look)


def test_a_probe_that_keeps_its_connection_does_not_hold_up_the_end() -> None:
    async def look(health: Health) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", health.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        await asyncio.wait_for(health.stop(), 5)
        assert (await reader.read()).endswith(b'{"alive": true}\n')  # to its end: we closed it
        writer.close()
        await writer.wait_closed()

    serving(lambda: (True, {}), look)
