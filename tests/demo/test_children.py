"""The demo's processes end with it, whatever they think of SIGTERM, and signals wait for a safe place."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from emqproxy.demo import children as module
from emqproxy.demo.children import CannotStartError, Children, InterruptedDemo

IDLE = "import signal; signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
SLOW_TO_GO = """
import signal, sys
count = []
signal.signal(signal.SIGTERM, lambda *_: count.append(1) or (len(count) == 2 and sys.exit(7)))
print("up", flush=True)
while True:
    signal.pause()
"""


def test_one_that_is_deaf_to_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_S", 0.1)
    with Children() as children:
        child = children.start("deaf", [sys.executable, "-c", DEAF])
        children.wait_until(lambda: "deaf" in children.said("deaf"), "deaf", 10)
    assert child.returncode == -signal.SIGKILL


def test_a_second_sigterm_comes_before_the_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_S", 2.0)
    with Children() as children:
        child = children.start("slow", [sys.executable, "-c", SLOW_TO_GO])
        children.wait_until(lambda: "up" in children.said("slow"), "slow", 10)
    assert child.returncode == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_raised_where_we_pause_and_the_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Children() as children:
        child = children.start("child", [sys.executable, "-c", IDLE])
        os.kill(os.getpid(), number)
        with pytest.raises(InterruptedDemo):
            children.pause(0)
    assert child.returncode == -signal.SIGTERM
    assert signal.getsignal(number) is before


def test_one_that_ends_too_early_is_quoted() -> None:
    with Children() as children:
        children.start("brief", [sys.executable, "-c", "print('why it failed'); raise SystemExit(4)"])
        with pytest.raises(CannotStartError, match="exit code 4:\nwhy it failed"):
            children.wait_until(lambda: False, "brief", 10)


def test_one_that_is_never_ready_is_told_of() -> None:
    with Children() as children:
        children.start("child", [sys.executable, "-c", IDLE])
        with pytest.raises(CannotStartError, match="not ready after 0 s"):
            children.wait_until(lambda: False, "child", 0.1)


def test_its_folder_is_there_while_signals_are_noted_and_no_longer() -> None:
    with Children() as children:
        folder = children.folder
        children.start("child", [sys.executable, "-c", "print('a file of its own')"])
        assert (folder / "child.log").exists()
    assert not folder.exists()


def test_who_has_ended_is_named() -> None:
    with Children() as children:
        children.start("idle", [sys.executable, "-c", IDLE])
        children.start("brief", [sys.executable, "-c", "pass"]).wait(20)
        assert children.ended() == ["brief"]
        assert children.process("idle").poll() is None
