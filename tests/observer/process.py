"""The observer as a real process at the end of a socket pair, as the data plane spawns it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from types import TracebackType
from typing import Self

from emqproxy.records import Message
from tests.observer.records_factory import framed


class ObserverProcess:
    """Started when entered, killed when left if it still runs. `send` batches, then `close` the pipe and read all."""

    def __init__(self, env: dict[str, str] | None = None) -> None:
        quiet = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        ours, theirs = socket.socketpair()
        self._pipe = ours
        self.process = subprocess.Popen(
            [sys.executable, "-m", "emqproxy.observer", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            env={**quiet, "PYTHONWARNINGS": "error", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()

    def send(self, *batch: Message) -> None:
        self._pipe.sendall(framed(list(batch)))

    def send_bytes(self, data: bytes) -> None:
        self._pipe.sendall(data)

    def read_lines(self, count: int) -> bytes:
        """Waits for so many lines on standard output."""
        assert self.process.stdout is not None
        return b"".join(self.process.stdout.readline() for _ in range(count))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def close(self, timeout_s: float = 15.0) -> tuple[bytes, bytes]:
        """Closes the pipe and waits for the end: what it said on standard output and on standard error."""
        self._pipe.close()
        return self.process.communicate(timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pipe.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(5)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
