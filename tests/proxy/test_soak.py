"""The short form of tests/long/soak.py, and that it sees what does not end where it began."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.long.soak import Load, Sample, play, uneven

SAMPLE = Sample(
    clients=208, descriptors=440, tasks=4, rss_mib=80.0, observer_descriptors=8, observer_rss_mib=50.0
)  # fmt: skip


def test_under_faults_everything_ends_where_it_began() -> None:
    load = Load(seconds=6, warm_s=4, node=1, workers=6, python=1, jobs_per_s=20, rest_s=1.0, rss_share_max=0.5)
    report = play(load)
    assert report.faults == [], str(report)
    assert report.answers > 1000, str(report)
    assert report.lost > 0, str(report)
    assert all(done > 0 for _, done, _ in report.jobs.values()), str(report)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"descriptors": 470}, "descriptors"),
        ({"tasks": 9}, "tasks"),
        ({"rss_mib": 84.5}, "rss_mib"),
        ({"observer_rss_mib": 53.0}, "observer_rss_mib"),
        ({"observer_descriptors": 12}, "observer_descriptors"),
        ({"rss_mib": 60.0, "descriptors": 441, "tasks": 3}, None),
        ({"clients": 218, "descriptors": 460}, None),
        ({"clients": 188}, "descriptors"),
    ],
)
def test_what_grew_is_seen(change: dict[str, float], name: str | None) -> None:
    assert [found for found, _ in uneven(SAMPLE, replace(SAMPLE, **change), 0.05)] == ([name] if name else [])
