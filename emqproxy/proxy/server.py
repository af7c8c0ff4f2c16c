"""The data plane as a whole: it starts its parts in order, serves, drains and ends. `run` is all the CLI knows.

Order: the listeners (no port, no start: exit 3), health, the probe of the upstream, the observer. SIGTERM or SIGINT
drains: clients that are connected go on being served, new ones too; when the last has gone we end. A second one, or
`drain.timeout`, ends at once. SIGHUP reads the configuration again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import signal
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Final

import uvloop

import emqproxy
from emqproxy import logs
from emqproxy.config import Config, printable
from emqproxy.locks.ledger import LockLedger
from emqproxy.proxy import clock
from emqproxy.proxy.accepting import Room
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.greeting import hello
from emqproxy.proxy.health import Health, Ready, readiness
from emqproxy.proxy.journal_path import check_journal
from emqproxy.proxy.listeners import CannotStartError, Listeners
from emqproxy.proxy.relay import Relay
from emqproxy.proxy.reload import Reload
from emqproxy.proxy.ruling import put_in_force
from emqproxy.proxy.tallies import Tallies
from emqproxy.proxy.ties import Ties
from emqproxy.proxy.tls_door import Door
from emqproxy.proxy.unrecognised import Unrecognised
from emqproxy.proxy.upstream import Connector
from emqproxy.proxy.upstream_probe import UpstreamProbe
from emqproxy.proxy.witness import Witness
from emqproxy.records import Gauges, Hello
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.user_catalogue import UserScript

LAST_ANSWERS_S: Final = 1.0
"""At `drain.timeout`: how long what was asked before is waited for."""
LAST_LOOKS_S: Final = 2.0
"""How long looking at the last answers may take."""
GOOD: Final = 0
CANNOT_START: Final = 3
INTERRUPTED: Final = 130
LOOK_S: Final = 0.2
"""How soon it is told that an upstream answers that did not at the start."""


def run(config: Config, added: Sequence[UserScript] = (), load: Callable[[], Config] | None = None) -> int:
    """Serves until it is told to end; the process's exit code. `added`: the user's own catalogue; `load` reads the
    configuration again, at a SIGHUP."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it would end us, until we can answer it
    to_stdout = config.observer.journal == "-"
    logs.configure(config.log_level, sys.stderr if to_stdout else sys.stdout)
    try:
        check_journal(config.observer.journal)
        plane = DataPlane(config, added, load)
        _calm_the_collector()
        return uvloop.run(plane.serve())
    except CannotStartError as error:
        sys.stderr.write(printable(f"emqproxy run: {error}") + "\n")
        return CANNOT_START


