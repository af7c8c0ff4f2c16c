"""What is said to the operator: JSON lines, or a console form on a terminal. Shared by both processes and the CLI.

Knows no part of the house. A log line is never worth a fault: where the stream is gone or its disk is full, the line
is dropped. Nothing here prints local variables: they may hold a token.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final, Protocol, TextIO

import structlog

PERIOD_NS: Final = 60_000_000_000
KEYS_MAX: Final = 1_024
"""Kinds of lines remembered by one limiter; the longest silent is forgotten first."""

LEVELS: Final[Mapping[str, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log(Protocol):
    """What the house uses of a structlog logger. `event` is a short sentence, the figures are fields."""

    def debug(self, event: str, **fields: object) -> object: ...
    def info(self, event: str, **fields: object) -> object: ...
    def warning(self, event: str, **fields: object) -> object: ...
    def error(self, event: str, **fields: object) -> object: ...


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Sends every log line of this process to `stream` (standard output). Again: replaces what was configured.

    Other libraries' warnings and errors come through the same form, one a minute of each kind.
    """
    stream = stream or sys.stdout
    sink = _Sink(stream)
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.StackInfoRenderer(),
    ]
    render = _console(stream) if stream.isatty() else _json()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: _Lines(sink),
        cache_logger_on_first_use=False,
    )
    handler = _Forwarding(sink)
    handler.addFilter(_OncePerPeriod())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Forwarding)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)


def get(**fields: object) -> Log:
    """A logger; `fields` stand on each of its lines. May be called before `configure`."""
    log: Log = structlog.get_logger(**fields)
    return log


class RateLimited:
    """Says one line of a kind per period; the next one tells how many were held back (`suppressed`)."""

    def __init__(self, log: Log, period_ns: int = PERIOD_NS) -> None:
        self._log = log
        self._period_ns = period_ns
        self._kinds: dict[object, tuple[int, int]] = {}
        """Kind → (instant of its last line, lines held back since). In the order of the last line."""

    def info(self, event: str, *, now: int, key: object = None, **fields: object) -> bool:
        """As `warning`."""
        return self._say("info", event, now, key, fields)

    def warning(self, event: str, *, now: int, key: object = None, **fields: object) -> bool:
        """`now` in monotonic nanoseconds; `key` tells kinds apart, `event` does where it is None. True: it was said."""
        return self._say("warning", event, now, key, fields)

    def error(self, event: str, *, now: int, key: object = None, **fields: object) -> bool:
        """As `warning`."""
        return self._say("error", event, now, key, fields)

    def _say(self, level: str, event: str, now: int, key: object, fields: dict[str, object]) -> bool:
        suppressed = self.admit(event if key is None else key, now)
        if suppressed is None:
            return False
        if suppressed:
            fields = {**fields, "suppressed": suppressed}
        getattr(self._log, level)(event, **fields)  # not sooner: the logger makes the method anew at each look-up
        return True

    def admit(self, key: object, now: int) -> int | None:
        """How many of this kind were held back since its last line; None where this one is held back too."""
        said_at, held = self._kinds.get(key, (None, 0))
        if said_at is not None and now - said_at < self._period_ns:
            self._kinds[key] = (said_at, held + 1)
            return None
        self._kinds.pop(key, None)
        if len(self._kinds) >= KEYS_MAX:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[key] = (now, 0)
        return held


# ---------------------------------------------------------------- forms


def _json() -> list[structlog.typing.Processor]:
    return [
        structlog.processors.format_exc_info,
        _in_order,
        structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
    ]


def _in_order(_: object, __: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    first = {name: fields.pop(name) for name in ("ts", "level", "event") if name in fields}
    return {**first, **fields}


def _console(stream: TextIO) -> list[structlog.typing.Processor]:
    colors = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return [
        structlog.dev.ConsoleRenderer(
            colors=colors and stream.isatty(), timestamp_key="ts", exception_formatter=structlog.dev.plain_traceback
        )
    ]


# ---------------------------------------------------------------- the way out


class _Sink:
    """The stream, which may be gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # a closed pipe, a full disk, a closed file, a lone surrogate
            return


class _Lines:
    """What structlog hands a rendered line to."""

    def __init__(self, sink: _Sink) -> None:
        self.msg = self.debug = self.info = self.warning = self.error = self.critical = sink.write


class _Forwarding(logging.Handler):
    """Other libraries' log lines."""

    def __init__(self, sink: _Sink) -> None:
        super().__init__(logging.WARNING)
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._sink.write(self.format(record))
        except Exception:  # noqa: BLE001  a library's own malformed line must not become our fault
            return


class _OncePerPeriod(logging.Filter):
    """A library that cannot reach its peer says so on each attempt; once a minute is enough."""

    def __init__(self) -> None:
        super().__init__()
        self._limiter = RateLimited(get())

    def filter(self, record: logging.LogRecord) -> bool:
        kind = (record.name, record.levelno, record.msg)
        return self._limiter.admit(kind, int(record.created * 1e9)) is not None
