"""The module's command line: it is started by the data plane, and says so to anybody else."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("argv", "said"),
    [([], b"usage"), (["x"], b"usage"), (["1", "2"], b"usage"), (["987"], b"987 is no open descriptor")],
)
def test_bad_usage_is_one_line_and_exit_code_2(argv: list[str], said: bytes) -> None:
    done = subprocess.run([sys.executable, "-m", "emqproxy.observer", *argv], capture_output=True, timeout=30)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""
