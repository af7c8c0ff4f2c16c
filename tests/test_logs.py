"""Log lines: their form, other libraries' lines, the limiter, and that a broken stream hurts nobody."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from emqproxy import logs

MINUTE = logs.PERIOD_NS


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    logs.configure("info", stream)
    yield stream
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = handlers
    logging.captureWarnings(False)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_and_says_when(stream: io.StringIO) -> None:
    logs.get(conn=3).info("listening", url="tcp://127.0.0.1:1", odd=b"\xff")
    (line,) = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("ts"))
    assert line == {"level": "info", "event": "listening", "conn": 3, "url": "tcp://127.0.0.1:1", "odd": "b'\\xff'"}
    assert list(json.loads(stream.getvalue()))[:3] == ["ts", "level", "event"]


def test_a_level_bounds_what_is_said(stream: io.StringIO) -> None:
    log = logs.get()
    log.debug("not said")
    log.warning("said")
    logs.configure("error", stream)
    log.warning("not said")
    log.error("said too")
    assert [line["event"] for line in lines(stream)] == ["said", "said too"]


def test_an_exception_is_one_line_without_local_variables(stream: io.StringIO) -> None:
    token = "CANARY"
    for out in (stream, terminal := Terminal()):
        logs.configure("info", out)
        try:
            _ = len(token) / 0
        except ZeroDivisionError:
            logs.get().error("a fault of ours", exc_info=True)
    assert "ZeroDivisionError" in lines(stream)[0]["exception"]
    assert "ZeroDivisionError" in terminal.getvalue()
    assert "CANARY" not in stream.getvalue() + terminal.getvalue()


def test_a_terminal_gets_the_console_form(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    logs.configure("info", terminal := Terminal())
    logs.get().info("listening", url="here")
    assert re.search(r"\[info +\] listening +url=here", terminal.getvalue())
    assert "\x1b" not in terminal.getvalue()
    assert stream.getvalue() == ""


def test_other_libraries_speak_in_our_form_from_warnings_on(stream: io.StringIO) -> None:
    other = logging.getLogger("some.library")
    other.info("not said")
    other.warning("cannot reach %s", "it")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("mind this", stacklevel=1)
    first, second = lines(stream)
    assert (first["level"], first["event"], first["logger"]) == ("warning", "cannot reach it", "some.library")
    assert "mind this" in second["event"]


def test_other_libraries_say_a_thing_once_a_minute(stream: io.StringIO) -> None:
    for attempt in range(5):
        logging.getLogger("some.library").warning("attempt %d failed", attempt)
    logging.getLogger("some.library").error("attempt %d failed", 9)
    assert [line["event"] for line in lines(stream)] == ["attempt 0 failed", "attempt 9 failed"]


def test_configured_twice_it_says_each_line_once(stream: io.StringIO) -> None:
    logs.configure("info", stream)
    logging.getLogger("x").warning("once")
    logs.get().info("once too")
    assert len(lines(stream)) == 2


def test_a_stream_that_is_gone_raises_nothing(stream: io.StringIO) -> None:
    log = logs.get()
    stream.close()
    log.error("nobody hears")
    logging.getLogger("x").error("nobody hears %s")


def test_a_full_disk_raises_nothing(stream: io.StringIO) -> None:
    log = logs.get()
    full = open("/dev/full", "w")  # noqa: SIM115  closing it raises what is tested here
    logs.configure("info", full)
    log.error("no room")
    with pytest.raises(OSError, match="No space left"):
        full.close()


def test_a_library_s_malformed_line_is_dropped(stream: io.StringIO) -> None:
    (ours,) = [handler for handler in logging.getLogger().handlers if isinstance(handler, logs._Forwarding)]
    ours.handle(logging.LogRecord("x", logging.ERROR, "", 1, "too few %s %s", (1,), None))
    assert stream.getvalue() == ""


def test_limited_by_kind_and_time(stream: io.StringIO) -> None:
    limited = logs.RateLimited(logs.get())
    assert limited.warning("upstream is down", now=0, url="a")
    assert not limited.warning("upstream is down", now=1, url="b")
    assert not limited.warning("upstream is down", now=MINUTE - 1, url="c")
    assert limited.warning("another thing", now=2)
    assert limited.info("upstream is down", key=("down", 7), now=3)
    assert limited.warning("upstream is down", now=MINUTE, url="d")
    assert limited.error("upstream is down", now=2 * MINUTE, url="e")
    said = [(line["level"], line.get("url"), line.get("suppressed")) for line in lines(stream)]
    assert said == [
        ("warning", "a", None),
        ("warning", None, None),
        ("info", None, None),
        ("warning", "d", 2),
        ("error", "e", None),
    ]


def test_the_limiter_remembers_a_bounded_number_of_kinds() -> None:
    limited = logs.RateLimited(logs.get())
    for kind in range(logs.KEYS_MAX + 1):
        assert limited.admit(kind, now=kind) == 0
    assert limited.admit(1, now=logs.KEYS_MAX) is None  # still remembered
    assert limited.admit(0, now=logs.KEYS_MAX) == 0  # the longest silent was forgotten
