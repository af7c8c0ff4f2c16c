"""The measures as Markdown: ratios of medians over the rounds, and what each part took."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.bench.contenders import Contender
from tests.bench.measures import Measure, named
from tests.bench.workloads import WORKLOADS, Workload
from tests.processes import server_binary

NONE = "-"
BEGIN, END = "<!-- benchmark: python -m tests.bench --readme README.md -->", "<!-- end of the benchmark -->"
ORDER = ("haproxy", "twemproxy", "relaying", "watching", "tracing")
_VERSIONS = {
    "haproxy": ["haproxy", "-v"],
    "twemproxy": ["nutcracker", "--version"],
    "node": ["node", "--version"],
}

Runs = dict[Contender, list[Measure]]


def median(runs: Sequence[Measure], figure: Callable[[Measure], float]) -> float:
    return statistics.median(map(figure, runs))


def ratio(found: Runs, contender: Contender, base: str) -> float | None:
    """Of medians of calls a second, both with the same script; None where the base was not measured."""
    with_same = [runs for other, runs in found.items() if other.name == base and other.script == contender.script]
    if not with_same:
        return None
    return median(found[contender], _per_s) / median(with_same[0], _per_s)


def header(command: str, load: str, rounds: int) -> Iterator[str]:
    """What was measured, where and when."""
    yield f"`{command}`, {dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC, {rounds} interleaved rounds"
    yield ""
    yield f"{os.cpu_count()} cores ({_processor()}), {platform.system()} {platform.release()}, load at the start {load}"
    versions = [f"Redis {_version([server_binary(), '--version'])}", f"Python {platform.python_version()}"]
    versions += [f"{name} {_version(command)}" for name, command in _VERSIONS.items() if shutil.which(command[0])]
    yield ", ".join(versions)


def summary(measures: Sequence[Measure]) -> Iterator[str]:
    """One row a workload: direct in figures, HAProxy as a share of direct, all others as shares of HAProxy."""
    yield "| workload | direct | HAProxy of direct | twemproxy of HAProxy | relaying | watching | tracing |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for workload in _played(measures):
        found = named(measures, workload.name)
        direct = next((runs for contender, runs in found.items() if contender.name == "direct"), None)
        cells = [workload.title, NONE if direct is None else _spread(direct, workload)]
        for name in ORDER:
            contender = next((contender for contender in found if contender.name == name), None)
            base = "direct" if name == "haproxy" else "haproxy"
            share = ratio(found, contender, base) if contender is not None else None
            cells.append(NONE if share is None else f"{share:.2f}")
        yield _row(cells)


def details(measures: Sequence[Measure], workload: Workload) -> Iterator[str]:
    """One row a contender."""
    found = named(measures, workload.name)
    yield f"**{workload.title}** (`--only {workload.name}`)" + (
        f"; p50, p99: {workload.times}" if workload.times else ""
    )
    yield ""
    heads = ["", "script", f"{workload.unit}/s", "of direct", "of HAProxy", "p50 ms", "p99 ms"]
    parts = ("redis", "proxy", "observer", "client")
    yield _row([*heads, *(f"{part} µs" for part in parts), "proxy MiB", "observer MiB"])
    yield "|---|---|" + "---:|" * (len(heads) + len(parts))
    for contender, runs in found.items():
        of_direct, of_haproxy = (ratio(found, contender, base) for base in ("direct", "haproxy"))
        script = contender.script if workload.name.startswith("renewal") else ""
        cells = [contender.name, script, _spread(runs, workload), _share(of_direct), _share(of_haproxy)]
        cells += [f"{median(runs, lambda run: run.p50_ms):.2f}", f"{median(runs, lambda run: run.p99_ms):.2f}"]
        cells += [_cell(runs, partial(_each_us, part=part), "{:.1f}") for part in parts]
        cells += [_cell(runs, partial(_rss_mib, part=part), "{:.0f}") for part in ("proxy", "observer")]
        yield _row(cells)
    yield from _spans(found, workload)


def _spans(found: Runs, workload: Workload) -> Iterator[str]:
    """Of each run that exported: what was made, told, dropped, received."""
    counted = [(run, run.spans) for runs in found.values() for run in runs if run.spans is not None]
    if not counted:
        return
    yield ""
    yield f"| spans, by round | {workload.unit} | expected | records | dropped | received | lost | observer µs a span |"
    yield "|---|" + "---:|" * 7
    for number, (run, spans) in enumerate(counted, 1):
        counts = (run.calls, spans.expected, spans.records, spans.dropped, spans.received, spans.lost)
        yield _row([str(number), *(f"{count:,}" for count in counts), f"{spans.observer_us:.0f}"])


def short(measures: Sequence[Measure], head: Sequence[str], missing: Sequence[str]) -> str:
    """What a reader needs first: one row a workload, and what became of the spans at 1,000 jobs a second."""
    lines = [*head, "", *summary(measures), *(["", *missing] if missing else [])]
    for runs in named(measures, "bullmq-paced").values():
        counted = [run.spans for run in runs if run.spans is not None]
        expected, lost = sum(spans.expected for spans in counted), sum(spans.lost for spans in counted)
        lines += ["", f"At 1,000 jobs a second, traced: {expected:,} spans, {lost:,} of them lost."]
    return "\n".join(lines)


def put(text: str, table: str) -> str:
    """A document with the table between its two marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no place for the table: write {BEGIN} and {END} where it shall stand")
    return f"{head}{begin}\n{table}\n{end}{tail}"


def whole(measures: Sequence[Measure], head: Sequence[str], missing: Sequence[str]) -> str:
    """All of it."""
    lines = [*head, "", *summary(measures), *(["", *missing] if missing else [])]
    for workload in _played(measures):
        lines += ["", *details(measures, workload)]
    return "\n".join(lines)


# ---------------------------------------------------------------- cells


def _played(measures: Sequence[Measure]) -> list[Workload]:
    names = {measure.workload for measure in measures}
    return [workload for workload in WORKLOADS if workload.name in names]


def _per_s(run: Measure) -> float:
    return run.per_s


def _spread(runs: Sequence[Measure], workload: Workload) -> str:
    """Median, least and most."""
    rates = [run.per_s for run in runs]
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f}) {workload.unit}/s"


def _each_us(run: Measure, part: str) -> float | None:
    """CPU time a call."""
    return 1e6 * run.cpu_s[part] / run.calls if part in run.cpu_s else None


def _rss_mib(run: Measure, part: str) -> float | None:
    return run.rss_mib.get(part)


def _cell(runs: Sequence[Measure], figure: Callable[[Measure], float | None], form: str) -> str:
    figures = [value for value in map(figure, runs) if value is not None]
    return form.format(statistics.median(figures)) if figures else NONE


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _processor() -> str:
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def _version(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else "?"
