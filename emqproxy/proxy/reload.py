"""SIGHUP: the configuration is read again from where it came, and what can change while we serve is changed at once.

All of it or nothing: it is read and tried in a thread, and put in force in one turn of the loop. What cannot be used
leaves the configuration from before in force; what needs a restart is told by its keys, and stays as it was.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from emqproxy import logs
from emqproxy.config import Config, ConfigError
from emqproxy.locks.ledger import LockLedger
from emqproxy.logs import Log
from emqproxy.proxy import tls
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.journal_path import check_journal
from emqproxy.proxy.listeners import CannotStartError
from emqproxy.proxy.relay import Relay
from emqproxy.proxy.ruling import put_in_force
from emqproxy.proxy.tallies import Tallies
from emqproxy.proxy.tls_door import Door
from emqproxy.proxy.upstream import Connector
from emqproxy.proxy.witness import Witness
from emqproxy.records import Hello

LIVE: Final = frozenset(
    {
        "log_level", "require_upstream", "lateness.late", "lateness.critical", "trace.renewals_per_attempt",
        "observer.journal", "observer.journal_max_bytes", "limits.pending_bytes", "drain.timeout", "mode",
        "scripts.allow", "limits.judge_bytes", "limits.ttl_ms_min", "limits.ttl_ms_max",
    }
)  # fmt: skip
"""Keys that take effect without a restart, beside the rules and the tables of TLS."""


class Reloadable(Protocol):
    """What is changed."""

    config: Config
    pending_bytes_max: int
    ledger: LockLedger
    witness: Witness
    relays: set[Relay]
    connector: Connector
    door: Door | None
    bus: Bus
    tallies: Tallies
    log: Log

    def hello(self, restarts: int) -> Hello: ...


class Changes(NamedTuple):
    """`config` is to be in force; the keys that differ from before, and those that would and wait for a restart."""

    config: Config
    changed: list[str]
    waiting: list[str]


class Reload:
    """One data plane's. `load` reads the configuration; it raises ConfigError, and runs in a thread."""

    def __init__(self, house: Reloadable, load: Callable[[], Config]) -> None:
        self._house, self._load = house, load
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def asked(self) -> None:
        """SIGHUP came. While one is under way, one more follows it."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="reload")

    def stop(self) -> None:
        """Nothing is put in force any more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._again:
            self._again = False
            await self._once()

    async def _once(self) -> None:
        house = self._house
        try:
            changes = await asyncio.to_thread(self._tried)
            self._put_in_force(changes.config)
        except Exception as error:  # noqa: BLE001  whatever it is, what was in force stays so
            house.tallies.reloads_failed += 1
            house.log.error("the configuration is not taken: the one before stays in force", reason=_in_words(error))
            return
        house.tallies.reloads_ok += 1
        if changes.waiting:
            words = "the configuration is read again: what is waiting takes effect after a restart"
            house.log.warning(words, waiting=changes.waiting, changed=changes.changed)
        else:
            house.log.info("the configuration is read again", changed=changes.changed)

    def _tried(self) -> Changes:
        changes = merge(self._house.config, self._load())
        tls.check(changes.config)
        check_journal(changes.config.observer.journal)
        return changes

    def _put_in_force(self, config: Config) -> None:
        house = self._house
        # First what may still fail: a file may have gone since it was tried.
        house.connector.use(config.upstream_tls)
        if house.door is not None:
            house.door.use(config.tls)
        if config.log_level != house.config.log_level:
            logs.configure(config.log_level, sys.stderr if config.observer.journal == "-" else sys.stdout)
        house.config = config
        house.ledger.grading.late, house.ledger.grading.critical = config.lateness.late, config.lateness.critical
        house.pending_bytes_max = config.limits.pending_bytes
        put_in_force(config, house.witness.judge, house.relays)
        house.bus.tell(house.hello(house.bus.restarts))  # also where nothing has changed: the journal is opened anew


def merge(before: Config, read: Config) -> Changes:
    """What of a configuration that was read again can be in force without a restart."""
    new = dict(read.flat())
    differing = [key for key, value in before.flat() if new[key] != value]
    live = {key: new[key] for key in differing if _is_live(key, before, read, differing)}
    return Changes(before.replacing(live), list(live), [key for key in differing if key not in live])


def _is_live(key: str, before: Config, read: Config, differing: list[str]) -> bool:
    table = key.partition(".")[0]
    if table == "tls":  # goes with its listeners
        return "listen" not in differing
    if table == "upstream_tls":  # goes with its upstream
        return "upstream" not in differing
    if key == "observer.journal":  # from a file to a file
        return not {before.observer.journal, read.observer.journal} & {"", "-"}
    return table == "rules" or key in LIVE


def _in_words(error: Exception) -> str:
    return str(error) if isinstance(error, ConfigError | CannotStartError) else f"{type(error).__name__}: {error}"
