"""What the OpenTelemetry SDK and its HTTP client would print: caught, and kept as one last reason.

The SDK logs each failed try, tracebacks among them. Whoever reports on the export asks here why it failed.
"""

from __future__ import annotations

import logging
from typing import Final

_LOGGERS: Final = ("opentelemetry", "urllib3", "requests")
_REASON_CHARS_MAX: Final = 120


class SdkLogs(logging.Handler):
    """The only handler of the SDK's loggers. Texts are not kept whole: they may name an URL with a key in it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0
        self.reason = ""
        """Why the last try failed, in a few words: `ConnectionError`, `Service Unavailable`."""

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        reason = _reason(record)
        if reason:
            self.reason = reason[:_REASON_CHARS_MAX]

    def install(self) -> None:
        """From here on, nothing of theirs reaches standard error."""
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            logger.handlers = [self]
            logger.propagate = False

    def remove(self) -> None:
        """For tests: as it was before."""
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            logger.handlers = []
            logger.propagate = True


def _reason(record: logging.LogRecord) -> str:
    """The exceptions' types and the short words among a message's arguments; the message where it has none."""
    if record.exc_info and record.exc_info[0]:
        return record.exc_info[0].__name__
    if not record.name.startswith("opentelemetry"):
        return ""
    arguments = record.args if isinstance(record.args, tuple) else ()
    words = [word for word in map(_word, arguments) if word]
    if words:
        return " ".join(words)
    return record.msg if not arguments and isinstance(record.msg, str) else ""


def _word(argument: object) -> str:
    if isinstance(argument, BaseException):
        return type(argument).__name__
    if isinstance(argument, int):
        return str(argument)
    if isinstance(argument, str) and argument not in ("spans", "Span") and "://" not in argument:
        return argument
    return ""
