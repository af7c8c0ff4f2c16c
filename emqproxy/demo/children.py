"""The demo's processes, and how all of them end, whatever ends the demo."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self

STOP_S: Final = 5.0
"""How long a child may take to end after SIGTERM; so long again after a second one, then it is killed."""
_LOOK_S: Final = 0.02
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class CannotStartError(Exception):
    """Something the demo needs is not there; the message is one line that says what to do."""


class InterruptedDemo(Exception):  # noqa: N818  an order from outside, no error
    """Ctrl-C, SIGTERM, or a closed terminal."""


class Children:
    """Starts processes in sessions of their own, so that Ctrl-C reaches only us, and ends them on leaving.

    Signals are noted, and raised only by `pause`: between the start of a child and its being known nothing can
    come in between, and a second Ctrl-C cannot leave half of them behind. Their files are in a temporary folder that
    is there while signals are noted, and no longer.
    """

    folder: Path
    """Theirs, from entering to leaving."""

    def __init__(self) -> None:
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._interrupted = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        self.folder = Path(tempfile.mkdtemp(prefix="emqproxy-demo-"))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for child in reversed(self._children.values()):
            _end(child)
        shutil.rmtree(self.folder, ignore_errors=True)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def start(
        self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a child whose output goes to a file; see `said`."""
        with self._log(name).open("wb") as log:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._children[name] = child
        return child

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """The child of this name."""
        return self._children[name]

    def ended(self) -> list[str]:
        """The names of those that have ended."""
        return [name for name, child in self._children.items() if child.poll() is not None]

    def said(self, name: str, lines: int = 8) -> str:
        """The last lines a child said."""
        text = self._log(name).read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def pause(self, seconds: float = _LOOK_S) -> None:
        """Waits a moment. Raises InterruptedDemo if we are to end."""
        if self._interrupted:
            raise InterruptedDemo
        time.sleep(seconds)

    def wait_until(self, ready: Callable[[], bool], name: str, timeout_s: float) -> None:
        """Waits until a child is ready. Raises CannotStartError if it ended or the time is over."""
        child = self._children[name]
        until = time.monotonic() + timeout_s
        while not ready():
            if child.poll() is not None:
                raise CannotStartError(f"the {name} ended with exit code {child.returncode}:\n{self.said(name)}")
            if time.monotonic() > until:
                raise CannotStartError(f"the {name} was not ready after {timeout_s:.0f} s:\n{self.said(name)}")
            self.pause()

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._interrupted = True

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def _end(child: subprocess.Popen[bytes]) -> None:
    # The sidecar serves on after a first SIGTERM while clients are connected; the second one ends it at once.
    for _ in range(2):
        child.terminate()
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue
        return
    child.kill()
    child.wait()