class DataPlane:
    """One sidecar's data plane. Also what a relay sees of the house around it (`relay.Hub`)."""

    def __init__(
        self, config: Config, added: Sequence[UserScript] = (), load: Callable[[], Config] | None = None
    ) -> None:
        self.config = config
        self.reload = Reload(self, load or (lambda: config))
        self.log = logs.get()
        self.limited = logs.RateLimited(self.log)
        self.connector = Connector(config.upstream, config.upstream_tls, self.limited)
        self.pending_bytes_max = config.limits.pending_bytes
        self.faults = 0
        self.catalogue = Catalogue(config.prefixes, added)
        self.ledger = LockLedger(
            late=config.lateness.late,
            critical=config.lateness.critical,
            locks_max=config.limits.locks,
            sole_path=config.sole_path,
        )
        self.tallies = Tallies()
        self.lag = clock.LoopLag(self.ledger.paused, self.tallies.loop_lag.add)
        self._run_id = str(uuid.uuid4())
        self.bus = Bus(self.hello, self.ledger.open_attempts, self.log, self._gauges)
        self.unrecognised = Unrecognised(config.prefixes, self.log)
        self.witness = Witness(self.catalogue, self.ledger, self.bus, self.lag, self.unrecognised)
        put_in_force(config, self.witness.judge)
        self.room = Room(lambda: len(self.relays), self.limited)
        self.door = Door.of(config, self.limited)
        self.listeners = Listeners(self.room, self.door)
        self.ties = Ties(self.witness.estranged)
        self.probe = UpstreamProbe(self.connector, clock.now, self._topology, self.witness.estranged, self.witness.info)
        self.relays: set[Relay] = set()
        self._connections, self._listening, self._draining = 0, False, False
        self._watch: asyncio.Task[None] | None = None
        self._signals: list[int] = []
        self._changed = asyncio.Event()
        """A signal came, or a connection closed."""

    # ---------------------------------------------------------------- the life of it

    async def serve(self) -> int:
        """From the first port to the last byte; the exit code. Raises CannotStartError, with nothing left open."""
        config, loop = self.config, asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        loop.add_signal_handler(signal.SIGHUP, self.reload.asked)
        health = Health(self._ready, config.health.host, config.health.port) if config.health is not None else None
        try:
            await self._open(health)
        except CannotStartError:
            await self._end(health)
            raise
        self.lag.start()
        await self.bus.start()
        self._listening = True
        self._say_started(health)
        self._watch = asyncio.create_task(self._say_upstream(), name="first word of the upstream")
        await self._until_drained()
        await self._end(health)
        return INTERRUPTED if self._signals[:1] == [signal.SIGINT] else GOOD

    async def _open(self, health: Health | None) -> None:
        """What a start may fail of."""
        config = self.config
        await self.listeners.open(config.listen, lambda: Relay(self))
        if health is not None:
            try:
                await health.start()
            except OSError as error:
                why = f"{error.strerror or error}; give --health another HOST:PORT, or '' for none"
                raise CannotStartError(f"cannot listen on {config.health} for health: {why}") from None
        self.probe.start()
        if config.require_upstream and not await self.probe.first_attempt():
            why = f"{self.probe.error}; start it, give --upstream another, or leave out --require-upstream"
            raise CannotStartError(f"upstream {config.upstream} does not answer: {why}")

    async def _until_drained(self) -> None:
        while not self._signals:
            await self._next_change()
        self._draining = True
        timeout_s = self.config.drain.timeout or None
        self.log.info("draining: connected clients are served on", clients=len(self.relays), timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                while self.relays and len(self._signals) < 2:
                    await self._next_change()
        except TimeoutError:
            self.log.warning("drain.timeout has passed: clients are closed", clients=len(self.relays))

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _end(self, health: Health | None) -> None:
        self.reload.stop()
        self.listeners.close()
        if len(self._signals) < 2:
            for relay in list(self.relays):
                relay.close()
            await self._all_gone(LAST_ANSWERS_S)
        for relay in list(self.relays):
            relay.ended()
        await self._all_gone(LAST_LOOKS_S)
        self.witness.stop()
        self.lag.stop()
        if self._watch is not None:
            self._watch.cancel()
        await self._flush()
        if health is not None:
            await health.stop()
        await self.probe.stop()
        if self._listening:
            self.log.info("ended", records=self.bus.seq, dropped=self.bus.dropped)

    async def _all_gone(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.relays:
                    await self._next_change()

    async def _flush(self) -> None:
        """Hands over what waits for the observer, in 3 s or until one more signal; the observer ends by itself."""
        before, flush = len(self._signals), asyncio.create_task(self.bus.close(), name="flush")
        flush.add_done_callback(lambda _: self._changed.set())
        while not flush.done() and len(self._signals) == before:
            await self._next_change()
        flush.cancel()
        await asyncio.wait([flush])

    def _signalled(self, number: int) -> None:
        self._signals.append(number)
        self._changed.set()

    # ---------------------------------------------------------------- what relays see

    def number(self) -> int:
        """The next connection's number."""
        self._connections += 1
        return self._connections

    def opened(self, relay: Relay) -> None:
        """A client connected."""
        self.relays.add(relay)

    def closed(self, relay: Relay) -> None:
        """A client has gone, and its connection to Redis with it."""
        self.relays.discard(relay)
        self._changed.set()
        self.listeners.resume()

    # ---------------------------------------------------------------- what is said

    def hello(self, restarts: int) -> Hello:
        """What an observer is told first, and again when the configuration has changed."""
        return hello(self.config, self._run_id, restarts, self.witness.began)

    def _gauges(self) -> Gauges:
        unrecognised, witness = self.unrecognised, self.witness
        return self.tallies.told(
            ((relay.connected, len(relay.watched.asked)) for relay in self.relays),
            self._ready(),
            witness.call_times,
            noscripts=witness.noscripts,
            unrecognised=unrecognised.count,
            guessed=unrecognised.guesses,
            faults=self.faults,
        )

    def _say_started(self, health: Health | None) -> None:
        config = self.config
        published = len(self.catalogue.published)
        ranges = [script.releases for script in itertools.islice(self.catalogue, published)]
        releases = sorted({r for told in ranges for r in told.split("-")}, key=_release)
        self.log.info(
            "listening",
            version=emqproxy.__version__,
            listen=self.listeners.addresses,
            upstream=str(config.upstream),
            mode=config.mode,
            health=f"{config.health.host}:{health.port}" if health is not None and config.health is not None else None,
            journal=config.observer.journal or None,
            scripts=f"{published} texts of BullMQ {releases[0]} to {releases[-1]}",
            added_scripts=len(self.catalogue) - published,
            run=self._run_id,
        )
        if config.trace.token == "raw":  # noqa: S105  a policy's name
            self.log.warning("trace.token is raw: whoever reads the telemetry can renew and finish jobs")

    async def _say_upstream(self) -> None:
        """Without clients nothing else would say that a sidecar stands before nothing."""
        if await self.probe.first_attempt():
            return
        upstream = str(self.config.upstream)
        self.log.warning("upstream does not answer", upstream=upstream, reason=self.probe.error)
        while self.probe.answered_at is None:  # noqa: ASYNC110  the probe tells of itself by attributes alone
            await asyncio.sleep(LOOK_S)
        self.log.info("upstream answers", upstream=upstream)

    def _topology(self, mode: str) -> None:
        what = {
            "cluster": "a Redis Cluster node: MOVED answers go to clients as they are, and send them past emqproxy",
            "sentinel": "a Sentinel, not a Redis: give the address of the master, or of a proxy that follows it",
        }[mode]
        self.limited.error(f"upstream is {what}", now=clock.now(), key=mode, upstream=str(self.config.upstream))

    def _ready(self) -> Ready:
        return readiness(
            listening=self._listening,
            draining=self._draining,
            full=not self.room(0),
            upstream_answered_at=self.probe.answered_at,
            upstream_error=self.probe.error,
            telemetry_fault=self.bus.fault,
            now=clock.now(),
        )


def _calm_the_collector() -> None:
    """A full collection over 50,000 leases stands still for 300 ms, and finds nothing: what passes here is freed by
    counting. Cycles are made by connections alone, a few each, so it may come seldom."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
