"""The benchmark works and counts; nothing here looks at speed."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.bench import meter, report
from tests.bench.__main__ import main
from tests.bench.contenders import CONTENDERS, Contender
from tests.bench.measures import Measure, Spans
from tests.bench.receiver import names
from tests.bench.workloads import Scale

DIRECT, HAPROXY, _, RELAYING, DIRECT_TOO, HAPROXY_TOO, _, TRACING = CONTENDERS


def measure(contender: Contender, seconds: float, spans: Spans | None = None) -> Measure:
    cpu_s = {"client": 0.01, "redis": 0.02, "proxy": 0.03}
    return Measure("renewal", contender, 1000, seconds, 1.5, 9.5, cpu_s, {"proxy": 80.0}, spans)


def cells(text: str, *begins: str) -> list[list[str]]:
    """The rows of all tables that begin so."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if tuple(row[: len(begins)]) == begins]


@pytest.mark.skipif(shutil.which("redis-benchmark") is None, reason="redis-benchmark is not installed")
def test_a_tiny_run_measures_and_counts(tmp_path: Path) -> None:
    contenders = ["direct", "tracing", *(["haproxy"] if shutil.which("haproxy") else [])]
    chosen = [word for name in contenders for word in ("--contender", name)]
    out = tmp_path / "report.md"
    readme = tmp_path / "readme.md"
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    words = ["--only", "renewal", "--rounds", "1", "--quick", "--out", str(out), "--readme", str(readme), *chosen]
    main(words, Scale(seconds=0.01, locks=300, jobs=1, warm_up=200))
    text = out.read_text()

    (row,) = cells(text, "a renewal, 50 connections")
    assert row[2] != "-" if "haproxy" in contenders else row[2] == "-"
    (tracing,) = cells(text, "tracing", "extendLock")
    assert float(tracing[3]) > 0
    (counted,) = cells(text, "1")
    _, _, expected, records, dropped, received, lost, _ = (cell.replace(",", "") for cell in counted)
    assert int(expected) >= 300 + 200 + 200, "pickups, the warm-up's calls, and those measured"
    assert expected == received
    assert int(records) >= int(expected), "connections have lines of their own, and no spans"
    assert dropped == lost == "0"
    said = readme.read_text()
    assert said.startswith("before\n")
    assert said.endswith(f"{report.END}\nafter\n")
    assert "old" not in said
    assert cells(said, "a renewal, 50 connections") == [row]


def test_ratios_are_of_medians_and_of_the_same_script() -> None:
    runs = [measure(DIRECT, seconds) for seconds in (1.0, 2.0, 4.0)]
    runs += [measure(DIRECT_TOO, 1.0), measure(HAPROXY, 4.0), measure(HAPROXY_TOO, 8.0)]
    runs += [measure(RELAYING, seconds) for seconds in (5.0, 8.0, 9.0)]
    runs += [measure(TRACING, 16.0, Spans(1100, 1100, 90, 1010, 40.0))]
    text = report.whole(runs, ["head"], ["haproxy: not measured"])
    assert cells(text, "direct", "own")[0][2:5] == ["500 (250-1,000) calls/s", "1.00", "2.00"]
    assert cells(text, "relaying", "own")[0][3:5] == ["0.25", "0.50"]
    assert cells(text, "tracing", "extendLock")[0][3:5] == ["0.06", "0.50"]
    assert cells(text, "tracing", "extendLock")[0][5:] == ["1.50", "9.50", "20.0", "30.0", "-", "10.0", "80", "-"]
    assert cells(text, "a renewal, 50 connections")[0][2:] == ["0.50", "-", "0.50", "-", "0.50"]
    assert cells(text, "1", "1,000") == [["1", "1,000", "1,100", "1,100", "90", "1,010", "90", "40"]]
    assert "haproxy: not measured" in text


def test_a_document_without_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no place"):
        report.put("a page", "| table |")


def test_lost_spans_are_said_first() -> None:
    spans = [Spans(3000, 2000, 0, 3000, 40.0), Spans(3000, 2000, 10, 2985, 40.0)]
    runs = [replace(measure(TRACING, 1.0, each), workload="bullmq-paced") for each in spans]
    assert "6,000 spans, 15 of them lost." in report.short(runs, [], [])


def test_without_a_base_there_is_no_ratio() -> None:
    text = report.whole([measure(RELAYING, 1.0)], [], [])
    assert cells(text, "a renewal, 50 connections")[0][1:] == ["-", "-", "-", "-", "-", "-"]


def test_the_receiver_reads_names_as_protobuf_has_them() -> None:
    word = KeyValue(key="name", value=AnyValue(string_value="x" * 300))
    spans = [Span(name=f"renew q{n}", trace_id=b"t" * 16, flags=257, attributes=[word] * n) for n in range(200)]
    groups = [ResourceSpans(scope_spans=[ScopeSpans(spans=spans[:150]), ScopeSpans()]), ResourceSpans()]
    groups += [ResourceSpans(scope_spans=[ScopeSpans(spans=[*spans[150:], Span()])])]
    body = ExportTraceServiceRequest(resource_spans=groups).SerializeToString()
    assert list(names(body)) == [*(span.name.encode() for span in spans), b""]
    with pytest.raises(ValueError, match="no protobuf"):
        list(names(b"\x0f"))


def test_the_meter_reads_this_process() -> None:
    began = meter.cpu_s(os.getpid())
    while meter.cpu_s(os.getpid()) - began < 0.03:
        sum(range(10_000))
    assert meter.rss_mib(os.getpid()) > 10
