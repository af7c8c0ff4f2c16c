"""The SDK's words are kept as a short reason, without what an URL may hold; they reach no stream."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from emqproxy.observer.sdk_logs import SdkLogs


@pytest.fixture
def caught() -> Iterator[SdkLogs]:
    logs = SdkLogs()
    logs.install()
    yield logs
    logs.remove()


def test_reasons_are_types_codes_and_short_words(caught: SdkLogs, capfd: pytest.CaptureFixture[str]) -> None:
    sdk = logging.getLogger("opentelemetry.exporter.x")
    failure = ConnectionError("http://u:CANARY@host/v1/traces?key=CANARY")
    sdk.warning("Transient error %s encountered while exporting %s batch, retrying in %.2fs.", failure, "spans", 1.5)
    assert caught.reason == "ConnectionError"
    sdk.error("Failed to export %s batch code: %s, reason: %s", "spans", 401, "Unauthorized")
    assert caught.reason == "401 Unauthorized"
    sdk.error("Failed: %s", "http://u:CANARY@host/")
    assert "CANARY" not in caught.reason
    sdk.warning("word: %s", "x" * 5_000)
    assert len(caught.reason) <= 120
    assert caught.count == 4
    assert capfd.readouterr() == ("", "")


def test_a_traceback_is_its_type(caught: SdkLogs, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        raise RuntimeError("CANARY")
    except RuntimeError:
        logging.getLogger("opentelemetry.sdk").exception("Exception while exporting %s.", "Span")
    assert caught.reason == "RuntimeError"
    assert capfd.readouterr() == ("", "")


def test_the_http_clients_own_warnings_give_no_reason(caught: SdkLogs) -> None:
    logging.getLogger("urllib3.connectionpool").warning("Retrying %s after connection broken by %s", "x", "CANARY")
    assert (caught.count, caught.reason) == (1, "")
