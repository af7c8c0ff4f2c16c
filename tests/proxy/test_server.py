"""The sidecar's life as an operator sees it: what it says at its start, why it does not start, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emqproxy.scripts.catalogue import Catalogue
from tests.processes import LOOPBACK, EmqProxy, RedisServer, children, environment, eventually, free_port, http_get
from tests.proxy.wires import ask, dial, drain, listening, sidecar, talk
from tests.session.talk import words


def run(*args: str, health: str = "") -> tuple[int, str, str]:
    """`emqproxy run` that must end by itself: exit code, standard output, standard error."""
    command = [sys.executable, "-m", "emqproxy", "run", "--health", health, *args]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout, done.stderr


def test_the_start_line_says_what_is_needed(redis_session: RedisServer, proxy: EmqProxy):
    line = proxy.wait_log(lambda line: line["event"] == "listening")
    assert line["listen"] == [f"tcp://{LOOPBACK}:{proxy.port}"]
    assert line["upstream"] == redis_session.url
    assert line["mode"] == "observe"
    assert line["health"] == f"{LOOPBACK}:{proxy.health_port}"
    assert line["scripts"].startswith(f"{len(Catalogue())} texts of BullMQ 4.0.0 to 6.")
    assert proxy.raw.index(next(raw for raw in proxy.raw if '"listening"' in raw)) == 0


def test_no_secret_of_the_upstream_is_said():
    with RedisServer(requirepass="s3cr3t") as redis:
        url = f"redis://user:s3cr3t@{LOOPBACK}:{redis.port}"
        with sidecar(url, ready=False) as proxy:
            listening(proxy)
            with dial(proxy.port) as client:  # its credentials are for our probes: a client brings its own
                client.sendall(words("GET", "k"))
                assert client.recv(99).startswith(b"-NOAUTH")
                ask(client, "AUTH", "s3cr3t", answer=b"+OK\r\n")
            proxy.end()
            assert not [raw for raw in proxy.raw if "s3cr3t" in raw]
            assert "s3cr3t" not in repr(proxy.journal())


# ---------------------------------------------------------------- what does not start


def test_a_taken_port_is_one_line_and_code_3(redis_session: RedisServer):
    with socket.create_server((LOOPBACK, 0)) as taken:
        where = f"tcp://{LOOPBACK}:{taken.getsockname()[1]}"
        code, out, err = run("--listen", where, "--upstream", redis_session.url)
    assert (code, out) == (3, "")
    assert err.count("\n") == 1
    assert err.startswith(f"emqproxy run: cannot listen on {where}: ")
    assert err.endswith("in use; give --listen another\n")


def test_a_taken_health_port_is_one_line_and_code_3(redis_session: RedisServer):
    with socket.create_server((LOOPBACK, 0)) as taken:
        where = f"{LOOPBACK}:{taken.getsockname()[1]}"
        here = f"tcp://{LOOPBACK}:{free_port()}"
        code, out, err = run("--listen", here, "--upstream", redis_session.url, health=where)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith(f"emqproxy run: cannot listen on {where} for health: ")
    assert "--health" in err


def test_an_upstream_that_is_required_and_not_there_is_one_line_and_code_3():
    where, here = f"redis://{LOOPBACK}:{free_port()}", f"tcp://{LOOPBACK}:{free_port()}"
    code, out, err = run("--listen", here, "--upstream", where, "--require-upstream")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith(f"emqproxy run: upstream {where} does not answer: ")
    assert "--require-upstream" in err


@pytest.mark.parametrize("journal", ["/proc/nope/j.ndjson", ".", "dangling"])
def test_a_journal_that_cannot_be_written_is_one_line_and_code_3(
    journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "there").write_text("a file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "j")
    path = str(tmp_path / journal)
    code, out, err = run("--listen", f"tcp://{LOOPBACK}:{free_port()}", "--journal", path)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith(f"emqproxy run: cannot write the journal {path}: ")
    assert "; give --journal a file's path in a directory that may be written" in err
    assert sorted(os.listdir(tmp_path)) == ["dangling", "there"]


# ---------------------------------------------------------------- an upstream that is not there


def test_an_upstream_that_is_not_there_is_told_once_and_again_when_it_is():
    refusing = socket.socket()  # bound and not listening: nobody else's server comes to stand there meanwhile
    refusing.bind((LOOPBACK, 0))
    port = refusing.getsockname()[1]
    with refusing, sidecar(f"redis://{LOOPBACK}:{port}", ready=False) as proxy:
        line = proxy.wait_log(lambda line: line["event"] == "upstream does not answer")
        assert (line["level"], line["upstream"]) == ("warning", f"redis://{LOOPBACK}:{port}")
        assert str(port) in line["reason"]
        refusing.close()
        with RedisServer(port=port):
            assert proxy.wait_log(lambda line: line["event"] == "upstream answers")["level"] == "info"
        proxy.end()
        assert sum("upstream does not answer" in raw for raw in proxy.raw) == 1


# ---------------------------------------------------------------- how it ends


def test_it_drains_until_the_last_client_has_gone(redis_session: RedisServer):
    with sidecar(redis_session.url) as proxy:
        first = dial(proxy.port)
        ask(first, "PING", answer=b"+PONG\r\n")
        os.kill(proxy.pid, signal.SIGTERM)
        assert proxy.wait_log(lambda line: line["event"].startswith("draining"))["clients"] == 1
        status, body = http_get(proxy.health_port, "/readyz")
        assert (status, b"draining" in body) == (503, True)
        assert http_get(proxy.health_port, "/healthz")[0] == 200
        ask(first, "SET", "k", "v", answer=b"+OK\r\n")
        second = dial(proxy.port)  # a worker that reconnects to finish its job
        ask(second, "PING", answer=b"+PONG\r\n")
        first.close()
        ask(second, "GET", "k", answer=b"$1\r\nv\r\n")
        assert proxy.running
        second.close()
        assert proxy.popen.wait(10) == 0
        assert proxy.wait_log(lambda line: line["event"] == "ended")["dropped"] == 0
        with pytest.raises(ConnectionRefusedError):
            dial(proxy.port)


def test_a_drain_with_a_limit_ends_at_it(redis_session: RedisServer, tmp_path: Path):
    config = tmp_path / "c.toml"
    config.write_text("[drain]\ntimeout = 1\n")
    with sidecar(redis_session.url, "--config", str(config)) as proxy, dial(proxy.port) as client:
        ask(client, "PING", answer=b"+PONG\r\n")
        began = time.monotonic()
        os.kill(proxy.pid, signal.SIGTERM)
        assert drain(client) == b""
        assert time.monotonic() - began >= 1
        assert proxy.popen.wait(10) == 0
        assert proxy.wait_log(lambda line: "drain.timeout" in line["event"])["clients"] == 1


@pytest.mark.parametrize(("signals", "code"), [((15, 15), 0), ((2, 15), 130)])
def test_a_second_signal_ends_at_once(redis_session: RedisServer, signals: tuple[int, int], code: int):
    with sidecar(redis_session.url) as proxy, dial(proxy.port) as client:
        client.sendall(words("BLPOP", "none", 0))
        os.kill(proxy.pid, signals[0])
        proxy.wait_log(lambda line: line["event"].startswith("draining"))
        os.kill(proxy.pid, signals[1])
        assert drain(client) == b""
        assert proxy.popen.wait(10) == code


def test_ctrl_c_without_clients_is_130(redis_session: RedisServer):
    with sidecar(redis_session.url) as proxy:
        (observer,) = children(proxy.pid)
        os.kill(proxy.pid, signal.SIGINT)
        assert proxy.popen.wait(10) == 130
        eventually(lambda: not Path(f"/proc/{observer}").exists())


# ---------------------------------------------------------------- upstreams that are something else


def test_a_cluster_node_is_named_once():
    with RedisServer(**{"cluster-enabled": "yes"}) as redis, sidecar(redis.url, ready=False) as proxy:
        line = proxy.wait_log(lambda line: "Cluster" in line["event"])
        assert (line["level"], line["upstream"]) == ("error", redis.url)
        assert talk(proxy.port, [words("PING")]) == b"+PONG\r\n"  # it goes on all the same
        assert sum("Cluster" in raw for raw in proxy.raw) == 1
