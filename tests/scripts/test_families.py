"""Every script of the protocol has a family, or is known to touch no job and no lock."""

from __future__ import annotations

from emqproxy.scripts import layouts
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.families import FAMILIES

READS = {
    "getCounts", "getCountsPerPriority", "getDependencyCounts", "getJobScheduler", "getJobs", "getMetrics", "getRanges",
    "getRateLimitTtl", "getState", "getStateV2", "isFinished", "isJobInList", "isMaxed", "paginate",
}  # fmt: skip
OF_NO_JOB = {"pause", "removeDeduplicationKey"}


def test_every_script_of_every_release_is_in_a_family_or_changes_nothing_of_a_job(catalogue: Catalogue) -> None:
    others = {script.name for script in catalogue} - set(FAMILIES)
    assert {name for name in others if not name.startswith("relay")} == READS | OF_NO_JOB


def test_every_family_has_layouts() -> None:
    assert {name for name, _ in layouts.load()} >= set(FAMILIES)
