"""What the data plane tells the observer: values only, one way, msgpack.

A `Record` is one journal line: a fact, the verdict on it, and where it was seen. Everything the observer knows comes
through these types; it never sees a byte of traffic.

Framing on the pipe: a batch is a 4-byte big-endian length and the msgpack of `list[Message]`. Structs cross as arrays
(both ends are of one release), which takes half the bytes and a third of the time.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from emqproxy.locks.events import AnyFact, AnyIntent, Instant, Window
from emqproxy.locks.evictions import Memory
from emqproxy.locks.verdicts import Attempt, Verdict


class Anchor(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Every heartbeat (1 s), and first of all: one instant on both clocks, so that spans and journal agree."""

    monotonic_ns: int
    wall_ns: int
    """Unix nanoseconds."""
    dropped: int
    """Records that the data plane could not hand over so far."""
    seq: int
    """The last number given to a record."""


class ObserverSettings(msgspec.Struct, frozen=True, array_like=True):
    """What the observer is configured with; it goes over the pipe, so that no secret stands in an environment.

    Everything `OTEL_*` is read by the observer from its own environment.
    """

    namespace: str = ""
    token: Literal["fingerprint", "raw", "off"] = "fingerprint"  # noqa: S105  a policy's name
    token_key: str = ""
    renewals_per_attempt: int = 32
    journal: str = ""
    """A file's path, `-` for standard output, empty for none."""
    journal_max_bytes: int = 0
    """Above 0: rotate, keep one."""
    log_level: str = "info"
    admin_host: str = ""
    """Where /metrics is served; empty for nowhere."""
    admin_port: int = 0
    mode: str = "observe"
    """Under which records come from here on; a label of what was decided."""
    late: float = 0.60
    critical: float = 0.80
    sole_path: bool = False
    locks: int = 50_000
    """By which verdicts are made: for whoever judges the journal again."""
    began_ns: Instant = 0
    """Since when anything is seen."""


