"""Links from an attempt to what stands in other traces: the producer that made the job, and the job's parent."""

from __future__ import annotations

from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from emqproxy.observer import ids
from emqproxy.observer.draft import context_of
from emqproxy.records import JobFields

_CARRIER_CHARS_MAX: Final = 2048
"""Of one header. It was written by a producer, who may write anything."""
_HEADERS: Final = ("traceparent", "tracestate")
_PROPAGATOR: Final = TraceContextTextMapPropagator()


def of_job(job: JobFields, namespace: str, db: int) -> list[Link]:
    """The links that a job's own fields give; malformed ones give none."""
    found: list[Link] = []
    producer = _producer(job.trace_context or {})
    if producer is not None:
        found.append(Link(producer, {"emq.link": "producer"}))
    if job.parent_key:
        trace_id = ids.trace_id(namespace, db, job.parent_key.encode("utf-8", "surrogateescape"))
        # Which of the parent's spans is not known: an id that nobody has, so that the link leads to the trace.
        span_id = (trace_id & 0xFFFF_FFFF_FFFF_FFFF) or 1
        found.append(Link(context_of(trace_id, span_id), {"emq.link": "parent", "emq.job.key": job.parent_key}))
    return found


def _producer(carrier: dict[str, str]) -> SpanContext | None:
    headers = {name: carrier[name] for name in _HEADERS if name in carrier and len(carrier[name]) <= _CARRIER_CHARS_MAX}
    if "traceparent" not in headers:
        return None
    found = get_current_span(_PROPAGATOR.extract(headers, context=Context())).get_span_context()
    return found if found.is_valid else None
