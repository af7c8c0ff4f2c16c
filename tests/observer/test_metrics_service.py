"""Metrics in the observer as it runs: a process at the end of a pipe, its listener, a collector."""

from __future__ import annotations

import json
import socket
from typing import Any

import msgspec

from emqproxy.locks.verdicts import Grade
from emqproxy.records import Backlog, Message, ObserverSettings
from tests.observer.process import ObserverProcess
from tests.observer.records_factory import ANCHOR, Numbers, Story, hello
from tests.observer.scrape import get, page_with
from tests.observer.test_metrics_export import sums
from tests.observer.test_metrics_reading import gauges
from tests.otlp_receiver import OtlpReceiver
from tests.processes import LOOPBACK, eventually, free_port

SLOW_S = 40.0
"""A process starts in a second, and on a busy machine in ten."""
QUIET = {"OTEL_TRACES_EXPORTER": "none"}


def listening(port: int) -> ObserverSettings:
    return ObserverSettings(admin_host=LOOPBACK, admin_port=port)


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def test_every_record_is_counted_also_while_spans_are_shed() -> None:
    port, numbers = free_port(), Numbers()
    with OtlpReceiver() as receiver, ObserverProcess({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}) as observer:
        observer.send(hello(listening(port)), ANCHOR)
        observer.send(Backlog(12_000))
        batch: list[Message] = []
        for number in range(50):
            story = Story(job=b"%d" % number, numbers=numbers)
            batch += [story.acquire(0), story.renew(5), story.finish(6)]
        observer.send(*batch)
        page = page_with(port, lambda page: page.one("emq_observer_records_total") == 150)
        assert page.one("messaging_process_duration_seconds_count") == 50
        assert page.by("emq_observer_spans_total", "result")["shed",] > 100
        observer.close()
        assert receiver.metrics() == [], "pushed only where it is asked for"


def test_it_is_as_ready_as_the_data_plane_said_last() -> None:
    port = free_port()
    with ObserverProcess(QUIET) as observer:
        observer.send(hello(listening(port)), ANCHOR)
        eventually(lambda: get(port, "/healthz")[0] == 200, SLOW_S)
        assert get(port, "/readyz")[0] == 503
        told = gauges(ready_body='{"ready": true, "telemetry": "ok"}')
        observer.send(told)
        assert eventually(lambda: get(port, "/readyz")[0] == 200, SLOW_S)
        assert json.loads(get(port, "/readyz")[1]) == {"ready": True, "telemetry": "ok"}
        observer.send(msgspec.structs.replace(told, ready=False, ready_body='{"ready": false, "reason": "draining"}'))
        assert eventually(lambda: json.loads(get(port, "/readyz")[1]).get("reason") == "draining", SLOW_S)
        out, err = observer.close()
    assert [line["event"] for line in lines(out)] == ["admin listens"]
    assert err == b""


def test_a_port_that_is_taken_is_one_line_and_stops_nothing_else() -> None:
    story = Story()
    with socket.create_server((LOOPBACK, 0)) as taken, OtlpReceiver() as receiver:
        port = taken.getsockname()[1]
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        with ObserverProcess(env) as observer:
            observer.send(hello(listening(port)), ANCHOR, story.acquire(0), story.renew(20_000, Grade.LATE))
            receiver.wait_for(lambda spans: len(spans) == 2, SLOW_S)
            told = observer.read_lines(2)  # this, and the late renewal, in whatever order
            rest, err = observer.close()
            assert observer.process.returncode == 0
    said = [line for line in lines(told + rest) if line["event"].startswith("cannot listen for /metrics")]
    assert len(said) == 1
    assert (said[0]["level"], said[0]["admin"]) == ("error", f"{LOOPBACK}:{port}")
    assert "--admin" in said[0]["hint"]
    assert err == b""


def test_what_was_counted_last_is_pushed_at_the_end() -> None:
    story = Story()
    with OtlpReceiver() as receiver:
        env = QUIET | {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{receiver.url}/v1/metrics"}
        with ObserverProcess(env) as observer:
            observer.send(hello(), ANCHOR, story.acquire(0), story.renew(5), story.finish(6))
            out, err = observer.close()
        (pushed,) = sums(receiver.metrics())
    assert [point.as_int for point in pushed["emq.lock.renewals"].sum.data_points] == [1]
    assert (out, err) == (b"", b"")


def test_a_collector_that_hangs_holds_up_no_end() -> None:
    with OtlpReceiver() as receiver:
        receiver.hang()
        env = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        with ObserverProcess(env | {"OTEL_BSP_SCHEDULE_DELAY": "50"}) as observer:
            observer.send(hello(), ANCHOR, Story().acquire(0))
            receiver.wait_for_requests(1, SLOW_S)
            _, err = observer.close(SLOW_S)
            assert observer.process.returncode == 0
    assert b"Traceback" not in err


def test_metrics_that_are_off_are_said_to_be_where_they_would_stand() -> None:
    port = free_port()
    with ObserverProcess({"OTEL_SDK_DISABLED": "true"}) as observer:
        observer.send(hello(listening(port)), ANCHOR, gauges())
        assert eventually(lambda: get(port, "/readyz")[0] == 200, SLOW_S)
        assert get(port, "/metrics")[0] == 404
        observer.close()
