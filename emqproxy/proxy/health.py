"""/healthz and /readyz, answered on the data plane's own loop: a dead observer never gets a healthy sidecar killed.

Knows HTTP; whether we are ready it is told by whoever made it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, Literal

from aiohttp import web

from emqproxy.locks.events import Instant

ANSWER_AGE_NS_MAX: Final = 6_000_000_000
"""An upstream's last PING answer older than this is not "lately": three probes were missed."""

Ready = tuple[bool, Mapping[str, object]]


def readiness(
    *,
    listening: bool,
    draining: bool,
    full: bool,
    upstream_answered_at: Instant | None,
    upstream_error: str | None,
    telemetry_fault: str | None,
    now: Instant,
) -> Ready:
    """Whether to send us new clients, and the body of /readyz. A fault of the telemetry never makes us unready."""
    reason = None
    if draining:
        reason = "draining"
    elif not listening:
        reason = "not listening yet"
    elif full:
        reason = "no descriptors are left for more clients"
    elif upstream_answered_at is None or now - upstream_answered_at > ANSWER_AGE_NS_MAX:
        reason = f"upstream does not answer: {upstream_error or 'no PING was answered yet'}"
    telemetry: Literal["ok", "degraded"] = "degraded" if telemetry_fault else "ok"
    body: dict[str, object] = {"ready": reason is None, "telemetry": telemetry}
    if reason:
        body["reason"] = reason
    if telemetry_fault:
        body["telemetry_reason"] = telemetry_fault
    return reason is None, body


class Health:
    """An HTTP server for probes. Call `start`, and `stop` at the end."""

    def __init__(self, ready: Callable[[], Ready], host: str, port: int) -> None:
        self._ready = ready
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port it listens on, once started: another than was asked for where that was 0."""
        if self._runner is None or not self._runner.addresses:
            return self._port
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Listens. OSError where the address cannot be had; nothing is left open then."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)  # HEAD too: aiohttp adds it
        app.router.add_get("/readyz", self._readyz)
        # A prober that keeps its connection must not hold up our end.
        runner = web.AppRunner(app, access_log=None, handle_signals=False, keepalive_timeout=15, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        """Closes it. Without `start`, and twice, it does nothing."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return _answer(True, {"alive": True})

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(*self._ready())


def _answer(good: bool, body: Mapping[str, object]) -> web.Response:
    return web.Response(
        status=200 if good else 503,
        text=json.dumps(body) + "\n",
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
