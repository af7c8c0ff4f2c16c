"""Every metric that there is, by its name in OpenTelemetry, and what Prometheus calls it (TELEMETRY 2.7).

Dashboards and alert rules rely on these names. No label ever holds a job's id, a token or anything of a job's data.
`queue` is a queue's name without its prefix; from the 201st queue on it is `_other`, as is a script from the 257th on.

What counts as `kind` of `emq.lock.violations`; one line of the journal may count under several:

    late, critical, too_late       a renewal's grade
    JobLockMismatch, RenewRefused, …   the `code_name` of what a script refused (`refused` where it has no name)
    blocked                        what we refused
    double … straggler             a finding above doubtful
    lapse                          a deadline that passed without a renewal
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from emqproxy.records import CALL_BOUNDS_NS, LAG_BOUNDS_NS, OVERHEAD_BOUNDS_NS

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The standard's for messaging."""
LONG_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
"""Jobs take longer than requests."""
AGE_RATIOS: Final = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0, 1.25, 2.0)
REMAINING_SECONDS: Final = (0.0, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 300.0)

OTHER: Final = "_other"
QUEUES_MAX: Final = 200
SCRIPTS_MAX: Final = 256


class Metric(NamedTuple):
    """One row."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    labels: tuple[str, ...]
    text: str
    bounds: tuple[float, ...] = ()

    @property
    def prometheus(self) -> str:
        """As it stands on `/metrics`, a histogram without `_bucket`, `_sum` and `_count`."""
        name = self.name.replace(".", "_") + {"s": "_seconds"}.get(self.unit, "")
        return f"{name}_total" if self.kind == "counter" else name


_QUEUE: Final = ("queue",)
_SENT: Final = ("messaging.system", "messaging.operation.name", "messaging.destination.name", "error.type")
_CALL: Final = ("db.system.name", "db.operation.name", "db.stored_procedure.name", "error.type")

RENEWALS: Final = Metric("emq.lock.renewals", "counter", "{renewal}", ("queue", "grade"), "Renewals, by grade.")
AGE_RATIO: Final = Metric(
    "emq.lock.renewal.age_ratio", "histogram", "1", _QUEUE,
    "Age of the lock when its renewal was sent, as a share of its time to live.", AGE_RATIOS,
)  # fmt: skip
REMAINING: Final = Metric(
    "emq.lock.remaining", "histogram", "s", _QUEUE,
    "What was left of the lock when its holder spoke for it; at most 0: it had passed.", REMAINING_SECONDS,
)  # fmt: skip
VIOLATIONS: Final = Metric(
    "emq.lock.violations", "counter", "{violation}", ("queue", "kind"), "What went wrong with locks, by kind."
)
CAUSES: Final = Metric(
    "emq.lock.causes", "counter", "{line}", ("queue", "cause"), "Lines that tell why, by the cause."
)
HELD: Final = Metric("emq.locks.held", "gauge", "{lock}", _QUEUE, "Locks that are held, as far as was seen here.")
OLDEST: Final = Metric(
    "emq.locks.oldest_age", "gauge", "s", (), "Since when the longest running attempt holds its lock."
)
TRANSITIONS: Final = Metric(
    "emq.job.transitions", "counter", "{transition}", ("queue", "from", "to", "outcome"), "Jobs moved, or not."
)
RETURNS: Final = Metric(
    "emq.script.returns",
    "counter",
    "{return}",
    ("script", "code"),
    "Return codes of scripts, by name where one has one.",
)
STALLED: Final = Metric(
    "emq.jobs.stalled", "counter", "{job}", ("queue", "outcome"), "Jobs that a stalled sweep named."
)
ENFORCEMENT: Final = Metric(
    "emq.enforcement.actions", "counter", "{line}", ("mode", "action", "rule"),
    "What became of judged calls, one for each job that they named: passed, would_block, blocked; by which rule.",
)  # fmt: skip
RULES: Final = (
    "raw_lock_write", "unknown_script", "zero_token", "zombie_write", "lapsed_holder", "malformed_call", "bad_duration",
    "mass_delete",
)  # fmt: skip
"""Every `rule` there is: each is told from the start on, at 0."""
UNRECOGNISED: Final = Metric(
    "emq.scripts.unrecognized", "counter", "{call}", (), "Script calls on queue-like keys that nobody knows."
)
GUESSED: Final = Metric("emq.scripts.guessed", "counter", "{call}", (), "Script calls known by their shape only.")
NOSCRIPT: Final = Metric("emq.noscript", "counter", "{answer}", (), "NOSCRIPT answers to recognised calls.")
CONNECTIONS: Final = Metric("emq.proxy.connections", "gauge", "{connection}", ("side",), "Open connections.")
INFLIGHT: Final = Metric("emq.proxy.inflight", "gauge", "{call}", (), "Recognised calls whose answer is out.")
OVERHEAD: Final = Metric(
    "emq.proxy.overhead", "histogram", "s", (),
    "From reading bytes to having written them on, once in a turn of the loop.",
    tuple(ns / 1e9 for ns in OVERHEAD_BOUNDS_NS),
)  # fmt: skip
BYTES: Final = Metric("emq.proxy.bytes", "counter", "By", ("direction",), "Bytes passed on, to_server or to_client.")
LOOP_LAG: Final = Metric(
    "emq.proxy.loop_lag", "histogram", "s", (), "How late the data plane's loop was, each 20 ms.",
    tuple(ns / 1e9 for ns in LAG_BOUNDS_NS),
)  # fmt: skip
BLINDED: Final = Metric(
    "emq.proxy.blinded", "counter", "{connection}", (), "Connections of which nothing more could be told."
)
FAULTS: Final = Metric("emq.proxy.faults", "counter", "{fault}", (), "Faults of emqproxy's own.")
RELOADS: Final = Metric(
    "emq.config.reloads", "counter", "{reload}", ("result",), "Configurations read again: ok, failed."
)
RECORDS: Final = Metric("emq.observer.records", "counter", "{record}", (), "Records that came to the observer.")
DROPPED: Final = Metric(
    "emq.observer.records.dropped", "counter", "{record}", (), "Records that the data plane could not hand over."
)
SPANS: Final = Metric(
    "emq.observer.spans", "counter", "{span}", ("result",),
    "Spans, by what became of them: exported, failed, dropped (the queue was full), shed (the observer was behind).",
)  # fmt: skip
LINES_LOST: Final = Metric(
    "emq.observer.journal.lost", "counter", "{line}", (), "Journal lines that could not be written."
)
RESTARTS: Final = Metric(
    "emq.observer.restarts", "counter", "{restart}", (), "How often the observer was started again."
)
BUILD: Final = Metric("emq.build_info", "gauge", "1", ("version", "python"), "Always 1.")
CALLS: Final = Metric(
    "db.client.operation.duration", "histogram", "s", (*_CALL, "server.address", "server.port"),
    "Recognised script calls: from sending to the answer. Those that found no job, too.",
    tuple(ns / 1e9 for ns in CALL_BOUNDS_NS),
)  # fmt: skip
OPERATIONS: Final = Metric(
    "messaging.client.operation.duration", "histogram", "s", _SENT,
    "Operations on jobs, one for each job: from sending to the answer.", SECONDS,
)  # fmt: skip
SENT: Final = Metric("messaging.client.sent.messages", "counter", "{message}", _SENT, "Jobs added.")
CONSUMED: Final = Metric(
    "messaging.client.consumed.messages", "counter", "{message}", _SENT, "Jobs handed out to workers."
)
PROCESSED: Final = Metric(
    "messaging.process.duration", "histogram", "s", _SENT,
    "Attempts: from the pickup to the end of the hold on the job.", LONG_SECONDS,
)  # fmt: skip

METRICS: Final = (
    RENEWALS, AGE_RATIO, REMAINING, VIOLATIONS, CAUSES, HELD, OLDEST, TRANSITIONS, RETURNS, STALLED, ENFORCEMENT,
    UNRECOGNISED, GUESSED, NOSCRIPT, CONNECTIONS, INFLIGHT, OVERHEAD, BYTES, LOOP_LAG, BLINDED, FAULTS, RELOADS,
    RECORDS, DROPPED, SPANS, LINES_LOST, RESTARTS, BUILD, CALLS, OPERATIONS, SENT, CONSUMED, PROCESSED,
)  # fmt: skip
PROMETHEUS_NAMES: Final = tuple(metric.prometheus for metric in METRICS)
"""What alert rules and dashboards may name; a histogram's series end in `_bucket`, `_sum`, `_count`."""
