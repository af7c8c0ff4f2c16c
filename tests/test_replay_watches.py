"""What only time tells, from a journal's lines: due at its own instants, once, and counted where no line tells it."""

from __future__ import annotations

from msgspec.structs import replace

from emqproxy.journal_lines import JournalLine
from emqproxy.observer.journal_replay import Replay
from emqproxy.replay_facts import note_of
from emqproxy.replay_watches import WatchesAgain

S = 10**9


def line(op: str, effect: str, at_s: float, job: str | None = "1", **more: object) -> JournalLine:
    at = int(at_s * S)
    outcome = "told" if op in {"lapse", "watch"} else "ok"
    made = JournalLine(1, "r", 1, "2026-11-30T00:53:20Z", op, outcome, at, at, effect)
    made = replace(made, db=0, prefix="emq", queue="q", job=job, token="t", conn=1, ttl_ms=30_000)
    return replace(made, **more)


def sweep(at_s: float, interval_ms: int | None) -> JournalLine:
    return line("sweep", "nothing", at_s, job=None, replay=Replay(interval_ms=interval_ms))


def told(*lines: JournalLine) -> tuple[list[str], list[str]]:
    """Of each `watch` line what is due; and what no line told."""
    watches = WatchesAgain()
    found = [(each, watches.line(each, note_of(each, None))) for each in lines]
    assert all(each.op == "watch" or due is None for each, due in found)
    causes = [due.cause if due is not None else "none" for each, due in found if each.op == "watch"]
    return causes, [untold.cause for untold in watches.untold]


def watch(at_s: float, job: str | None = "1") -> JournalLine:
    return line("watch", "untouched", at_s, job=job)


def test_at_its_own_instant_and_once() -> None:
    lapsed = line("lapse", "lapsed", 30)
    assert told(lapsed, watch(89), watch(91), watch(92)) == (["none", "no_sweeper", "none"], [])


def test_the_interval_stands_in_the_journal() -> None:
    lapsed = line("lapse", "lapsed", 30)
    assert told(sweep(1, 100_000), lapsed, watch(229), watch(231)) == (["none", "no_sweeper"], [])
    assert told(sweep(1, None), lapsed, watch(91)) == (["no_sweeper"], [])


def test_a_watch_line_of_another_job_tells_nothing_of_this_one() -> None:
    lapsed = line("lapse", "lapsed", 30)
    assert told(lapsed, watch(91, "2"), watch(91, None)) == (["none", "none"], ["no_sweeper"])


def test_a_job_that_is_only_renewed() -> None:
    taken = line("acquire", "granted", 0)
    renewals = [line("renew", "renewed", at) for at in range(10, 901, 10)]
    assert told(taken, *renewals, watch(905)) == (["hung_processor"], [])


def test_what_was_due_for_long_and_no_line_told_is_counted() -> None:
    lapsed = line("lapse", "lapsed", 30)
    assert told(lapsed, line("write", "untouched", 119, "2")) == ([], [])
    assert told(lapsed, line("write", "untouched", 121, "2")) == ([], ["no_sweeper"])
    assert told(lapsed, line("write", "untouched", 121, "2"), watch(122)) == (["no_sweeper"], []), "told late"
    assert told(lapsed, line("acquire", "granted", 119), line("write", "untouched", 200, "2")) == ([], [])
