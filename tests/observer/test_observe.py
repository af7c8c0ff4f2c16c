"""The observer as it runs: a process at the end of a pipe, with real collectors, good and bad."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from emqproxy.locks.verdicts import Grade
from emqproxy.records import Anchor, Backlog, JobFields, ObserverSettings, Snapshot
from tests.observer.process import ObserverProcess
from tests.observer.records_factory import ANCHOR, BOOT_NS, MS, TOKEN, WALL_NS, Numbers, Story, blind, hello
from tests.otlp_receiver import OtlpReceiver, by_name

SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def anchor(second: int, dropped: int = 0) -> Anchor:
    return Anchor(BOOT_NS + second * 1000 * MS, WALL_NS + second * 1000 * MS, dropped, 0)


def test_a_job_comes_out_as_trace_journal_and_log(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    story = Story()
    with (
        OtlpReceiver() as receiver,
        ObserverProcess({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}) as observer,
    ):
        observer.send(hello(ObserverSettings(journal=str(path))), ANCHOR)
        observer.send(story.acquire(0), story.renew(20_000, Grade.LATE))
        early = receiver.wait_for(lambda spans: len(spans) == 2)
        assert by_name(early).keys() == {"acquire", "renew"}, "as it happens, not at the end"
        assert [line["op"] for line in lines(path.read_bytes())] == ["acquire", "renew"]
        observer.send(story.finish(21_000))
        spans = by_name(receiver.wait_for(lambda spans: len(spans) == 4))
        out, err = observer.close()
        assert observer.process.returncode == 0
    process = spans["process"][0]
    assert [spans[name][0].parent_id for name in ("acquire", "renew", "complete")] == [process.span_id] * 3
    assert (process.kind, process.parent_id) == ("CONSUMER", "")
    assert {span.trace_id for group in spans.values() for span in group} == {process.trace_id}
    written = lines(path.read_bytes())
    assert [line["seq"] for line in written] == [1, 2, 3]
    assert spans["renew"][0].attributes["emq.lock.age_ms"] == written[1]["age_ms"]
    (said,) = lines(out)
    assert (said["grade"], said["job"], said["age_ms"]) == ("late", "42", written[1]["age_ms"])
    assert err == b""


def test_the_journal_on_standard_output_is_alone_there() -> None:
    story = Story()
    with ObserverProcess({"OTEL_TRACES_EXPORTER": "console"}) as observer:
        observer.send(hello(ObserverSettings(journal="-")), ANCHOR, story.acquire(0), story.renew(20_000, Grade.LATE))
        out, err = observer.close()
    assert [line["op"] for line in lines(out)] == ["acquire", "renew"]
    assert {line.get("event") or line.get("name") for line in lines(err)} >= {"renew ok", "acquire orders"}


@pytest.mark.parametrize("signals", [[signal.SIGINT, signal.SIGTERM, signal.SIGHUP]])
def test_signals_do_not_end_it_the_pipe_does(signals: list[signal.Signals]) -> None:
    story = Story()
    with OtlpReceiver() as receiver, ObserverProcess({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}) as observer:
        observer.send(hello(), ANCHOR, story.acquire(0))
        receiver.wait_for(lambda spans: len(spans) == 1)
        for number in signals:
            observer.signal(number)
        observer.send(story.finish(5))
        receiver.wait_for(lambda spans: len(spans) == 3)
        observer.close()
        assert observer.process.returncode == 0


@pytest.mark.parametrize("collector", ["hangs", "refuses", "429", "503"])
def test_it_ends_in_time_whatever_the_collector_does(collector: str) -> None:
    story = Story()
    with OtlpReceiver() as receiver, ObserverProcess({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}) as observer:
        if collector == "hangs":
            receiver.hang()
        elif collector == "refuses":
            receiver.refuse()
        else:
            receiver.answer(int(collector), retry_after_s=60)
        observer.send(hello(ObserverSettings(journal="-")), ANCHOR, story.acquire(0), story.finish(5))
        written = observer.read_lines(2)
        if collector != "refuses":
            receiver.wait_for_requests(1)
        began = time.monotonic()
        out, log = observer.close()
        took_s = time.monotonic() - began
    assert observer.process.returncode == 0
    assert took_s < 4.5, "3 s of grace, and a busy machine"
    assert [line["op"] for line in lines(written)] == ["acquire", "finish"]
    said = [line for line in lines(log) if line["event"] == "spans left undelivered at the end"]
    assert len(said) == 1
    assert said[0]["endpoint"] == receiver.url
    assert said[0]["exported"] == 0
    assert out == b""
    assert b"Traceback" not in log


def test_a_collector_that_comes_back_gets_what_waited() -> None:
    story = Story()
    with OtlpReceiver() as receiver, ObserverProcess({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}) as observer:
        receiver.answer(503, retry_after_s=1)
        observer.send(hello(), ANCHOR, story.acquire(0), story.finish(5))
        receiver.wait_for_requests(1)
        receiver.answer(200)
        receiver.wait_for(lambda spans: len(spans) == 3)
        out, _ = observer.close()
        assert out == b""


def test_nothing_secret_is_told_anywhere(tmp_path: Path) -> None:
    """Of a token only the fingerprint, whatever the worker is accused of, and whatever fails."""
    path = tmp_path / "journal.ndjson"
    story = Story()
    job = JobFields(name="mail", trace_context={"traceparent": "CANARY-carrier", "tracestate": "CANARY-state=1"})
    settings = ObserverSettings(journal=str(path), token_key="CANARY-key", log_level="debug")
    with (
        OtlpReceiver() as receiver,
        ObserverProcess(
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
                "OTEL_EXPORTER_OTLP_HEADERS": "authorization=CANARY-header",
                **SOON,
            }
        ) as observer,
    ):
        observer.send(hello(settings), ANCHOR, story.acquire(0, job), story.renew(20_000, Grade.CRITICAL))
        observer.send(
            story.lapse(50_031), story.renew_refused(51_000), story.reap(60_000), story.finish_refused(61_000)
        )
        observer.send(blind(story.numbers, 62_000))
        receiver.wait_for(lambda spans: len(spans) == 8)
        receiver.answer(400)
        observer.send(Story(job=b"43").acquire(63_000), anchor(64))
        receiver.wait_for_requests(2)
        out, err = observer.close()
        told = {"journal": path.read_bytes(), "export": b"".join(receiver.bodies()), "log": out + err}
    worker = TOKEN.rpartition(b":")[0]
    for where, data in told.items():
        assert data, f"nothing was told in the {where}"
        for canary in (TOKEN, worker, worker.replace(b"-", b""), b"CANARY"):
            assert canary not in data, f"{canary!r} stands in the {where}"


def test_a_restarted_observer_ends_what_the_first_began() -> None:
    story = Story()
    with OtlpReceiver() as receiver:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}
        with ObserverProcess(env) as first:
            first.send(hello(), ANCHOR, story.acquire(0))
            receiver.wait_for(lambda spans: len(spans) == 1)
            first.signal(signal.SIGKILL)
            first.process.wait(5)
        with ObserverProcess(env) as second:
            second.send(hello(restarts=1), ANCHOR, Snapshot((story._now(),)))
            second.send(story.finish(9_000))
            spans = by_name(receiver.wait_for(lambda spans: len(spans) == 3))
            second.close()
    assert spans["acquire"][0].parent_id == spans["process"][0].span_id == spans["complete"][0].parent_id


def test_a_journal_that_cannot_be_written_hurts_nobody_else(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere" / "journal.ndjson"
    story = Story()
    with OtlpReceiver() as receiver, ObserverProcess({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}) as observer:
        observer.send(hello(ObserverSettings(journal=str(nowhere))), ANCHOR, story.acquire(0))
        observer.send(story.renew(20_000, Grade.LATE))
        receiver.wait_for(lambda spans: len(spans) == 2)
        nowhere.parent.mkdir()
        observer.send(story.finish(21_000))
        receiver.wait_for(lambda spans: len(spans) == 4)
        out, _ = observer.close()
    events = [line["event"] for line in lines(out)]
    assert events.count("journal lines lost") == 1, "once a minute"
    (last,) = [line for line in lines(out) if line["event"] == "the journal of this run is not whole"]
    assert (last["level"], last["lost"], last["missing"]) == ("warning", 2, 0)
    assert "renew ok" in events
    assert [line["op"] for line in lines(nowhere.read_bytes())] == ["finish"]


def test_the_end_says_how_many_records_the_journal_misses(tmp_path: Path) -> None:
    story, path = Story(), tmp_path / "journal.ndjson"
    with ObserverProcess({"OTEL_TRACES_EXPORTER": "none"}) as observer:
        observer.send(hello(ObserverSettings(journal=str(path))), ANCHOR, story.acquire(0))
        story.renew(20_000)
        story.renew(21_000)
        observer.send(story.finish(22_000))
        out, _ = observer.close()
    last = lines(out)[-1]
    assert (last["event"], last["lost"], last["missing"]) == ("the journal of this run is not whole", 0, 2)


def test_a_consumer_that_raises_hurts_nobody_else() -> None:
    """A path with a zero byte makes the system's `open` raise what no file error is: a fault of ours, not of a disk."""
    story = Story()
    with OtlpReceiver() as receiver, ObserverProcess({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}) as observer:
        observer.send(hello(ObserverSettings(journal="jour\0nal")), ANCHOR, story.acquire(0))
        observer.send(story.renew(20_000, Grade.LATE))
        observer.send(story.finish(21_000))
        receiver.wait_for(lambda spans: len(spans) == 4)
        out, err = observer.close()
        assert observer.process.returncode == 0
    assert [line["event"] for line in lines(out)] == ["observer consumer failed", "renew ok"]
    assert lines(out)[0]["consumer"] == "journal"
    assert err == b""


