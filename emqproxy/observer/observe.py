"""The observer's one loop: every consumer is told of a batch's messages, one consumer after the other.

The journal comes first: where records come faster than they can be told, spans are shed before a line is lost. A fault
of one consumer is counted and stays its own (`faults.Guard`).
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from emqproxy import logs
from emqproxy.observer.alerts import Alerts
from emqproxy.observer.board import Board
from emqproxy.observer.faults import Guard
from emqproxy.observer.inbox import Inbox
from emqproxy.observer.journal import Journal
from emqproxy.observer.journal_entry import Entries
from emqproxy.observer.journal_file import JournalFile
from emqproxy.observer.metrics_service import MetricsService
from emqproxy.observer.otlp import telemetry
from emqproxy.observer.recent import Recent
from emqproxy.observer.spans import Spans
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import Anchor, Backlog, Hello, Message

_COLLECT_AFTER: Final = 20_000
"""Objects made and not let go of again."""
NICENESS: Final = 10
FLUSH_S: Final = 3.0
"""How long the last spans may take; the SDK's own shutdown takes 30 s where the collector is down."""


class _Consumer(NamedTuple):
    guard: Guard
    on: Callable[[Message], None]
    after: Callable[[], None] | None
    """When it has been told of a batch, or of the part of it between two anchors."""


class Observer:
    """Everything that listens, made from the first message. Call `on_batch` for each batch, `close` at the end."""

    def __init__(self, hello: Hello, console: TextIO) -> None:
        settings = hello.settings
        tokens = Tokens(settings.token, settings.token_key)
        self._console = console
        self._timeline = Timeline()
        self._telemetry = telemetry(hello, console)
        self._log = logs.RateLimited(logs.get())
        self._dropped = 0
        self._consumers: list[_Consumer] = []
        self._journal: Journal | None = None
        self._spans: Spans | None = None
        if settings.journal:
            file = JournalFile(settings.journal, settings.journal_max_bytes)
            self._journal = Journal(hello.run, self._timeline, tokens, file, settings)
            self._listen("journal", self._journal.on, self._journal.flush)
        if self._telemetry.emitter is not None:
            self._spans = Spans(hello, self._timeline, tokens, Board(self._timeline), self._telemetry.emitter)
            self._listen("spans", self._spans.on)
        self._listen("alerts", Alerts(tokens, settings.namespace).on)
        recent = Recent(Entries(hello.run, self._timeline, tokens))
        if settings.admin_host:  # nothing is kept that nobody may ask for
            self._listen("recent", recent.on)
        self._metrics = MetricsService(
            hello, self._telemetry, lambda: self._journal.lost if self._journal else 0, recent.page
        )
        self._listen("metrics", self._metrics.on)
        self._listen("telemetry", self._look)
        self._listen("settings", self._change)
        if settings.token == "raw":  # noqa: S105  a policy's name
            logs.get().warning("lock tokens are told raw: whoever reads them may finish these jobs")

    def on_batch(self, batch: list[Message]) -> None:
        """Tells every consumer of every message, in order; the journal's lines are written first."""
        emitter = self._telemetry.emitter
        if emitter is not None and batch and isinstance(batch[0], Backlog):  # it stands alone
            emitter.shedding = batch[0].waiting > 0
        begun = 0
        if Anchor in map(type, batch):
            for place, message in enumerate(batch):
                if isinstance(message, Anchor):  # what was told before it happened by the anchor before
                    self._tell(batch[begun:place])
                    self._timeline.anchor(message)
                    begun = place
        self._tell(batch[begun:])

    def _tell(self, messages: list[Message]) -> None:
        for consumer in self._consumers:
            consumer.guard.each(consumer.on, messages)
            if consumer.after is not None:
                consumer.guard.call(consumer.after)

    def _listen(self, name: str, on: Callable[[Message], None], after: Callable[[], None] | None = None) -> None:
        self._consumers.append(_Consumer(Guard(name), on, after))

    def close(self) -> None:
        """Writes and delivers what is left; takes at most `FLUSH_S`."""
        if self._journal is not None:
            Guard("journal").call(self._journal.close)
            if self._journal.lost or self._journal.missing:
                lost, missing = self._journal.lost, self._journal.missing
                logs.get().warning("the journal of this run is not whole", lost=lost, missing=missing)
        if self._spans is not None:
            Guard("spans").call(self._spans.close)
        ends_at = time.monotonic() + FLUSH_S
        last = [_beside("telemetry", self._telemetry.shutdown), _beside("metrics", self._metrics.shutdown)]
        for thread in last:
            thread.join(max(0.0, ends_at - time.monotonic()))
        self._telemetry.farewell()
        self._metrics.close()

    def _change(self, message: Message) -> None:
        """A Hello while we run: the configuration was read again. What of it can change changes; the file is opened
        anew in any case."""
        if not isinstance(message, Hello):
            return
        settings = message.settings
        logs.configure(settings.log_level, self._console)
        if self._spans is not None:
            self._spans.renewals_max = settings.renewals_per_attempt
        if self._journal is not None:
            self._journal.use(settings)

    def _look(self, message: Message) -> None:
        """At each heartbeat: are records or spans being lost?"""
        if not isinstance(message, Anchor):
            return
        self._telemetry.look()
        if message.dropped > self._dropped:
            self._dropped = message.dropped
            now, dropped = message.monotonic_ns, message.dropped
            self._log.warning("records were dropped on the way to the observer", now=now, dropped=dropped)


def observe(fd: int) -> int:
    """Reads until the pipe closes, then flushes. The exit code: 0, or 2 if the pipe did not open with a Hello."""
    inbox = Inbox(fd)
    batches = inbox.batches()
    first = next(batches, [])
    if not first or not isinstance(first[0], Hello):
        return 0 if inbox.why == "eof" else 2
    hello = first[0]
    stream = sys.stderr if hello.settings.journal == "-" else sys.stdout
    logs.configure(hello.settings.log_level, stream)
    observer = Observer(hello, stream)
    collect_less()
    give_way()
    for batch in _after(first, batches):
        observer.on_batch(batch)
    if inbox.why != "eof" or inbox.undecodable:
        logs.get().warning("the pipe ended badly", why=inbox.why, undecodable=inbox.undecodable)
    observer.close()
    return 0


def collect_less() -> None:
    """Records hold no cycles, and all of them are let go of soon: the collector has next to nothing to find."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


def give_way() -> None:
    """From now on the processor is others' first: of one that two want, we get a tenth.

    Linux shares first between sessions, of which we are one, and then within them; each has its own niceness. Where we
    are only a part of another's session, its other processes are not ours to slow down.
    """
    try:
        os.nice(NICENESS)
        if os.getsid(0) == os.getpid():
            Path("/proc/self/autogroup").write_text(str(NICENESS))
    except OSError:
        pass  # neither is needed


def _after(first: list[Message], rest: Iterator[list[Message]]) -> Iterator[list[Message]]:
    yield first[1:]
    yield from rest


def _beside(name: str, act: Callable[[], None]) -> threading.Thread:
    """Does it in a thread that may be left."""
    thread = threading.Thread(target=Guard(name).call, args=(act,), name=f"last {name}", daemon=True)
    thread.start()
    return thread
