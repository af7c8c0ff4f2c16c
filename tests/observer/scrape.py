"""What /metrics says, read by Prometheus's own parser."""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from tests.processes import LOOPBACK, eventually


class Page:
    """One look at /metrics."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        self.families = {family.name for family in text_string_to_metric_families(text)}

    def by(self, name: str, *labels: str) -> Counter[tuple[str, ...]]:
        """A metric's numbers, by the values of these labels; what is 0 is left out."""
        found: Counter[tuple[str, ...]] = Counter()
        for sample in self.samples:
            if sample.name == name and sample.value:
                values = tuple(sample.labels.get(label, "") for label in labels)
                found[values] += sample.value  # type: ignore[assignment]
        return found

    def one(self, name: str) -> float:
        """The sum over all labels; 0 where there is nothing."""
        return sum(sample.value for sample in self.samples if sample.name == name)


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of one request to loopback; `Host` may be given."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def page(port: int) -> Page:
    status, body, _ = get(port, "/metrics")
    assert status == 200, body
    return Page(body.decode())


def page_with(port: int, found: Callable[[Page], object], timeout_s: float = 40.0) -> Page:
    """The first page that `found` is true of."""

    def look() -> Page | None:
        seen = page(port)
        return seen if found(seen) else None

    seen = eventually(look, timeout_s, "a page of /metrics")
    assert seen is not None
    return seen