class Hello(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The first message after a start or restart of the observer."""

    run: str
    """uuid of the data plane's process."""
    version: str
    server_address: str
    """The upstream: a host, or a socket's path."""
    server_port: int | None
    restarts: int
    """How often the observer was started before in this run."""
    settings: ObserverSettings


class Snapshot(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The attempts still open, sent on connecting: a restarted observer loses only what was dropped meanwhile."""

    attempts: tuple[Attempt, ...]


class CallSite(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The call that an answer belongs to."""

    command: str
    """`EVALSHA` or `EVAL`, upper case."""
    script: str
    """`moveToFinished-14`."""
    sha: str
    match: str
    releases: str


class Peer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The client connection."""

    conn: int
    client: str
    """Its address, `127.0.0.1:51234`, or `unix:7`."""
    client_name: str | None
    """What it gave in CLIENT SETNAME or HELLO."""


class JobFields(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What of a granted job's hash may be told: never its data."""

    name: str | None = None
    attempts_made: int | None = None
    attempts_started: int | None = None
    stalled_count: int | None = None
    timestamp: int | None = None
    """The job's own creation time, Unix milliseconds."""
    trace_context: dict[str, str] | None = None
    """The producer's carrier (`traceparent`, `tracestate`), from `opts.tm`; None where absent, omitted or malformed."""
    parent_key: str | None = None
    doomed: bool = False
    """It was stalled too often, and whoever takes it fails it (`defa`)."""


class Line(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The journal's words for one thing that happened to one job (CONTRACT, "Journal"); the fact says the rest."""

    op: str
    outcome: str
    """`ok`, `refused`, `error`, `unknown`, `told`; `blocked`: refused by us, and `code` is what its client got."""
    target: str | None = None
    code: int | None = None
    code_name: str | None = None
    delay_ms: int | None = None
    batch_size: int | None = None
    """Of a batch renewal or a sweep: how many ids it named."""
    fetched: bool = False
    """An acquire that rode on a finish or a delay."""
    job: JobFields | None = None
    interval_ms: int | None = None
    """A sweep: how often its caller sweeps, as the call says."""


class FactBeside(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A fact that has no line of its own, and bears on what is found later."""

    fact: AnyFact
    turn: int
    """As in `Record`."""
    intent: AnyIntent | None = None
    """What it answers; None where nothing was asked."""
    sent_ns: Instant = 0
    asked: int = 0
    queued_ns: Instant = 0


class Record(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """One line of the journal, and what spans and metrics are made of."""

    seq: int
    """Given in the data plane to every line, dropped or not: a gap is what was dropped."""
    line: Line
    verdict: Verdict
    """The fact in it carries place, window, lock, queue and token."""
    peer: Peer | None
    call: CallSite | None
    """None where no call was made: a lapse, a connection gone blind."""
    reason: str | None = None
    """Of a connection gone blind: why, in words."""
    lag_ns: int = 0
    """The data plane's loop lag at that moment."""
    action: str = ""
    """`passed`, `would_block`, `blocked`; empty where nothing was decided: in observe mode, or where no call was."""
    rule: str | None = None
    """Which rule the call breaks, where it does not just pass."""
    idle_ms: float | None = None
    """How long all of its worker's connections had been silent before the call came; None where it names no token."""
    burst: int = 0
    """So many calls of its worker arrived within 5 ms of it, itself among them; 0 where nobody counted."""
    cause: str | None = None
    """Why, as an id of CONTRACT's closed list, where the line needs one."""
    because: str | None = None
    """The cause in one sentence, with its figures."""
    evidence: tuple[int, ...] = ()
    """The numbers of the lines it rests on."""
    sent_ns: Instant = 0
    """From when its age is measured: `opened` less our own lag at that moment; 0 where it is `opened`."""
    pauses: tuple[Window, ...] = ()
    """When we stood still since the record before."""
    besides: tuple[FactBeside, ...] = ()
    """Facts since the record before that have none of their own, and bear on what is found later."""
    memory: tuple[Memory, ...] = ()
    """What is new of what Redis said of its memory since the record before."""
    turn: int = 0
    """When its fact was weighed: all that the ledger was asked and told is counted, in its order."""
    asked: int = 0
    """At which turn its call was asked; 0 where none was."""
    queued_ns: Instant = 0
    """Of a call inside MULTI: its `sent_ns` until EXEC came."""
    paused_at: tuple[int, ...] = ()
    """After which turn each of `pauses` was known."""


class AttemptOver(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """An attempt ended without a line of its own: its holder's connection closed after its deadline. No `seq`."""

    attempt: Attempt


class Spread(msgspec.Struct, frozen=True, array_like=True):
    """How often something took how long, since the data plane began."""

    counts: tuple[int, ...]
    """One for each bound, up to and with it, and one for what is above the last."""
    sum_ns: int


class Calls(msgspec.Struct, frozen=True, array_like=True):
    """How long the calls of one script took."""

    command: str
    script: str
    """Empty for a command that is none."""
    error: str
    """The prefix of Redis's error; empty for none."""
    took: Spread


class Gauges(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Each second: the data plane's own figures. Counts are since it began."""

    ready: bool
    ready_body: str
    """What /readyz says, as JSON."""
    clients: int
    """Connections that are open, as `servers`."""
    servers: int
    inflight: int
    """Recognised calls whose answer is out."""
    to_server_bytes: int
    to_client_bytes: int
    noscripts: int
    unrecognised: int
    guessed: int
    faults: int
    reloads_ok: int
    reloads_failed: int
    overhead: Spread
    loop_lag: Spread
    calls: tuple[Calls, ...]


class Backlog(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Whether the observer is too slow, and is to tell only what matters most; said when it changes."""

    waiting: int
    """Messages behind this one; 0: it need not hurry any more."""


Message: TypeAlias = Hello | Anchor | Gauges | Snapshot | Record | AttemptOver | Backlog
LENGTH_BYTES: Final = 4
OVERHEAD_BOUNDS_NS: Final = tuple(1_000 * us for us in (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000))
LAG_BOUNDS_NS: Final = tuple(1_000_000 * ms for ms in (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000))
CALL_BOUNDS_NS: Final = tuple(1_000_000 * ms for ms in (1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000))
"""What `Gauges` spreads over; both ends are of one release."""
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""A batch longer than this is not ours: the reader of the pipe ends instead of allocating."""
