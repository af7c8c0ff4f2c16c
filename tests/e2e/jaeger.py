"""A real Jaeger for tests: all in one process, memory its store, its ports free ones of loopback, ended by its pid.

The binary is $EMQPROXY_JAEGER, or the one that `python -m tests.long.jaeger` has built into the machine's cache. No
test builds it: that takes minutes.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.otlp_receiver import Link, Span
from tests.processes import LOOPBACK, Process, eventually, free_port, http_get

BUILD = "python -m tests.long.jaeger"
VARIABLE = "EMQPROXY_JAEGER"
WARNINGS = "@jaeger@warnings"
"""The attribute in which Jaeger tells, on a span that it reads back, what is wrong with it."""
_KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}
_STATUS = {0: "UNSET", 1: "OK", 2: "ERROR"}


def cached() -> Path:
    """Where the machine's own binary is, or is to be."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "emqproxy" / "jaeger"


def missing() -> str | None:
    """Why there is no Jaeger here, and what to do; None: there is one."""
    named = os.environ.get(VARIABLE)
    if named or cached().exists():
        return None
    if shutil.which("go") is None:
        return f"no Jaeger, and no Go to build it: install Go and run `{BUILD}`, or name a Jaeger 2 in ${VARIABLE}"
    return f"no Jaeger: `{BUILD}` builds it, once a machine (minutes), or name a Jaeger 2 in ${VARIABLE}"


class Jaeger(Process):
    """Takes OTLP at `url`, and answers what it was told.

    `skew_max_s`: by how much it may move spans that do not fit into their parent of another host; its own default, 0,
    moves none and warns.
    """

    def __init__(self, skew_max_s: int = 0) -> None:
        super().__init__()
        self._skew_max_s = skew_max_s
        self._binary = os.environ.get(VARIABLE) or str(cached())
        try:
            for _ in range(5):  # a port may be taken between our look and its
                if self._start():
                    return
            raise AssertionError(f"{self._binary} does not start: {self.said()[-1000:]}")
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """For `OTEL_EXPORTER_OTLP_ENDPOINT`."""
        return f"http://{LOOPBACK}:{self._otlp}"

    def stop(self) -> None:
        """At once: it keeps nothing that would have to be written, and would wait for its clients' connections."""
        if self.running:
            self.end(signal.SIGKILL)
        super().stop()

    def said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def services(self) -> set[str]:
        """The names of those that spans came from."""
        return set(self._get("/api/v3/services").get("services", []))

    def spans(self, trace_id: str) -> list[Span]:
        """A trace as it came, by start; empty where there is none.

        Looks without touching: what `shown` finds wrong with a trace is kept in the store, and shown ever after.
        """
        return self._spans(f"/api/v3/traces/{trace_id}", raw_traces="true")

    def shown(self, trace_id: str) -> list[Span]:
        """A trace as Jaeger shows it: moved where clocks seem to differ, with its warnings. See `warnings`."""
        return self._spans(f"/api/v3/traces/{trace_id}")

    def find(self, service: str, operation: str) -> set[str]:
        """The traces of the last hour that a service has a span of this name in."""
        now = dt.datetime.now(dt.UTC)
        query = {
            "query.service_name": service,
            "query.operation_name": operation,
            "query.start_time_min": (now - dt.timedelta(hours=1)).isoformat(),
            "query.start_time_max": now.isoformat(),
            "query.num_traces": "100",
            "query.raw_traces": "true",
        }
        return {span.trace_id for span in self._spans("/api/v3/traces", **query)}

    def search(self, service: str, **tags: str) -> set[str]:
        """The traces in which a service has a span with all these attributes, as the page's search asks for them.

        Not of /api/v3, which cannot ask for attributes. `__` in a name is a dot.
        """
        wanted = {name.replace("__", "."): value for name, value in tags.items()}
        query = {"service": service, "tags": json.dumps(wanted), "lookback": "1h", "limit": "100"}
        return {trace["traceID"] for trace in self._get("/api/traces", **query)["data"] or []}

    def page_warnings(self, trace_id: str) -> list[str]:
        """What the page would warn of: its own API has warnings of a trace and of each span."""
        (trace,) = self._get(f"/api/traces/{trace_id}")["data"]
        own = trace["warnings"] or []
        return [*own, *(warning for span in trace["spans"] for warning in span.get("warnings") or [])]

    # ------------------------------------------------------------------ private

    def _start(self) -> bool:
        self._otlp, self._query, grpc = free_port(), free_port(), free_port()
        config = self.folder / "config.json"
        config.write_text(json.dumps(_configuration(self._otlp, self._query, grpc, self._skew_max_s)))
        with (self.folder / "log").open("wb") as log:
            self._spawn([self._binary, "--config", str(config)], stdout=log, stderr=subprocess.STDOUT)

        def look() -> bool:  # of its own log: another's port may answer, too
            return not self.running or "Everything is ready" in self.said()

        return eventually(look, 30, "a Jaeger that is ready") and self.running

    def _spans(self, path: str, **query: str) -> list[Span]:
        groups = self._get(path, **query).get("result", {}).get("resourceSpans", [])
        return sorted(_decoded(groups), key=lambda span: span.start_ns)

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        status, body = http_get(self._query, f"{path}?{urlencode(query)}")
        assert status in (200, 404), (status, body)  # 404: no such trace, with an error in the body
        answer = json.loads(body)
        assert isinstance(answer, dict)
        return answer