def test_a_loss_on_the_way_here_is_said() -> None:
    with ObserverProcess({"OTEL_TRACES_EXPORTER": "none"}) as observer:
        observer.send(hello(), ANCHOR, anchor(1, dropped=3), anchor(2, dropped=5))
        out, _ = observer.close()
    (line,) = lines(out)
    assert (line["event"], line["dropped"]) == ("records were dropped on the way to the observer", 3)


def test_a_torn_frame_is_an_end_with_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    with ObserverProcess({"OTEL_TRACES_EXPORTER": "none"}) as observer:
        observer.send(hello(ObserverSettings(journal=str(path))), ANCHOR, Story().acquire(0))
        observer.send_bytes(b"\x00\x00\x01\x00half")
        out, _ = observer.close()
        assert observer.process.returncode == 0
    assert len(path.read_bytes().splitlines()) == 1
    assert lines(out)[-1]["why"] == "torn"


def test_a_pipe_that_does_not_begin_with_a_hello_is_refused() -> None:
    with ObserverProcess() as observer:
        observer.send(ANCHOR)
        observer.close()
        assert observer.process.returncode == 2


def test_a_pipe_that_closes_at_once_is_no_fault() -> None:
    with ObserverProcess() as observer:
        assert observer.close() == (b"", b"")
        assert observer.process.returncode == 0


