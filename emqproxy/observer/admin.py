"""The admin listener: reads only, in a thread of its own, loopback unless told otherwise.

    /metrics            what Prometheus scrapes
    /api/jobs           ?key=emq:orders:42&db=0: the last lines of a job, as JSON
    /healthz, /readyz   as the data plane tells them; its own answers stand on the health port

A page in a browser may reach loopback by a name of its own (DNS rebinding): on loopback only names of it are answered.
No other origin is allowed to read anything. A port that is taken stops nobody: it is said once, and tried again.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import uvloop
from aiohttp import web

from emqproxy import logs
from emqproxy.observer.faults import Guard

RETRY_S: Final = 5.0
SILENT_S_MAX: Final = 5.0
"""A data plane that has told nothing of itself for so long is not ready, as far as is known here."""
DB_DIGITS_MAX: Final = 8
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_READS: Final = ("GET", "HEAD")
_SILENT: Final = logging.getLogger("emqproxy.admin")
"""Takes what aiohttp says of clients that speak no HTTP: anybody may connect and say anything."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Ready(NamedTuple):
    """What the data plane said last."""

    silent_s: float
    ready: bool
    body: str
    """JSON."""


class Admin:
    """`metrics(accept)` gives a page and its type, None where metrics are off; `ready()` None if nothing was told;
    `jobs(key, db)` the JSON of one job's last lines, None for a job that is not known."""

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Callable[[str], tuple[bytes, str] | None],
        ready: Callable[[], Ready | None],
        jobs: Callable[[str, int], bytes | None] = lambda _key, _db: None,
    ) -> None:
        self._host, self._port, self._jobs = host, port, jobs
        self._metrics, self._ready = metrics, ready
        self._loopback = _is_loopback(host)
        self._ended = threading.Event()
        self._listens = threading.Event()
        self._loop = uvloop.new_event_loop()
        self._end = self._loop.create_future()
        self._guard = Guard("admin")
        self._thread = threading.Thread(target=self._guard.call, args=(self._run,), name="admin", daemon=True)
        self.port = 0
        """The real one, once it listens."""

    def start(self) -> None:
        """Listens soon, or says why not and tries again."""
        self._thread.start()

    def listens(self, timeout_s: float) -> bool:
        """Waits until it does."""
        return self._listens.wait(timeout_s)

    def close(self) -> None:
        """Ends it; a request that is being answered is cut."""
        self._ended.set()
        self._loop.call_soon_threadsafe(self._resolve)
        self._thread.join(2)

    # ------------------------------------------------------------------ its thread

    def _resolve(self) -> None:
        if not self._end.done():
            self._end.set_result(None)

    def _run(self) -> None:
        said = False
        while not self._ended.is_set():
            runner = self._runner()
            try:
                self._loop.run_until_complete(runner.setup())
                self._loop.run_until_complete(web.TCPSite(runner, self._host, self._port).start())
            except (OSError, UnicodeError) as error:
                self._loop.run_until_complete(runner.cleanup())
                if not said:
                    said = True
                    why = error.strerror if isinstance(error, OSError) and error.strerror else "no such address"
                    logs.get().error(
                        "cannot listen for /metrics: tried again every few seconds, traffic and traces go on",
                        admin=f"{_bracketed(self._host)}:{self._port}",
                        reason=why,
                        hint="give --admin another HOST:PORT, or '' for none",
                    )
                self._ended.wait(RETRY_S)
                continue
            self.port = int(runner.addresses[0][1])
            logs.get().info("admin listens", admin=f"{_bracketed(self._host)}:{self.port}")
            self._listens.set()
            self._loop.run_until_complete(self._end)
            self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    def _runner(self) -> web.AppRunner:
        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app = web.Application(middlewares=[guarded])
        app.router.add_route("*", "/metrics", self._on_metrics)
        app.router.add_route("*", "/api/jobs", self._on_jobs)
        app.router.add_route("*", "/healthz", self._on_healthz)
        app.router.add_route("*", "/readyz", self._on_readyz)
        return web.AppRunner(
            app, access_log=None, logger=_SILENT, handle_signals=False, keepalive_timeout=75, shutdown_timeout=0.1
        )

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Before every answer, that of an unknown path as well."""
        if self._loopback and not _names_loopback(request.headers.get("Host", "")):
            return _text(403, "this listener answers to names of the loopback interface only\n")
        if request.method not in _READS:
            answer = _text(405, "reads only\n")
            answer.headers["Allow"] = ", ".join(_READS)
            return answer
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return _text(404, "there are /metrics, /api/jobs, /healthz and /readyz\n")

    async def _on_metrics(self, request: web.Request) -> web.Response:
        answers: list[tuple[bytes, str] | None] = []
        self._guard.call(lambda: answers.append(self._metrics(request.headers.get("Accept", ""))))
        if not answers:
            return _text(500, "the page could not be made\n")
        (told,) = answers
        if told is None:
            return _text(404, "metrics are not scraped here: OTEL_METRICS_EXPORTER or OTEL_SDK_DISABLED says so\n")
        page, content_type = told
        return web.Response(body=page, headers={**_HEADERS, "Content-Type": content_type})

    async def _on_jobs(self, request: web.Request) -> web.Response:
        key, db = request.query.get("key", ""), request.query.get("db", "0")
        if not key or not (db.isascii() and db.isdigit() and len(db) <= DB_DIGITS_MAX):
            return _json(400, json.dumps({"error": "ask for /api/jobs?key=emq:orders:42&db=0"}))
        pages: list[bytes | None] = []
        self._guard.call(lambda: pages.append(self._jobs(key, int(db))))
        if not pages:
            return _json(500, json.dumps({"error": "the page could not be made"}))
        (page,) = pages
        if page is None:
            return _json(404, json.dumps({"error": "this job is not among those that were seen last"}))
        return web.Response(body=page + b"\n", content_type="application/json", headers=_HEADERS)

    async def _on_healthz(self, _: web.Request) -> web.Response:
        return _json(200, json.dumps({"alive": True}))

    async def _on_readyz(self, _: web.Request) -> web.Response:
        told = self._ready()
        if told is None or told.silent_s > SILENT_S_MAX:
            why = "has told nothing yet" if told is None else f"has told nothing for {told.silent_s:.0f} s"
            return _json(503, json.dumps({"ready": False, "reason": f"the data plane {why}"}))
        return _json(200 if told.ready else 503, told.body)


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, headers=_HEADERS)


def _json(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n", content_type="application/json", headers=_HEADERS)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names_loopback(host: str) -> bool:
    """Whether a Host header names the loopback interface. Every browser sends one; what sends none is no browser."""
    if not host:
        return True
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return _is_loopback(name)