def warnings(spans: Iterable[Span]) -> list[str]:
    """What Jaeger found wrong with these."""
    return [warning for span in spans for warning in span.attributes.get(WARNINGS, [])]


def _configuration(otlp: int, query: int, grpc: int, skew_max_s: int) -> dict[str, Any]:
    def at(port: int) -> dict[str, str]:
        return {"endpoint": f"{LOOPBACK}:{port}"}

    pipeline = {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}
    telemetry = {"metrics": {"level": "none"}, "logs": {"level": "info"}}
    skew = {"max_clock_skew_adjust": f"{skew_max_s}s"}
    return {
        "service": {
            "extensions": ["jaeger_storage", "jaeger_query"],
            "pipelines": {"traces": pipeline},
            "telemetry": telemetry,
        },
        "extensions": {
            "jaeger_storage": {"backends": {"kept": {"memory": {"max_traces": 10_000}}}},
            "jaeger_query": {"storage": {"traces": "kept"}, "http": at(query), "grpc": at(grpc)} | skew,
        },
        "receivers": {"otlp": {"protocols": {"http": at(otlp)}}},
        "exporters": {"jaeger_storage_exporter": {"trace_storage": "kept"}},
    }


def _decoded(groups: list[dict[str, Any]]) -> Iterable[Span]:
    """OTLP as JSON: ids are hex, long numbers are strings, zeros are left out."""
    for group in groups:
        resource = _attributes(group["resource"])
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                yield Span(
                    name=span["name"],
                    kind=_KINDS[span["kind"]],
                    trace_id=span["traceId"],
                    span_id=span["spanId"],
                    parent_id=span.get("parentSpanId", ""),
                    start_ns=int(span["startTimeUnixNano"]),
                    end_ns=int(span["endTimeUnixNano"]),
                    status=_STATUS[span.get("status", {}).get("code", 0)],
                    attributes=_attributes(span),
                    links=tuple(Link(x["traceId"], x["spanId"], _attributes(x)) for x in span.get("links", [])),
                    resource=resource,
                    scope=scope.get("scope", {}).get("name", ""),
                    schema_url=scope.get("schemaUrl", ""),
                )


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in holder.get("attributes", [])}


def _value(value: dict[str, Any]) -> Any:
    ((kind, written),) = value.items()
    match kind:
        case "intValue":
            return int(written)
        case "arrayValue":
            return [_value(one) for one in written.get("values", [])]
        case _:
            return written
