"""Asks the upstream PING every two seconds, on a connection of its own: is it there, and is it a plain Redis?

The only place that uses the credentials of `upstream`. It sends PING and INFO and nothing else, selects no database,
and never raises: what went wrong stands in `error`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import redis.asyncio as redis
from redis import exceptions

from emqproxy.config import Upstream
from emqproxy.locks.events import Instant
from emqproxy.proxy.upstream import Connector

INTERVAL_S: Final = 2.0
RETRY_S_MIN: Final = 0.1
"""After a failure; doubled up to INTERVAL_S, so that a sidecar that starts with its Redis is ready soon after it."""
TIMEOUT_S: Final = 1.5
"""For a connect with its handshake, and for each answer."""


class UpstreamProbe:
    """One task. Call `start`, read the attributes at any time, and `stop` at the end."""

    def __init__(
        self,
        connector: Connector,
        now: Callable[[], Instant],
        topology: Callable[[str], None],
        interval_s: float = INTERVAL_S,
        another: Callable[[], None] = lambda: None,
    ) -> None:
        """`connector`: whose upstream, by its TLS. `topology` is told `cluster` or `sentinel`, once per connection
        to such a server. `another` is called when another process answers than before."""
        self.answered_at: Instant | None = None
        """When a PING was last answered."""
        self.error: str | None = None
        """Why the last attempt failed; None where it did not."""
        self.redis_mode: str | None = None
        """`standalone`, `cluster` or `sentinel`; None where INFO was not to be had."""
        self.redis_run: str | None = None
        """Which process answered last: Redis's own `run_id`."""
        self.redis_version: str | None = None
        self._connector, self._upstream = connector, connector.upstream
        self._now = now
        self._topology, self._another = topology, another
        self._interval_s = interval_s
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to probe, on the running loop."""
        self._task = asyncio.create_task(self._run(), name="upstream probe")

    async def stop(self) -> None:
        """Ends it and closes its connection. Without `start`, and twice, it does nothing."""
        task, self._task = self._task, None
        while task is not None and not task.done():
            task.cancel()  # again, should a library have swallowed it
            await asyncio.wait([task], timeout=0.1)

    async def first_attempt(self) -> bool:
        """Waits until the first attempt has ended, well or not: at most two time-outs. True: it was answered."""
        await self._tried.wait()
        return self.answered_at is not None

    async def _run(self) -> None:
        wait_s = RETRY_S_MIN
        while True:
            before = self.answered_at
            try:
                await self._one_connection()
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001  whatever it is, the next attempt may succeed; readiness tells it
                self.error = _in_words(error)
            self._tried.set()
            wait_s = RETRY_S_MIN if self.answered_at != before else min(2 * wait_s, self._interval_s)
            await asyncio.sleep(wait_s)

    async def _one_connection(self) -> None:
        """Probes until the connection fails, and raises then."""
        connection = _connection(self._upstream, self._connector.tls_arguments())
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
            await self._ping(connection)
            await self._ask_info(connection)
            while True:
                await asyncio.sleep(self._interval_s)
                await self._ping(connection)
        finally:
            await connection.disconnect(nowait=True)

    async def _ping(self, connection: redis.Connection) -> None:
        try:
            await _ask(connection, "PING")
        except (exceptions.AuthenticationError, exceptions.NoPermissionError):
            # An answer all the same: it is there, and clients bring credentials of their own.
            if self._upstream.password is not None:
                raise
        self.answered_at = self._now()
        self.error = None
        self._tried.set()

    async def _ask_info(self, connection: redis.Connection) -> None:
        try:
            answer = await _ask(connection, "INFO", "server")
        except exceptions.ResponseError:  # not allowed to this user, or no such command: a proxy of another kind
            return
        lines = answer.decode("utf-8", "replace").splitlines() if isinstance(answer, bytes) else []
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        self.redis_version = facts.get("redis_version")
        self.redis_mode = facts.get("redis_mode")
        before, self.redis_run = self.redis_run, facts.get("run_id", self.redis_run)
        if before not in {None, self.redis_run}:
            self._another()
        if self.redis_mode in ("cluster", "sentinel"):
            self._topology(self.redis_mode)


async def _ask(connection: redis.Connection, *words: str) -> object:
    async with asyncio.timeout(TIMEOUT_S):
        await connection.send_command(*words)
        answer: object = await connection.read_response()
        return answer


class _Connection(redis.Connection):
    """Over the same TLS as clients' connections, or none."""

    def __init__(self, tls_arguments: Mapping[str, Any], **options: Any) -> None:  # noqa: ANN401  redis's own
        super().__init__(**options)
        self._tls_arguments = tls_arguments

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), **self._tls_arguments}


def _connection(upstream: Upstream, tls_arguments: Mapping[str, Any]) -> redis.Connection:
    options: dict[str, Any] = {
        "username": upstream.username,
        "password": upstream.password,
        "protocol": 2,  # every server since 2.0 speaks it without HELLO
        "driver_info": None,  # no CLIENT SETINFO: some users may not, and it would only be noise
        # Ours (`asyncio.timeout`) bound all of it. The library's own use `wait_for`, which on Python 3.11 can swallow
        # the cancellation that `stop` sends.
        "socket_connect_timeout": None,
        "socket_timeout": None,
    }
    if upstream.kind == "unix":
        return redis.UnixDomainSocketConnection(path=upstream.path, **options)  # type: ignore[return-value]
    return _Connection(tls_arguments, host=upstream.host, port=upstream.port, **options)


def _in_words(error: Exception) -> str:
    """For /readyz and logs: no address of memory, no password, one line."""
    if isinstance(error, TimeoutError | exceptions.TimeoutError):
        return f"no answer within {TIMEOUT_S} s"
    return " ".join(str(error).split()) or type(error).__name__
