"""The second process dies again and again, or its disk is full: traffic is not touched, what was lost is counted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import EmqProxy, RedisServer, children, eventually, http_get
from tests.proxy.canary import Canary
from tests.proxy.hand import Hand, hand
from tests.proxy.wires import sidecar

LOST = "journal lines lost"
LIMIT_BLOCKS = 32
"""Of 512 bytes or of 1024, as the shell counts: some 20 lines or 40."""
LINES = 120


def renewals(worker: Hand, count: int) -> None:
    """As many lines in the journal: nobody ever had this job, so each is refused."""
    for _ in range(count):
        assert worker.renew() == 0


def said(proxy: EmqProxy, event: str) -> list[dict[str, Any]]:
    return [line for line in proxy.log if line["event"] == event]


def lines(path: Path) -> list[int]:
    """The numbers of the whole lines of a journal. Each is read, so none may be torn but the last."""
    held = EmqProxy.__new__(EmqProxy)
    held.journal_path = path
    return [line["seq"] for line in held.journal()]


# ---------------------------------------------------------------- no space for the journal


class Bounded(EmqProxy):
    """One whose files may not grow past some kilobytes: its log goes to a pipe."""

    def _spawn(self, command: list[str], **options: Any) -> Any:
        return super()._spawn(["sh", "-c", f'ulimit -f {LIMIT_BLOCKS}; exec "$@"', "sh", *command], **options)


def filled_and_freed(proxy: EmqProxy, free: Callable[[], list[Path]], reason: str) -> None:
    """Writes until nothing more fits, makes room, writes again; everything is counted and said once."""
    with hand(proxy.port) as worker:
        renewals(worker, LINES)
        line = proxy.wait_log(lambda line: line["event"] == LOST)
        assert (line["level"], line["reason"], line["journal"]) == ("error", reason, str(proxy.journal_path))
        renewals(worker, LINES)  # as if nothing had happened
        assert http_get(proxy.health_port, "/readyz")[0] == 200
        files = [*free(), proxy.journal_path]
        before = sum(len(lines(path)) for path in files)
        eventually(lambda: renewals(worker, 1) or sum(len(lines(path)) for path in files) > before, what="space again")
    assert proxy.end() == 0
    proxy._reader.join(5)
    assert len(said(proxy, LOST)) == 1
    (ended,) = said(proxy, "ended")
    (whole,) = said(proxy, "the journal of this run is not whole")
    written = [seq for path in files for seq in lines(path)]
    assert written == sorted(set(written))
    assert len(written) + whole["lost"] == ended["records"]


def test_a_journal_that_may_not_grow_loses_lines_and_nothing_else(redis_session: RedisServer):
    with Bounded(redis_session.url, env={"OTEL_SDK_DISABLED": "true"}) as proxy:

        def moved() -> list[Path]:
            return [proxy.journal_path.rename(proxy.folder / "full.ndjson")]

        filled_and_freed(proxy, moved, os.strerror(27))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB, where we may mount one."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], capture_output=True, text=True, timeout=20
    )
    if mounted.returncode:
        pytest.skip(f"no disk of our own to fill: {mounted.stderr.strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True, timeout=20)


def test_a_full_disk_loses_lines_and_nothing_else(redis_session: RedisServer, small_disk: Path):
    ballast, journal = small_disk / "ballast", small_disk / "journal"
    ballast.write_bytes(b"x" * 32_768)
    with sidecar(redis_session.url, "--journal", str(journal)) as proxy:
        proxy.journal_path = journal

        def freed() -> list[Path]:
            ballast.unlink()
            return []

        with contextlib.ExitStack() as until_the_end:
            until_the_end.callback(proxy.stop)  # before the disk is taken away
            filled_and_freed(proxy, freed, os.strerror(28))


# ---------------------------------------------------------------- an observer that is killed again and again


def told(proxy: EmqProxy) -> list[int]:
    """Numbers of the journal's lines. A line may be torn: its writer was killed, and nobody could finish it."""
    found: list[int] = []
    for line in proxy.journal_path.read_bytes().splitlines() if proxy.journal_path.exists() else ():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line)["seq"])
    return found


def test_an_observer_killed_again_and_again_touches_no_traffic_and_each_gap_is_told(redis_session: RedisServer):
    with sidecar(redis_session.url) as proxy:
        stop = threading.Event()
        failed: list[BaseException] = []

        def work() -> None:
            try:
                with hand(proxy.port) as worker:
                    while not stop.is_set():
                        renewals(worker, 1)
            except BaseException as error:
                failed.append(error)

        canaries = [Canary(proxy.port, f"c{number}") for number in range(3)]
        threads = [threading.Thread(target=work) for _ in range(2)]
        threads += [threading.Thread(target=canary.sing, args=(stop,)) for canary in canaries]
        for thread in threads:
            thread.start()
        killed: set[int] = set()
        try:
            for _ in range(2):
                pid = eventually(lambda: next(iter(set(children(proxy.pid)) - killed), None), 20, "an observer")
                seen = len(told(proxy))
                eventually(lambda seen=seen: len(told(proxy)) > seen, 20, "it writes")
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
                assert http_get(proxy.health_port, "/readyz")[0] == 200
            eventually(lambda: set(children(proxy.pid)) - killed, 20, "the last observer")
            seen = len(told(proxy))
            eventually(lambda: len(told(proxy)) > seen, 30, "it writes")
        finally:
            stop.set()
            for thread in threads:
                thread.join(20)
        assert failed == []
        for canary in canaries:
            assert canary.faults == []
            assert canary.answers > 100
            assert canary.disconnects == 0
        assert proxy.end() == 0
        proxy._reader.join(5)
        (ended,) = said(proxy, "ended")
        numbers = told(proxy)
        assert numbers == sorted(set(numbers))
        assert ended["records"] >= len(numbers)
        gaps = ended["records"] - len(numbers)
        if gaps > ended["dropped"]:  # what an observer had taken and not written when it died
            assert said(proxy, "records are missing from the journal")
        assert len(said(proxy, "the observer ended and is started again")) == 1, "once a minute is enough"
