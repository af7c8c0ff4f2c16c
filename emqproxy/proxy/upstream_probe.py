"""Asks the upstream PING every two seconds, on a connection of its own: is it there, and is it a plain Redis?

The only place that uses the credentials of `upstream`. It sends PING and INFO and nothing else, selects no database,
and never raises: what went wrong stands in `error`. Of memory it asks each half a minute, and with each PING where keys
may be evicted; where INFO is forbidden, nothing is known of it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

import redis.asyncio as redis
from redis import exceptions

from emqproxy.config import Upstream
from emqproxy.locks.events import Instant
from emqproxy.locks.evictions import POLICIES, Memory
from emqproxy.proxy.upstream import Connector

INTERVAL_S: Final = 2.0
RETRY_S_MIN: Final = 0.1
"""After a failure; doubled up to INTERVAL_S, so that a sidecar that starts with its Redis is ready soon after it."""
TIMEOUT_S: Final = 1.5
"""For a connect with its handshake, and for each answer."""
MEMORY_EVERY: Final = 15
"""Probes: so often it is asked what is done when memory is full."""


class UpstreamProbe:
    """One task. Call `start`, read the attributes at any time, and `stop` at the end."""

    def __init__(
        self,
        connector: Connector,
        now: Callable[[], Instant],
        topology: Callable[[str], None],
        another: Callable[[], None] = lambda: None,
        memory: Callable[[Memory], None] = lambda _: None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """`connector`: whose upstream, by its TLS. `topology` is told `cluster` or `sentinel`, once per connection
        to such a server. `another` is called when another process answers than before; `memory` with what INFO says
        of it."""
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
        self._topology, self._another, self._memory = topology, another, memory
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
                wait_s = self._interval_s
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001  whatever it is, the next attempt may succeed; readiness tells it
                self.error = _in_words(error)
                wait_s = RETRY_S_MIN if self.answered_at != before else min(2 * wait_s, self._interval_s)
            self._tried.set()
            await asyncio.sleep(wait_s)

    async def _one_connection(self) -> None:
        """Probes until the connection fails, and raises then; once, where credentials are wanted that nobody gave."""
        connection = _connection(self._upstream, self._connector.tls_arguments())
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
            if not await self._ping(connection):
                return  # the library has hung up
            await self._ask_info(connection)
            policy: Memory | None = None
            for probe in itertools.count():
                if probe % MEMORY_EVERY == 0 or (policy is not None and policy.evicts):
                    policy = await self._ask_memory(connection, policy if probe % MEMORY_EVERY else None)
                await asyncio.sleep(self._interval_s)
                await self._ping(connection)
        finally:
            await connection.disconnect(nowait=True)

    async def _ping(self, connection: redis.Connection) -> bool:
        """Whether it may go on."""
        welcome = True
        try:
            await _ask(connection, "PING")
        except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
            # An answer all the same: it is there, and clients bring credentials of their own.
            if self._upstream.password is not None:
                raise
            welcome = isinstance(error, exceptions.NoPermissionError)
        self.answered_at = self._now()
        self.error = None
        self._tried.set()
        return welcome

    async def _ask_info(self, connection: redis.Connection) -> None:
        facts = await _info(connection, "server")
        if not facts:
            return
        self.redis_version = facts.get("redis_version")
        self.redis_mode = facts.get("redis_mode")
        before, self.redis_run = self.redis_run, facts.get("run_id", self.redis_run)
        if before not in {None, self.redis_run}:
            self._another()
        if self.redis_mode in ("cluster", "sentinel"):
            self._topology(self.redis_mode)

    async def _ask_memory(self, connection: redis.Connection, known: Memory | None) -> Memory | None:
        """What it does when memory is full (`known`: as it was a moment ago), and how many keys it has evicted."""
        if known is None:
            facts = await _info(connection, "memory")
            policy, maxmemory = facts.get("maxmemory_policy", ""), facts.get("maxmemory", "")
            if policy not in POLICIES or not maxmemory.isdecimal():
                return None
            known = Memory(0, policy, int(maxmemory), 0)
        evicted = (await _info(connection, "stats")).get("evicted_keys", "")
        if not evicted.isdecimal():
            return None
        told = known._replace(at=self._now(), evicted_keys=int(evicted))
        self._memory(told)
        return told


async def _info(connection: redis.Connection, section: str) -> dict[str, str]:
    """A section's lines; none where it is not to be had."""
    try:
        answer = await _ask(connection, "INFO", section)
    except exceptions.ResponseError:
        return {}  # not allowed to this user, or no such command: a proxy of another kind
    lines = answer.decode("utf-8", "replace").splitlines() if isinstance(answer, bytes) else []
    return dict(line.split(":", 1) for line in lines if ":" in line)


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
