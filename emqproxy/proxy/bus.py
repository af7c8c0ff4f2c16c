"""The one-way road to the observer: batched, bounded, drop-and-count. The observer cannot hurt what flows here.

A batch is one packet of a SOCK_SEQPACKET pair of which we keep both ends: if the observer dies, what it had not read
is taken back from the socket for the next one, and no packet is torn. `tell` never blocks and never raises.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import sys
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from emqproxy.locks.verdicts import Attempt
from emqproxy.logs import Log, RateLimited
from emqproxy.proxy import clock
from emqproxy.proxy.packets import Packets, is_backlog, pack, records, records_in
from emqproxy.records import Anchor, Backlog, Gauges, Hello, Message, Snapshot

BATCH_MAX: Final = 64
"""Messages in one packet: about 40 kB, a fifth of what the kernel lets one packet hold."""
BATCH_DELAY_S: Final = 0.01
WAITING_MAX: Final = 64_000
"""Messages that wait for the observer, about 25 MB; past it the newest is dropped and counted. The observer gives way
to the data plane where there is no processor for both: a burst of half a minute is told when it is over."""
WAITING_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of packets that wait: names may be long."""
BACKLOG: Final = WAITING_MAX // 2
"""From so many on the observer is told that it is behind, so that it sheds spans before we drop records."""
HEARTBEAT_S: Final = 1.0
RESTART_S_MIN: Final = 0.1
RESTART_S_MAX: Final = 5.0
FLUSH_S: Final = 3.0
"""What the observer is given at the end; it bounds itself, this is the second lock on the door."""
PACKET_BYTES_MAX: Final = 160 * 1024
SNAPSHOT_MAX: Final = 64
"""Attempts in one Snapshot message."""


