"""The short form of tests/long/restarts.py, and that it sees what is left behind."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.long.restarts import listening, play
from tests.processes import LOOPBACK
from tests.proxy.canary import Canary


def test_restarts_under_load_lose_nothing_and_leave_nothing() -> None:
    assert play(restarts=2) == []


def test_a_socket_that_is_left_is_seen() -> None:
    with socket.create_server((LOOPBACK, 0)) as left:
        port = left.getsockname()[1]
        assert len(listening(port)) == 1
    assert listening(port) == []


def test_a_canary_sees_answers_that_are_mixed_up_or_lost(tmp_path: Path) -> None:
    canary = Canary(tmp_path / "none", "c")
    canary.unsure = 3
    canary._heard(("ECHO", "c:1:0:x"), b"c:1:0:x")
    canary._heard(("INCR", "k"), 1)
    canary._heard(("INCR", "k"), 3)  # one whose answer was lost was done all the same
    assert (canary.faults, canary.acknowledged, canary.unsure) == ([], 3, 0)
    canary.check(3)
    assert canary.faults == []
    canary._heard(("ECHO", "c:1:0:x"), b"c:1:0:y")
    canary._heard(("INCR", "k"), 3)  # answered twice
    canary._heard(("INCR", "k"), 4)  # never asked for
    canary.check(2)  # acknowledged, and not there
    assert len(canary.faults) == 4
    assert os.listdir(tmp_path) == []
