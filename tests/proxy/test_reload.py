"""SIGHUP: what can change changes for the next call, what cannot is told, and a bad file changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import uvloop
from structlog.testing import capture_logs

from emqproxy.config import Config, ConfigError, Listen, TlsTable, Upstream
from emqproxy.proxy.reload import Reload, merge
from emqproxy.proxy.server import DataPlane
from tests.processes import LOOPBACK, EmqProxy, RedisServer
from tests.proxy.wires import ask, data_plane, dial, exactly, port_of, sidecar, until
from tests.scripts.talk import text_of
from tests.session.talk import words
from tests.tls import Authority, dial_tls, trusting

TAKEN = "the configuration is read again"
WAITING = "the configuration is read again: what is waiting takes effect after a restart"
NOT_TAKEN = "the configuration is not taken: the one before stays in force"
STRICT = "[lateness]\nlate = 0.0000001\ncritical = 0.0000002\n"
"""Every renewal of a lock of a minute is critical."""


def config(**values: Any) -> Config:
    return Config.model_validate(values)


# ---------------------------------------------------------------- what of a configuration may change


def test_what_can_change_and_what_waits():
    before = config(observer={"journal": "a"})
    read = config(
        lateness={"late": 0.3, "critical": 0.4},
        listen=[Listen("tcp", LOOPBACK, 7)],
        upstream="redis://other:1",
        observer={"journal": "b"},
        trace={"namespace": "prod", "renewals_per_attempt": 1},
    )
    merged = merge(before, read)
    live = {"lateness.late", "lateness.critical", "trace.renewals_per_attempt", "observer.journal"}
    assert (set(merged.changed), set(merged.waiting)) == (live, {"listen", "trace.namespace", "upstream"})
    assert (merged.config.listen, merged.config.upstream) == (before.listen, before.upstream)
    assert (merged.config.lateness, merged.config.observer) == (read.lateness, read.observer)
    assert (merged.config.trace.namespace, merged.config.trace.renewals_per_attempt) == ("", 1)
    assert merge(merged.config, read).changed == [], "it is in force"
    assert merge(before, before) == (before, [], [])


@pytest.mark.parametrize(("before", "read", "live"), [("a", "b", True), ("", "b", False), ("a", "-", False)])
def test_a_journal_moves_from_a_file_to_a_file(before: str, read: str, live: bool):
    merged = merge(config(observer={"journal": before}), config(observer={"journal": read}))
    assert (merged.changed, merged.waiting)[not live] == ["observer.journal"]
    assert merged.config.observer.journal == (read if live else before)


def test_what_belongs_to_a_listener_or_an_upstream_waits_with_it():
    here, there = Listen("tls", LOOPBACK, 1), Listen("tls", LOOPBACK, 2)
    old = config(listen=[here], tls={"cert_file": "a"}, upstream="rediss://a", upstream_tls={"ca_file": "a"})
    certificates = {"tls": {"cert_file": "b"}, "upstream_tls": {"ca_file": "b"}}
    renewed = merge(old, config(listen=[here], upstream="rediss://a", **certificates))
    assert (renewed.changed, renewed.waiting) == (["tls.cert_file", "upstream_tls.ca_file"], [])
    moved = merge(old, config(listen=[there], upstream="rediss://b", **certificates))
    assert (moved.config, moved.changed, len(moved.waiting)) == (old, [], 4)


# ---------------------------------------------------------------- a data plane on the test's own loop


@contextlib.asynccontextmanager
async def plane(redis: RedisServer, load: Callable[[], Config], **keys: Any) -> AsyncIterator[DataPlane]:
    def change(plane: DataPlane) -> None:
        plane.reload = Reload(plane, load)

    async with data_plane(redis.url, change, **keys) as made:
        yield made


async def hang_up(plane: DataPlane) -> None:
    """SIGHUP, and what comes of it."""
    tallies = plane.tallies
    before = tallies.reloads_ok + tallies.reloads_failed
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: tallies.reloads_ok + tallies.reloads_failed > before)


def test_a_listener_that_is_to_move_is_told_and_stays(redis_session: RedisServer):
    async def run() -> None:
        def load() -> Config:
            values = {"listen": [Listen("tcp", LOOPBACK, 1)], "upstream": Upstream.parse(redis_session.url)}
            return config(**values, health="", observer={"admin": ""}, drain={"timeout": 9})

        async with plane(redis_session, load) as made:
            await hang_up(made)
            assert (made.config.drain.timeout, made.tallies.reloads_ok) == (9, 1)
            with await asyncio.to_thread(dial, port_of(made)) as client:
                await asyncio.to_thread(client.sendall, words("PING"))
                assert await asyncio.to_thread(exactly, client, 7) == b"+PONG\r\n"

    with capture_logs() as lines:
        uvloop.run(run())
    (line,) = (line for line in lines if line["event"] == WAITING)
    assert (line["log_level"], line["waiting"], line["changed"]) == ("warning", ["listen"], ["drain.timeout"])


@pytest.mark.parametrize("error", [ConfigError("a.toml: no"), RuntimeError("no")])
def test_what_cannot_be_read_changes_nothing_and_is_counted(redis_session: RedisServer, error: Exception):
    async def run() -> None:
        def load() -> Config:
            raise error

        async with plane(redis_session, load) as made:
            before = made.config
            await hang_up(made)
            await hang_up(made)
            assert made.config is before
            assert (made.tallies.reloads_ok, made.tallies.reloads_failed) == (0, 2)

    with capture_logs() as lines:
        uvloop.run(run())
    said = [line for line in lines if line["event"] == NOT_TAKEN]
    assert [line["log_level"] for line in said] == ["error"] * 2
    assert str(error) in said[0]["reason"]


def test_a_second_signal_is_not_lost_while_the_first_is_answered(redis_session: RedisServer):
    async def run() -> None:
        reads, second = [0], threading.Event()
        kept: list[Config] = []

        def load() -> Config:
            reads[0] += 1
            assert second.wait(20)
            return kept[0]

        async with plane(redis_session, load) as made:
            kept.append(made.config)
            made.reload.asked()
            await until(lambda: reads[0] == 1)
            for _ in range(3):
                made.reload.asked()
            second.set()
            await until(lambda: made.tallies.reloads_ok == 2)
            assert reads == [2], "one for all that came meanwhile"

    uvloop.run(run())


def test_certificates_are_read_again_at_once(redis_session: RedisServer, tmp_path: Path):
    authority = Authority(tmp_path)
    cert, key = map(str, authority.issue("own"))
    table = TlsTable(cert_file=cert, key_file=key)

    async def run() -> None:
        kept: list[Config] = []

        def shown() -> bytes | None:
            with dial_tls(port_of(made), trusting(authority.file)) as client:
                return client.getpeercert(binary_form=True)

        listen = (Listen("tls", LOOPBACK, 0),)
        async with plane(redis_session, lambda: kept[0], listen=listen, tls=table) as made:
            kept.append(made.config)
            before = await asyncio.to_thread(shown)
            authority.issue("own")
            await hang_up(made)
            after = await asyncio.to_thread(shown)
            assert after != before
            await asyncio.to_thread(Path(key).write_text, "torn")
            await hang_up(made)
            assert (made.tallies.reloads_ok, made.tallies.reloads_failed) == (1, 1)
            assert await asyncio.to_thread(shown) == after

    uvloop.run(run())


# ---------------------------------------------------------------- the real one


class Renewer:
    """A client that renews the lock of a job, again and again, until it is told to end."""

    def __init__(self, port: int) -> None:
        self._over = threading.Event()
        self._port = port
        self.answers: set[bytes] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Waits for its last answer."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        call = words("EVAL", text_of("extendLock-2"), 2, "emq:q:1:lock", "emq:q:stalled", "token", 60_000, "1")
        with dial(self._port) as client:
            ask(client, "SET", "emq:q:1:lock", "token", answer=b"+OK\r\n")
            while not self._over.wait(0.005):
                client.sendall(call)
                self.answers.add(exactly(client, 4))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "emqproxy.toml"
    made.write_text('log_level = "info"\n')
    return made


@pytest.fixture
def proxy(redis_session: RedisServer, file: Path) -> Iterator[EmqProxy]:
    with sidecar(redis_session.url, "--config", str(file)) as proxy:
        yield proxy


def test_thresholds_hold_from_the_next_renewal_on(file: Path, proxy: EmqProxy):
    with Renewer(proxy.port) as renewer:
        proxy.wait_journal(lambda line: line.get("grade") == "on_time")
        assert not [line for line in proxy.journal() if line.get("grade") in ("late", "critical")]
        file.write_text(f'log_level = "warning"\n{STRICT}')
        os.kill(proxy.pid, signal.SIGHUP)
        proxy.wait_journal(lambda line: line.get("grade") == "critical")
        file.write_text(STRICT + "lat = 1\n")
        os.kill(proxy.pid, signal.SIGHUP)
        line = proxy.wait_log(lambda line: line["event"] == NOT_TAKEN)
        assert (line["level"], line["reason"][:60]) == ("error", f"lateness.lat in {file}: unknown; "[:60])
        seq = proxy.journal()[-1]["seq"]
        proxy.wait_journal(lambda line: line["seq"] > seq and line.get("grade") == "critical")
    assert not [raw for raw in proxy.raw if TAKEN in raw], "its own line is said at the level that it sets"
    assert renewer.answers == {b":1\r\n"}
    assert proxy.running


def lines_of(journal: Path) -> list[str]:
    return journal.read_text().splitlines()


def test_the_observer_hears_of_it_too(redis_session: RedisServer, tmp_path: Path):
    """Its journal goes to another file; a file that was moved away is made anew."""
    first, second = tmp_path / "first", tmp_path / "second"

    async def run() -> None:
        kept: list[Config] = []

        async with plane(redis_session, lambda: kept[0], observer={"admin": None, "journal": str(first)}) as made:
            renewer = Renewer(port_of(made))
            renewer.begin()
            await until(lambda: first.exists() and first.stat().st_size)
            kept.append(made.config.replacing({"observer.journal": str(second)}))
            await hang_up(made)
            await until(lambda: second.exists() and second.stat().st_size)
            second.rename(tmp_path / "second.1")
            await hang_up(made)
            await until(lambda: second.exists() and second.stat().st_size)
            await asyncio.to_thread(renewer.end)

    uvloop.run(run())
    numbers = [
        json.loads(line)["seq"] for name in ("first", "second.1", "second") for line in lines_of(tmp_path / name)
    ]
    assert numbers == list(range(1, len(numbers) + 1)), "no line is lost on the way from one to the next"


def test_without_a_file_it_does_no_harm(redis_session: RedisServer):
    with sidecar(redis_session.url) as proxy, dial(proxy.port) as client:
        ask(client, "PING", answer=b"+PONG\r\n")
        os.kill(proxy.pid, signal.SIGHUP)
        assert proxy.wait_log(lambda line: line["event"] == TAKEN)["changed"] == []
        ask(client, "PING", answer=b"+PONG\r\n")
