"""`emqproxy explain` as a user calls it: from the journal of a real sidecar, and from a running one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emqproxy import explain
from emqproxy.locks.events import Nothing, Place, Queue, Wiped
from emqproxy.locks.verdicts import Verdict
from emqproxy.records import Line, Message, Record
from tests.journals import HEALTHY, ROBBED, TAKEN_OVER, key, play, run_command
from tests.observer.records_factory import Story, window
from tests.processes import LOOPBACK, EmqProxy, RedisServer, environment, eventually, free_port, http_get
from tests.proxy.wires import sidecar
from tests.shadowed import write_journal

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
    assert "canary-other deletes its lock by hand (DEL)" in out
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


def test_an_address_that_tells_no_jobs_is_said_to_be_wrong(
    served: tuple[EmqProxy, int], capsys: pytest.CaptureFixture[str]
) -> None:
    proxy, port = served
    for url, told in (
        (f"http://{LOOPBACK}:{port}/metrics", f"write it without a path: http://{LOOPBACK}:{port}"),
        (f"http://{LOOPBACK}:{port}/?a=b", f"write it without a path: http://{LOOPBACK}:{port}"),
        (f"http://{LOOPBACK}:{proxy.health_port}", "write the admin listener's URL (observer.admin)"),
    ):
        code, out, err = run(capsys, key(HEALTHY), "--admin", url)
        assert (code, out) == (2, "")
        assert f"{url}: no jobs are told there; {told}" in err


def test_sweeps_are_seen_both_ways(served: tuple[EmqProxy, int]) -> None:
    """Sweeps went on when the one was taken over, and none had been made before."""
    proxy, port = served

    def told(job: str) -> list[str]:
        page = json.loads(http_get(port, f"/api/jobs?key={key(job)}&db=0")[1])
        return [line["op"] for line in page["lines"]]

    eventually(lambda: told(ROBBED), 20, "what was played last")
    assert "sweep" in told(TAKEN_OVER)
    assert "sweep" not in told(HEALTHY)
    for job, swept in ((TAKEN_OVER, True), (HEALTHY, False)):
        assert explain._of_journal(str(proxy.journal_path), key(job), 0).sweeps is swept, job
        of_admin = explain._of_admin(f"http://{LOOPBACK}:{port}", key(job), 0)
        assert of_admin.sweeps is swept, job
        assert not [line for line in of_admin.lines if line.op == "sweep"], "they are no lines of the story"


def beside(seq: int, at_ms: float, line: Line, db: int = 0, queue: bytes = b"emq:orders:") -> Record:
    """A line that names no job."""
    fact = Nothing(Place(9, seq), window(at_ms), Queue(db, queue))
    if line.op == "wipe":
        return Record(seq, line, Verdict(Wiped(fact.place, fact.window, db, queue), None), None, None)
    return Record(seq, line, Verdict(fact, None), None, None)


def unswept(folder: Path, *others: Record) -> str:
    """A journal of a job whose lock ran out under its holder, and of some other lines."""
    story = Story()
    lines: list[Message] = [story.acquire(100_000), story.renew(110_000)]
    refused = replace(story.finish_refused(145_000), cause="expired_unswept", because="No sweep has found it.")
    told = [*lines, *others, refused]
    return str(write_journal(folder / "journal", *told))


@pytest.mark.parametrize(
    ("at_ms", "interval_ms", "other", "goes_on"),
    [
        (120_000, None, {}, True),
        (145_001, None, {}, False),  # it came after all that is told
        (41_000, None, {}, True),  # the second sweep from it was not due yet
        (39_000, None, {}, False),
        (39_000, 40_000, {}, True),
        (89_000, 5_000, {}, False),
        (120_000, None, {"db": 3}, False),
        (120_000, None, {"queue": b"emq:orders-2:"}, False),
    ],
)
def test_whether_sweeps_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], at_ms: int, interval_ms: int | None,
    other: dict[str, Any], goes_on: bool,
) -> None:  # fmt: skip
    journal = unswept(tmp_path, beside(50, at_ms, Line("sweep", "ok", interval_ms=interval_ms), **other))
    code, out, _ = run(capsys, "emq:orders:42", "--journal", journal)
    assert code == 0
    words = re.sub(r"\s+", " ", out)
    assert ("sweeps are going on" in words) is goes_on
    assert ("at least one worker of the queue sweep" in words) is not goes_on


def test_a_sweep_of_another_run_s_tells_nothing(tmp_path: Path) -> None:
    path = Path(unswept(tmp_path))
    write_journal(path, beside(50, 120_000, Line("sweep", "ok")), run="another")
    assert explain._of_journal(str(path), "emq:orders:42", 0).sweeps is False


def test_sweeps_of_its_time_are_known_however_many_came_after(tmp_path: Path) -> None:
    path = Path(unswept(tmp_path, beside(50, 120_000, Line("sweep", "ok"))))
    write_journal(path, *(beside(100 + at, 200_000 + at, Line("sweep", "ok")) for at in range(1_100)))
    assert explain._of_journal(str(path), "emq:orders:42", 0).sweeps is True


def test_a_sweep_that_put_another_job_back_is_a_sweep(tmp_path: Path) -> None:
    other = Story(job=b"43")
    other.acquire(0)
    assert explain._of_journal(unswept(tmp_path, other.reap(120_000)), "emq:orders:42", 0).sweeps is True


def test_a_wipe_behind_the_last_line_of_who_holds_it_still_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing more is heard of its worker: its lock was gone with it all the same."""
    story, told = Story(), Line("wipe", "ok")
    path = str(write_journal(tmp_path / "a", story.acquire(0), beside(50, 29_000, told), beside(51, 29_500, told)))
    out = run(capsys, "emq:orders:42", "--journal", path)[1]
    assert out.count("empties its queue (wipe)") == 1
    assert "W" in out.split("the queue")[1]
    late = str(write_journal(tmp_path / "b", Story().acquire(0), beside(50, 31_000, told)))
    assert "empties" not in run(capsys, "emq:orders:42", "--journal", late)[1], "its lock was over by then"
    story = Story()
    ended = str(write_journal(tmp_path / "c", story.acquire(0), story.finish(10), beside(50, 20, told)))
    assert "empties" not in run(capsys, "emq:orders:42", "--journal", ended)[1]


def test_hands_on_a_whole_list_of_its_queue_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand = Line("raw", "ok", target="active", code=1)
    others = beside(50, 120_000, hand), beside(51, 121_000, hand, queue=b"emq:mails:"), beside(52, 122_000, hand, db=1)
    out = run(capsys, "emq:orders:42", "--journal", unswept(tmp_path, *others))[1]
    assert out.count("the whole active list") == 1
    assert "t taken out by hand" in out