def test_an_observer_that_is_behind_sheds_healthy_spans_and_no_line(tmp_path: Path) -> None:
    """What is flagged is made even then, and its attempt's span above it; how many were shed is said."""
    path = tmp_path / "journal.ndjson"
    numbers = Numbers()
    before, behind, flagged, after = (Story(job=b"%d" % n, numbers=numbers) for n in range(4))
    with OtlpReceiver() as receiver, ObserverProcess({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}) as observer:
        observer.send(hello(ObserverSettings(journal=str(path))), ANCHOR, before.acquire(0), before.finish(1))
        observer.send(Backlog(12_000))
        observer.send(behind.acquire(2), behind.renew(3), behind.finish(4), flagged.acquire(5))
        observer.send(flagged.renew(20_000, Grade.LATE), flagged.finish(21_000))
        observer.send(Backlog(0))
        observer.send(after.acquire(22_000), after.finish(22_001))
        spans = receiver.wait_for(lambda spans: len(spans) == 8)
        out, _ = observer.close()
    told = sorted((span.attributes["messaging.message.id"], span.name.split()[0]) for span in spans)
    whole = ["acquire", "complete", "process"]
    flags = [("2", "process"), ("2", "renew")]
    assert told == [("0", name) for name in whole] + flags + [("3", name) for name in whole]
    assert [line["seq"] for line in lines(path.read_bytes())] == list(range(1, 11))
    (said,) = [line for line in lines(out) if line["event"] == "spans left undelivered at the end"]
    # Of `behind` four, of `flagged` its acquire and its finish.
    assert (said["shed"], said["dropped"], said["failed"], said["waiting"]) == (6, 0, 0, 0)


def test_that_spans_are_shed_is_said_at_a_heartbeat() -> None:
    story = Story()
    with OtlpReceiver() as receiver, ObserverProcess({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}) as observer:
        observer.send(hello(), ANCHOR)
        observer.send(Backlog(12_000))
        observer.send(story.acquire(0), story.finish(1))
        observer.send(anchor(1))
        observer.send(anchor(2))
        out, _ = observer.close()
    said = [line for line in lines(out) if line["event"] == "records came too fast: healthy spans were shed, no lines"]
    assert [line["shed"] for line in said] == [3]