class Bus:
    """The data plane's end. `hello(restarts)` and `open_attempts()` give what a fresh observer is told first."""

    def __init__(
        self,
        hello: Callable[[int], Hello],
        open_attempts: Callable[[], tuple[Attempt, ...]],
        log: Log,
        gauges: Callable[[], Gauges] | None = None,
    ) -> None:
        self.seq = 0
        self.dropped = 0
        self.restarts = 0
        self._hello, self._open_attempts, self._gauges = hello, open_attempts, gauges
        self._log = RateLimited(log)
        self._waiting: deque[Message] = deque()
        self._packets = Packets()
        """Packets that go before what waits: a greeting, what a dead observer had not read, what could not be sent."""
        self._said_behind = False
        """The observer was told that it is behind."""
        self._greeting: frozenset[bytes] = frozenset()
        self._greeted = False
        """An observer is there and its greeting stands first in line. Until then nothing is sent."""
        self._flush: asyncio.TimerHandle | None = None
        self._blocked = False
        self._near, self._far = _pair()
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._heart: asyncio.TimerHandle | None = None
        self._closing = False

    # ---------------------------------------------------------------- life

    async def start(self) -> None:
        """Starts the observer and keeps one running."""
        self._beat()
        self._keeper = asyncio.create_task(self._keep(), name="observer keeper")

    async def close(self) -> None:
        """Hands over what waits, as far as it goes, and lets the observer end: at most FLUSH_S and a little, in all."""
        self._closing = True
        ends_at = clock.now() + int((FLUSH_S + 0.4) * 1e9)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                # Also where there is none just now: the next one is on its way.
                while self._behind and self._keeper is not None and not self._keeper.done():
                    self._send()
                    if self._behind:
                        await asyncio.sleep(BATCH_DELAY_S)
        self.dropped += records(self._waiting) + sum(map(records_in, self._packets))
        for handle in (self._heart, self._flush):
            if handle is not None:
                handle.cancel()
        self._hang_up()
        if self._keeper is None:
            return
        if not self._running:  # between two observers: there is none to wait for
            self._keeper.cancel()
        if not await self._kept_until(max(0.0, (ends_at - clock.now()) / 1e9)) and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._kept_until(0.5)

    async def _kept_until(self, timeout_s: float) -> bool:
        """Waits for the keeper's end; whether it came."""
        assert self._keeper is not None
        done, _ = await asyncio.wait([self._keeper], timeout=timeout_s)
        return bool(done)

    @property
    def _running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def _behind(self) -> bool:
        return bool(self._packets or self._waiting)

    @property
    def _far_behind(self) -> bool:
        return self._behind_by >= BACKLOG or self._packets.size_bytes >= WAITING_BYTES_MAX // 2

    @property
    def _behind_by(self) -> int:
        """Messages that wait."""
        return len(self._waiting) + self._packets.messages

    @property
    def fault(self) -> str | None:
        """Why telemetry is degraded, in words; None while it is not."""
        if not self._running:
            return "the observer is not running"
        if self._blocked and self.dropped:
            return f"{self.dropped} records were dropped"
        return "the observer is behind: it sheds spans" if self._far_behind else None

    @property
    def pid(self) -> int | None:
        """The observer's process."""
        return self._process.pid if self._process is not None else None

    async def _keep(self) -> None:
        """One observer after another, for as long as we run."""
        wait_s = RESTART_S_MIN
        while True:
            began = clock.now()
            try:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "emqproxy.observer",
                    str(self._far.fileno()),
                    pass_fds=(self._far.fileno(),),
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,  # a Ctrl-C at the terminal is ours to answer
                )
            except OSError as error:
                self._log.error("the observer cannot be started", now=clock.now(), error=str(error))
            else:
                self._greet()
                code = await self._process.wait()
                if self._closing:
                    return
                self.restarts += 1
                self._salvage()
                self._log.warning("the observer ended and is started again", now=clock.now(), code=code, key="ended")
            wait_s = RESTART_S_MIN if clock.now() - began > 10**10 else min(2 * wait_s, RESTART_S_MAX)
            await asyncio.sleep(wait_s)

    def _greet(self) -> None:
        """What a fresh observer must know before it reads on: it goes first, then what the last one left unread."""
        attempts = self._open_attempts()
        greeting: list[Message] = [self._hello(self.restarts), self._anchor()]
        greeting += [Snapshot(attempts[i : i + SNAPSHOT_MAX]) for i in range(0, len(attempts), SNAPSHOT_MAX)]
        packets = [pack([message]) for message in greeting]
        self._greeting = frozenset(packets)
        for packet in reversed(packets):
            self._packets.prepend(packet)
        self._greeted, self._said_behind = True, False
        self._schedule()

    def _salvage(self) -> None:
        """Takes back what a dead observer had not read, but for its greeting, and makes a new road."""
        self._greeted = False
        self._far.setblocking(False)
        unread: list[bytes] = []
        with contextlib.suppress(OSError):
            while packet := self._far.recv(2 * PACKET_BYTES_MAX):
                unread.append(packet)
        # In the order they were given: what was sent stands before what could not be sent any more.
        left = [packet for packet in (*unread, *self._packets) if packet not in self._greeting]
        self._packets.replace([packet for packet in left if not is_backlog(packet)])  # it is told of its own
        self._hang_up()
        self._near, self._far = _pair()

    def _hang_up(self) -> None:
        asyncio.get_running_loop().remove_writer(self._near)
        self._blocked = False
        self._near.close()
        self._far.close()

    def _anchor(self) -> Anchor:
        return Anchor(clock.now(), clock.wall_ns(), self.dropped, self.seq)

    def _beat(self) -> None:
        if self._running:
            self.tell(self._anchor())
            if self._gauges is not None:
                self.tell(self._gauges())
        self._heart = asyncio.get_running_loop().call_later(HEARTBEAT_S, self._beat)

    # ---------------------------------------------------------------- the road

    def number(self) -> int:
        """The next record's `seq`."""
        self.seq += 1
        return self.seq

    def tell(self, message: Message) -> None:
        """Puts it in line, or counts it as dropped."""
        waiting, packets = self._waiting, self._packets
        if len(waiting) + packets.messages >= WAITING_MAX or packets.size_bytes >= WAITING_BYTES_MAX:
            self.dropped += records([message])
            self._log.warning(
                "records are dropped: the observer is slow or gone", now=clock.now(), dropped=self.dropped
            )
            return
        waiting.append(message)
        if self._blocked:
            if len(waiting) >= BATCH_MAX:  # bytes take a third of the room
                self._pack_next()
        elif self._flush is None:
            self._schedule()

    def _schedule(self) -> None:
        if self._flush is None and self._greeted:
            self._flush = asyncio.get_running_loop().call_later(BATCH_DELAY_S, self._send)

    def _send(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        while self._greeted and self._behind:
            self._line_up()
            packet = self._packets.first
            try:
                self._near.send(packet)
            except (BlockingIOError, InterruptedError):
                self._block()
                return
            except OSError as error:
                if error.errno == errno.ENOBUFS:  # the kernel has no room just now
                    self._schedule()
                    return
                self.dropped += records_in(packet)
                self._log.error("records cannot be handed over", now=clock.now(), error=str(error))
            self._packets.pop()

    def _line_up(self) -> None:
        """Puts the next packet first in line: where it is news that many wait, or no longer, one that says so."""
        if not self._packets:
            self._pack_next()
        if self._far_behind is not self._said_behind and self._packets.first not in self._greeting:
            self._said_behind = not self._said_behind
            self._packets.prepend(pack([Backlog(self._behind_by if self._said_behind else 0)]))

    def _pack_next(self) -> None:
        """The first messages in line, as many as fit, become a packet."""
        waiting = self._waiting
        count = min(BATCH_MAX, len(waiting))
        while True:
            packet = pack(list(islice(waiting, count)))
            if len(packet) <= PACKET_BYTES_MAX or count == 1:
                break
            count //= 2
        for _ in range(count):
            waiting.popleft()
        self._packets.append(packet)

    def _block(self) -> None:
        if not self._blocked:
            self._blocked = True
            asyncio.get_running_loop().add_writer(self._near, self._unblock)

    def _unblock(self) -> None:
        asyncio.get_running_loop().remove_writer(self._near)
        self._blocked = False
        self._send()


def _pair() -> tuple[socket.socket, socket.socket]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near.setblocking(False)
    return near, far
