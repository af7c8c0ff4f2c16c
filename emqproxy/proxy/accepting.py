"""One listening socket, and who is let in: as many as there are descriptors for. Others wait in the kernel's line.

Accepting is our own: a server of uvloop's closes whom it has no descriptor for at once, and now and then itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Callable
from typing import Final

from emqproxy.logs import RateLimited
from emqproxy.proxy import clock
from emqproxy.proxy.tls_door import Door

AT_ONCE: Final = 64
"""So many are let in in one turn of the loop."""
RETRY_S: Final = 1.0
"""After accepting failed: descriptors may be short on somebody else's account."""
RESERVED: Final = 64
"""Descriptors that are not for clients: listeners, probes and those who probe us, the observer, resolving names."""
LIMIT_MAX: Final = 1_048_576


def raise_open_files() -> int:
    """Takes as many descriptors as we may have (the soft limit is there for programs that use select); how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft if soft != resource.RLIM_INFINITY else LIMIT_MAX
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


class Room:
    """How many clients there are descriptors for: each takes two, one of them to Redis. `taken` counts those inside."""

    def __init__(self, taken: Callable[[], int], limited: RateLimited) -> None:
        self.open_files = raise_open_files()
        self.clients_max = max(1, (self.open_files - RESERVED) // 2)
        self._taken = taken
        self._limited = limited

    def __call__(self, coming: int) -> bool:
        """Whether one more may come in, where so many were let in and are not connected yet."""
        return self._taken() + coming < self.clients_max

    def full(self, why: str) -> None:
        """Nobody more can be let in just now."""
        self._limited.error(
            "clients wait to be let in: raise the limit of open files",
            now=clock.now(),
            reason=why,
            clients=self._taken(),
            open_files=self.open_files,
        )


class Acceptor:
    """Accepts on a bound socket that listens, once `resume` was called. Takes the socket for its own.

    Where there is no room it waits; whoever makes room calls `resume`. With a `door` clients speak TLS.
    """

    def __init__(
        self,
        sock: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        room: Room,
        door: Door | None = None,
    ) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._factory, self._room, self._door = factory, room, door
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._closed = False
        self._retry: asyncio.TimerHandle | None = None
        self._coming: set[asyncio.Task[None]] = set()

    def resume(self) -> None:
        """Accepts, from now on or again."""
        if self._closed or self._reading:
            return
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._reading = True
        self._loop.add_reader(self.socket, self._accept)

    def close(self) -> None:
        """Accepts nobody more. Twice does no harm."""
        if self._closed:
            return
        self._pause()
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        self.socket.close()

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self.socket)

    def _accept(self) -> None:
        for place in range(AT_ONCE):
            if not self._room(len(self._coming)):
                if place == 0:  # somebody waits; later in a turn perhaps nobody does
                    self._pause()
                    if not self._coming:  # who is coming may be counted twice just now
                        self._room.full("no descriptors are left for more clients")
                return
            try:
                sock, peername = self.socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._pause()
                self._retry = self._loop.call_later(RETRY_S, self.resume)
                self._room.full(error.strerror or os.strerror(error.errno or 0))
                return
            sock.setblocking(False)
            task = self._loop.create_task(self._let_in(sock, peername))
            self._coming.add(task)
            task.add_done_callback(self._came)

    async def _let_in(self, sock: socket.socket, peername: object) -> None:
        door = self._door
        tls, timeout_s = (None, None) if door is None else (door.context(), door.timeout_s)
        try:
            await self._loop.connect_accepted_socket(self._factory, sock, ssl=tls, ssl_handshake_timeout=timeout_s)
        except (OSError, asyncio.CancelledError) as error:  # it has gone, or speaks no TLS: nothing of ours is wrong
            if door is not None and isinstance(error, OSError):
                door.failed(error, peername)
            with contextlib.suppress(OSError):
                sock.close()

    def _came(self, task: asyncio.Task[None]) -> None:
        self._coming.discard(task)
        if not self._reading and self._retry is None:
            self.resume()
