"""All that belongs to metrics, in one piece: what counts, where it goes, and the listener that is asked for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from emqproxy.observer.admin import Admin, Ready
from emqproxy.observer.metrics import Metrics
from emqproxy.observer.metrics_export import MetricsExport
from emqproxy.observer.metrics_reading import Reader
from emqproxy.observer.otlp import Telemetry
from emqproxy.records import Anchor, Hello, Message


class MetricsService:
    """One consumer of messages. `lines_lost`: what the journal could not write."""

    def __init__(
        self,
        hello: Hello,
        telemetry: Telemetry,
        lines_lost: Callable[[], int],
        jobs: Callable[[str, int], bytes | None] = lambda _key, _db: None,
    ) -> None:
        """`jobs`: what the listener tells of a job, by its key and its database."""
        settings, self._telemetry = hello.settings, telemetry
        self._metrics = Metrics(settings.mode)
        reader = Reader(hello, self._metrics, self._spans, lines_lost)
        self._export = MetricsExport(hello, reader, scraped=bool(settings.admin_host))
        self._admin: Admin | None = None
        if settings.admin_host:
            self._admin = Admin(settings.admin_host, settings.admin_port, self._export.text, self._ready, jobs)
            self._admin.start()
        self._count = self._metrics.on if self._export.on else self._metrics.on_gauges
        """Nothing is counted that nobody may ask for."""

    def on(self, message: Message) -> None:
        """Counts it; at each heartbeat, looks after what is pushed."""
        self._count(message)
        if isinstance(message, Anchor):
            self._export.look(message.monotonic_ns)

    def shutdown(self) -> None:
        """Pushes a last time; may take long where the collector is down. Call it in a thread that may be left."""
        self._export.shutdown()

    def close(self) -> None:
        """Ends the listener."""
        if self._admin is not None:
            self._admin.close()

    def _spans(self) -> Mapping[str, int]:
        queues = self._telemetry.queues
        return {
            "exported": sum(queue.tally.exported for queue in queues),
            "failed": sum(queue.tally.failed for queue in queues),
            "dropped": sum(queue.dropped for queue in queues),
            "shed": self._telemetry.shed,
        }

    def _ready(self) -> Ready | None:
        silent_s, gauges = self._metrics.silent_s, self._metrics.gauges
        if silent_s is None or gauges is None:
            return None
        return Ready(silent_s, gauges.ready, gauges.ready_body)
