"""Restarts in a row under load, and nothing stays: `python -m tests.long.restarts` (--restarts 20).

npm and PyPI workers, and canaries that count, go through a sidecar on one port and one unix socket. It is told to end
and started again, so often. After each end no process, socket or file of it is left; in the end every job is done by
workers that came back by themselves, and each increment that was acknowledged is in Redis.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.long.crowd import Crowd, Supply
from tests.processes import EmqProxy, RedisServer, children, eventually, free_port
from tests.proxy.canary import Canary
from tests.proxy.hand import untrue

DRAIN = {"EMQPROXY_DRAIN__TIMEOUT": "0.2", "OTEL_SDK_DISABLED": "true"}


class Life:
    """One sidecar's, from its start to what is left of it."""

    def __init__(self, redis: RedisServer, port: int, unix: Path) -> None:
        self.port, self.unix = port, unix
        self.temporary = unix.parent / "tmp"
        self.temporary.mkdir(exist_ok=True)
        listen = ("--listen", f"tcp://127.0.0.1:{port}", "--listen", f"unix://{unix}")
        self.proxy = EmqProxy(redis.url, *listen, env=DRAIN | {"TMPDIR": str(self.temporary)}, ready=False)
        try:
            self.proxy.wait_ready(60)  # on a busy machine, too
        except BaseException:
            self.proxy.stop()
            raise

    def end(self) -> list[str]:
        """Ends it as an orchestrator does; what it left behind, in words."""
        processes = [self.proxy.pid, *children(self.proxy.pid)]
        code = self.proxy.end()
        left = [f"exit code {code}: {self.proxy.raw[-3:]}"] if code else []
        with contextlib.suppress(AssertionError):
            eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes), 10)
        left += [f"process {pid}" for pid in processes if Path(f"/proc/{pid}").exists()]
        left += [f"socket {row}" for row in listening(self.port, self.proxy.port, self.proxy.health_port)]
        left += [f"socket {self.unix}"] * (str(self.unix) in Path("/proc/net/unix").read_text())
        left += [f"file {path}" for path in self._files()]
        left += [f"an untrue line {line}" for line in untrue(self.proxy)]
        self.proxy.stop()
        return left

    def _files(self) -> Iterator[Path]:
        yield from self.temporary.iterdir()
        yield from (path for path in self.proxy.folder.iterdir() if path != self.proxy.journal_path)
        if self.unix.exists():
            yield self.unix


def listening(*ports: int) -> list[str]:
    """Rows of the kernel's table for sockets that listen on one of these ports."""
    wanted = {f":{port:04X}" for port in ports}
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [" ".join(row[1:4]) for row in rows if row[3] == "0A" and row[1][-5:] in wanted]


def play(restarts: int, jobs_per_s: float = 20.0) -> list[str]:
    """Plays it; everything that was not as it should be, in words."""
    faults: list[str] = []
    stop = threading.Event()
    with contextlib.ExitStack() as ends:
        redis = ends.enter_context(RedisServer())
        port, unix = free_port(), redis.folder / "emqproxy.sock"
        life = Life(redis, port, unix)
        ends.callback(lambda: life.proxy.stop())  # noqa: PLW0108  the last of them, not the first
        canaries = [Canary(port, f"c{number}") for number in range(3)] + [Canary(unix, "unix")]
        threads = [threading.Thread(target=canary.sing, args=(stop,), daemon=True) for canary in canaries]
        for thread in threads:
            thread.start()
        ends.callback(stop.set)
        crowd = Crowd(port, node=1, workers=4, python=1, concurrency=8)
        ends.callback(crowd.end)
        supply = Supply(redis, crowd.queues, jobs_per_s, nap_ms_max=800)
        for number in range(restarts):
            heard(canaries)
            at_work(supply)
            faults += [f"restart {number}: {left}" for left in life.end()]
            life = Life(redis, port, unix)
            print(f"restart {number}: {supply.state()}", flush=True)
        heard(canaries)
        supply.stop()
        supply.wait_done(60)
        stop.set()
        for thread in threads:
            thread.join(20)
        for canary in canaries:
            canary.check(int(redis.call("GET", canary.key).split(b"\r\n")[1]))
            faults += canary.faults
            if canary.disconnects < restarts:
                faults.append(f"{canary.key} was disconnected {canary.disconnects} times: not under load")
        crowd.close()
        faults += [f"at the end: {left}" for left in life.end()]
    return faults


def heard(canaries: list[Canary]) -> None:
    """Waits until each has been answered once more."""
    before = [canary.answers for canary in canaries]
    deadline = time.monotonic() + 30
    for canary, answers in zip(canaries, before, strict=True):
        eventually(lambda canary=canary, answers=answers: canary.answers > answers, deadline - time.monotonic())


def at_work(supply: Supply) -> None:
    """Waits until the workers of each queue have done one more job."""
    before = supply.state()

    def look() -> bool:
        return all(done > before[name][1] for name, (_, done, _) in supply.state().items())

    eventually(look, 40, "workers that came back by themselves")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=20)
    faults = play(parser.parse_args().restarts)
    print("\n".join(faults) or "nothing was left behind, and nothing was lost")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
