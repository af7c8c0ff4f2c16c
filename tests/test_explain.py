"""`emqproxy explain` as a user calls it: from the journal of a real sidecar, and from a running one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journals import HEALTHY, ROBBED, TAKEN_OVER, key, play, run_command
from tests.processes import LOOPBACK, EmqProxy, RedisServer, environment, eventually, free_port
from tests.proxy.wires import sidecar

CAUSES = {"retaken", "expired_worker_silent"}
"""Of the job that was taken over: the second where the machine was so busy that its worker was silent for a second."""


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[EmqProxy, int]]:
    redis, port = RedisServer(), free_port()
    try:
        proxy = sidecar(f"redis://127.0.0.1:{redis.port}", "--admin", f"{LOOPBACK}:{port}")
        try:
            play(redis, proxy)
            yield proxy, port
        finally:
            proxy.stop()
    finally:
        redis.stop()


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", environment(COLUMNS="80", NO_COLOR="1"))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return run_command(capsys, "explain", *words)


def test_a_job_that_was_taken_over(served: tuple[EmqProxy, int], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, key(TAKEN_OVER), "--journal", str(served[0].journal_path))
    assert (code, err) == (0, "")
    words = re.sub(r"\s+", " ", out)
    for said in (
        "canary-one is given it; the lock lives 60 ms",
        "the lock of canary-one lapses",
        "a sweep by canary-other finds it without a lock: back to wait",
        "canary-two is given it",
        "canary-one: finish (completed) refused: -6 JobLockMismatch",
        "What to change",
    ):
        assert said in words
    assert any(f"{cause}: The" in words for cause in CAUSES)
    assert "lapsed" in out
    assert "■ given back" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_lock_that_somebody_deleted(served: tuple[EmqProxy, int], capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, key(ROBBED), "--journal", str(served[0].journal_path))
    assert "canary-other writes on its lock by hand (DEL)" in out
    assert "Find the program behind canary-other" in out


def test_as_json_from_the_journal_and_from_the_running_sidecar(
    served: tuple[EmqProxy, int], capsys: pytest.CaptureFixture[str]
) -> None:
    proxy, port = served
    _, of_journal, _ = run(capsys, key(TAKEN_OVER), "--journal", str(proxy.journal_path), "--json")
    told = json.loads(of_journal)
    assert (told["v"], told["job"], told["db"]) == (1, key(TAKEN_OVER), 0)
    assert [(each["who"], each["end"]) for each in told["holdings"]] == [
        ("canary-one", "lapse"),
        ("canary-two", "finish"),
    ]
    causes = {each["cause"] for each in told["advice"]}
    assert causes
    assert causes <= CAUSES
    of_admin: list[str] = []

    def asked() -> bool:
        code, out, _ = run(capsys, key(TAKEN_OVER), "--admin", f"http://{LOOPBACK}:{port}", "--json")
        of_admin.append(out)
        return code == 0

    eventually(asked, 20, "an answer of the admin listener")
    events = json.loads(of_admin[-1])["events"]
    for event in (*events, *told["events"]):  # each heartbeat maps instants anew, to the microsecond
        del event["time"]
    assert events == told["events"]


def test_a_healthy_job_needs_no_advice(served: tuple[EmqProxy, int], capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, key(HEALTHY), "--journal", str(served[0].journal_path), "--json")
    told = json.loads(out)
    assert told["holdings"][0]["renewals"] == 2
    assert "canary-one renews, 2 times in a row" in told["events"][1]["words"]
    assert told["events"][-1]["cause"] == "already_moved_by_same_owner"


def test_a_job_that_was_not_seen(
    served: tuple[EmqProxy, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "emq:orders:nobody@3", "--journal", str(served[0].journal_path))
    assert code == 2
    assert "emq:orders:nobody@3 is not in it" in err
    code, _, err = run(capsys, "emq:orders:nobody", "--admin", f"http://{LOOPBACK}:{served[1]}")
    assert (code, "is not among the jobs that it heard of last" in err) == (2, True)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    for content, told in (
        (b"", "no line of a journal in it"),
        (b"\xff\x00binary\n" * 9, "no line of a journal in it"),
        (b'{"a":1}\n', "no line of a journal in it"),
        (b'{"v":2,"job":"1"}\n', "a journal of another version"),
        (b'{"v":2,"job":"other"}\n', "a journal of another version"),
    ):
        empty.write_bytes(content)
        code, out, err = run(capsys, "emq:orders:1", "--journal", str(empty))
        assert (code, out, told in err, err.count("\n")) == (2, "", True, 1), content
