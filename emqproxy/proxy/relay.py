"""One client's connection and its own connection to Redis: bytes from each to the other, watched as they pass.

Two rules. The bytes come first: they are written on before anyone looks at them, and a fault of ours makes this one
connection blind and no more. Each direction pauses only on its own sink, and for a moment where much of it waits to be
looked at; that its peer does not read never stops what it sends, or a pipeline longer than the buffers between would
wait for itself for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol, cast

from emqproxy.logs import RateLimited
from emqproxy.proxy import client_side, clock
from emqproxy.proxy.ahead import Ahead
from emqproxy.proxy.gate import Gate
from emqproxy.proxy.tallies import Tallies
from emqproxy.proxy.ties import Ties
from emqproxy.proxy.upstream import BUFFER_BYTES_HIGH, Connector, ServerSide, in_words, keep_alive
from emqproxy.proxy.watched import Watched
from emqproxy.proxy.watcher import Watcher
from emqproxy.proxy.witness import Witness

EOF_GRACE_S: Final = 1.0
"""TLS only: how long answers to a client that half-closed are waited for, from its last bytes on."""


class Hub(Protocol):
    """What a relay needs of the house around it."""

    witness: Witness
    connector: Connector
    limited: RateLimited
    pending_bytes_max: int
    faults: int
    tallies: Tallies
    ties: Ties

    def number(self) -> int: ...
    def opened(self, relay: Relay) -> None: ...
    def closed(self, relay: Relay) -> None: ...


class Relay(asyncio.Protocol):
    """The client's connection, and the pair's life."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._connecting: asyncio.Task[None] | None = None
        self._server: asyncio.Transport | None = None
        self._ended = self._eof = self._tls = False
        self._client_full = self._server_full = False
        """It does not take what is written to it."""
        self._behind = False
        """Too many answers wait to be looked at, by the watcher's count."""
        self._asks, self._answers = Ahead(hub.witness.looks), Ahead(hub.witness.looks)
        self._judging = False
        """Too much waits to be judged, by the gate's count."""
        self._leaving = False  # true: we end it as soon as what was asked is answered
        self._spoke_at = 0
        """When the client last sent something."""
        self._gate: Gate | None = None
        """In enforce mode."""
        self._early: list[bytes] = []
        """What the client sent before we were connected: one read, then it is paused."""
        self.client: asyncio.Transport
        self.watched: Watched
        self._watcher: Watcher

    @property
    def connected(self) -> bool:
        """To Redis."""
        return self._server is not None

    # ---------------------------------------------------------------- the client's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.client = cast("asyncio.Transport", transport)
        self.client.set_write_buffer_limits(high=BUFFER_BYTES_HIGH)
        keep_alive(self.client)
        self._tls = client_side.over_tls(transport, self._client_ended)
        number = self._hub.number()
        self.watched = self._hub.witness.watch(number, client_side.peer(transport, number), self._hub.pending_bytes_max)
        self._watcher = Watcher(self._hub, self.watched, self._watcher_behind)
        self._hub.opened(self)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def data_received(self, data: bytes) -> None:
        if not self._spoke_at and data.startswith(client_side.HELLO):
            client_side.speaks_tls(self._hub.limited, self.watched.client)
        now = self._spoke_at = clock.now()
        server = self._server
        if self._ended or self._leaving:
            return  # read all the same: that it goes away is seen, and what we say last is not lost to a reset
        if server is None:
            self._early.append(data)
            if len(self._early) == 1:  # not sooner: uvloop begins to read after `connection_made`, paused or not
                self.client.pause_reading()
            return
        if self._gate is not None or self._hub.witness.judge.enforces:
            self._gated(data, now)
            return
        self.send(data, now)
        self._hub.witness.looks.later(self._look_at_requests, data, now, sliced=True)
        if self._asks.read(len(data)):
            self._read_client()

    def _gated(self, data: bytes, now: int) -> None:
        """Enforce mode: judged first, then sent on. The mode may have changed since this connection was made."""
        gate = self._gate
        if gate is None:
            self._hub.witness.looks.run()
            gate = self._gate = Gate(self._hub, self.watched, self._watcher, self)
            data = gate.shut_in(data, now)
        elif not self._hub.witness.judge.enforces and gate.idle:
            self._gate = None
            self.data_received(data)
            return
        if data:
            gate.asked(data, now)

    def send(self, data: bytes, now: int) -> None:
        """On to Redis."""
        if self._server is not None:
            self._server.write(data)
            self._hub.tallies.to_server(len(data), now)

    def gate_busy(self, busy: bool) -> None:
        """Too much waits to be judged."""
        self._judging = busy
        self._read_client()

    def _look_at_requests(self, data: bytes, now: int) -> None:
        self._watcher.from_client(data, now)
        if self._asks.looked(len(data)):
            self._read_client()

    def eof_received(self) -> bool:
        """Of a TCP connection: whether it is kept for what is still to be said. Over TLS it is over."""
        if not self._tls:
            self._client_ended()
        return not self._tls and not self._ended

    def _client_ended(self) -> None:
        """The client sends no more. Redis is told; its answers still go out, and it closes when it has given them."""
        self._eof = True
        if self._gate is not None and not self._ended:
            self._gate.finish()
        server = self._server
        if server is None or self._ended:
            return  # told to Redis once we are connected
        if server.can_write_eof():
            server.write_eof()
            return
        # Over TLS we cannot half-close. What was asked just now is waited for; what is unanswered for longer blocks,
        # and Redis must learn that nobody is there to take what it would give.
        waits_s = 0.0 if self._all_answered() else EOF_GRACE_S - (clock.now() - self._spoke_at) / 1e9
        asyncio.get_running_loop().call_later(max(0.0, waits_s), self.ended)

    def pause_writing(self) -> None:
        self._client_full = True
        self._read_server()

    def resume_writing(self) -> None:
        self._client_full = False
        self._read_server()

    def _watcher_behind(self, behind: bool) -> None:
        self._behind = behind
        self._read_server()

    def server_takes(self, takes: bool) -> None:
        """Whether the server takes what is written to it."""
        self._server_full = not takes
        self._read_client()

    def _read_client(self) -> None:
        if self._ended:
            return
        if self._server_full or self._asks.too_far or self._judging:
            self.client.pause_reading()
        else:
            self.client.resume_reading()

    def _read_server(self) -> None:
        if self._server is None:
            return
        if self._client_full or self._behind or self._answers.too_far:
            self._server.pause_reading()
        else:
            self._server.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._tls and exc is None and self._early:
            self._eof = True  # it said something and closed: Redis is to hear that first
        else:
            self.ended()

    # ---------------------------------------------------------------- the server's side

    async def _connect(self) -> None:
        try:
            side = await self._hub.connector.connect(lambda: ServerSide(self))
        except (OSError, UnicodeError) as error:  # the latter: a name that DNS cannot carry
            self._hub.limited.error(
                "upstream cannot be reached: clients are closed at once",
                now=clock.now(),
                key="upstream",
                upstream=str(self._hub.connector.upstream),
                error=in_words(error),
                client=self.watched.client,
            )
            self.ended()
            return
        except Exception as fault:  # noqa: BLE001  law 9
            self._watcher.fault(fault, clock.now())
            self.ended()
            return
        assert side.transport is not None
        if self._ended:
            side.transport.close()
            return
        self._server = side.transport
        self._hub.ties.made()
        early, self._early = self._early, []
        if early:
            self.client.resume_reading()  # first: if these bytes fill the way to Redis, they pause it again
            for data in early:
                self.data_received(data)
        if self._eof:
            self._client_ended()

    def from_server(self, data: bytes, now: int) -> None:
        """Bytes from Redis: the client is served before anyone is told."""
        if self._ended:  # TLS empties its buffer when it is closed
            return
        gate = self._gate
        data, exchanges = (data, []) if gate is None else gate.answers(data, now)
        self.client.write(data)
        self._hub.tallies.to_client(len(data), now)
        if gate is not None:
            gate.tell(exchanges, now)
        else:
            self._hub.witness.looks.later(self._look_at_answers, data, now)
            if self._answers.read(len(data)):
                self._read_server()
        if self._eof and self._server is not None and not self._server.can_write_eof() and self._all_answered():
            self._server.close()
        if self._leaving and self._all_answered():
            self.ended()

    def _look_at_answers(self, data: bytes, now: int) -> None:
        self._watcher.from_server(data, now)
        if self._answers.looked(len(data)):
            self._read_server()

    def _all_answered(self) -> bool:
        self._hub.witness.looks.run()
        return self._watcher.answered

    # ---------------------------------------------------------------- ends

    def server_lost(self, said: Iterable[bytes]) -> None:
        """Redis is gone, but for what it had said before."""
        if self._server is not None:
            self._server = None
            self._hub.witness.looks.run()
            self._hub.ties.gone(by_redis=not (self._eof or self.watched.session.quit))  # the client wants no more
        for data in said:
            self.from_server(data, clock.now())
        self.ended()

    def ended(self) -> None:
        """Either side is gone: the other follows, once what is already written to it has gone out."""
        if self._ended:
            return
        self._ended = True
        if self._gate is not None:
            self._gate.over()
            self.client.write(self._gate.last_words)
        if self._connecting is not None and not self._connecting.done() and self._server is None:
            self._connecting.cancel()
        self.client.close()
        if self._server is not None:
            self._server.close()
            self._server = None
            self._hub.ties.gone(by_redis=False)
        self._hub.witness.looks.later(self._look_at_the_end, b"", clock.now())

    def _look_at_the_end(self, _: bytes, now: int) -> None:
        self._gate = None  # it knows us: what is over is freed at once
        self._watcher.end(now, lambda: self._hub.closed(self))

    def close(self) -> None:
        """Ends it from our side: nothing more is asked, and what was asked is answered first. It may never be."""
        self._leaving = True
        if self._server is None or self._all_answered():
            self.ended()
