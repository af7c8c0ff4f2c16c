"""What random sequences do not meet: very many jobs, and a time to live in its last millisecond."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.lua.calls import Call, Word, call, key, packed
from tests.lua.families import children_end, jobs_stall, moves_are_asked, next_is_fetched, places_are_taken
from tests.lua.play import UnequalError
from tests.lua.twins import Step, Twins

NOW_MS: Final = 1_700_000_000_000
LAST_MS: Final = """
local real = redis
local redis = { call = function(command, key, ...)
  if command == "PTTL" and real.call("EXISTS", key .. "#last") == 1 then
    return 0
  end
  return real.call(command, key, ...)
end }
"""
"""Stands before a text: a key that has a key `…#last` beside it is in its last millisecond."""


def _do(twins: Twins, *steps: Step) -> None:
    told = []
    for step in steps:
        outcome = twins.step(step)
        told.append(step.label)
        if outcome.differences:
            raise UnequalError(outcome.differences, told, [])


def _pick(token: str = "t", now_ms: int = NOW_MS, **opts: object) -> Call:
    told = {"token": token, "lockDuration": 100_000} | opts
    return call("moveToActive-11", "q", [key("q"), now_ms, packed(told)])


def _finish(job_id: str, now_ms: int = NOW_MS, token: str = "0", **opts: object) -> Call:
    told = {"token": token, "lockDuration": 100_000, "attempts": 1, "maxMetricsSize": "", "keepJobs": {"count": -1}}
    told |= opts
    argv: list[Word] = [job_id, now_ms, "returnvalue", "1", "completed", "1", key("q"), packed(told), ""]
    return call("moveToFinished-14", "q", argv, id=job_id, target="completed")


def _jobs(first: int, last: int, **fields: Word) -> list[tuple[Word, ...]]:
    flat = [word for pair in fields.items() for word in pair]
    return [("HSET", key("q", number), "name", "j", *flat) for number in range(first, last)]


def many_are_due(twins: Twins) -> None:
    """More delayed jobs than are promoted at once, some of them with a priority."""
    twins.fresh()
    due: list[Word] = []
    for number in range(1, 1_204):
        due += [(NOW_MS - 5_000 + number) * 4096, number]
    jobs = [*_jobs(1, 1_100, priority=0), *_jobs(1_100, 1_204, priority=3)]
    _do(
        twins,
        Step("1203 are due", [*jobs, ("ZADD", key("q", "delayed"), *due)], _pick()),
        Step("the rest is due", call=call("retryJob-11", "q", [key("q"), NOW_MS, "LPUSH", "1", "t", ""], id="1")),
        Step("finish", call=_finish("1")),
    )


def many_are_active(twins: Twins) -> None:
    """More active jobs than a command takes arguments from Lua."""
    twins.fresh()
    argv: list[Word] = [1, key("q"), NOW_MS, 120_000]
    sweep = call("moveStalledJobsToWait-8", "q", argv)
    ids = [f"x{number}" for number in range(7_005)]
    _do(
        twins,
        Step("sweep 7005", [("RPUSH", key("q", "active"), *ids)], sweep),
        Step("sweep again", [("DEL", key("q", "stalled-check"), key("q", "active"))], sweep),
    )


def minutes_without_a_job(twins: Twins) -> None:
    """More points of a metric than a command takes arguments from Lua."""
    twins.fresh()
    active = [*_jobs(1, 4), ("RPUSH", key("q", "active"), 1, 2, 3)]
    _do(
        twins,
        Step("the first", active, _finish("1", maxMetricsSize=20_000)),
        Step("9000 minutes later", call=_finish("2", NOW_MS + 9_000 * 60_000, maxMetricsSize=20_000)),
        Step("a minute later", call=_finish("3", NOW_MS + 9_001 * 60_000, maxMetricsSize=8_000)),
    )


def many_are_kept_no_longer(twins: Twins) -> None:
    """A keep rule that removes very many at once."""
    for keep in ({"count": 2}, {"age": 60}, {"age": 60, "limit": 10}, {"age": 60, "count": 5, "limit": 10}):
        twins.fresh()
        old: list[Word] = []
        for number in range(2, 1_500):
            old += [NOW_MS - 100_000 + number, number]
        jobs = [*_jobs(1, 1_500), ("RPUSH", key("q", "active"), 1), ("ZADD", key("q", "completed"), *old)]
        _do(twins, Step(f"keep {keep}", jobs, _finish("1", keepJobs=keep)))


def events_are_trimmed(twins: Twins) -> None:
    """A stream that is longer than it may be, and a queue that says nothing of how long."""
    for meta in ([], [("HSET", key("q", "meta"), "opts.maxLenEvents", 3)]):
        twins.fresh()
        long = [("XADD", key("q", "events"), "*", "event", f"old {number}") for number in range(10_010)]
        active = [*_jobs(1, 3), ("RPUSH", key("q", "active"), 1, 2)]
        sweep = call("moveStalledJobsToWait-8", "q", [1, key("q"), NOW_MS, 120_000])
        _do(twins, Step("finish", [*long, *meta, *active], _finish("1")), Step("sweep", long[:20], sweep))


def last_millisecond(twins: Twins) -> None:
    """Limiter and deduplication key as they end: Redis still shows them, with no time left."""
    limiter, once = key("q", "limiter"), key("q", "de:d")
    with twins.before_each_text(LAST_MS):
        twins.fresh()
        limit = {"max": 1, "duration": 150_000}
        ends: list[tuple[Word, ...]] = [("SET", limiter, 5), ("SET", f"{limiter}#last", 1)]
        jobs = [*_jobs(1, 9), ("RPUSH", key("q", "wait"), *range(1, 9))]
        again: list[tuple[Word, ...]] = [("SET", once, "other"), ("SET", f"{once}#last", 1)]
        put_back = call("moveJobFromActiveToWait-9", "q", ["2", "0", key("q", 2)])
        _do(
            twins,
            Step("pick", [*jobs, *ends], _pick(limiter=limit)),
            Step("finish and fetch", ends, _finish("8", token="t", limiter=limit)),
            Step("finish", [*again, ("HSET", key("q", 7), "deid", "d")], _finish("7", token="t")),
            Step("put back", [("LPUSH", key("q", "active"), 2)], put_back),
        )


DIRECTED: Final[tuple[Callable[[Twins], None], ...]] = (
    children_end, moves_are_asked, jobs_stall, next_is_fetched, places_are_taken, last_millisecond, many_are_due,
    many_are_active, minutes_without_a_job, many_are_kept_no_longer, events_are_trimmed,
)  # fmt: skip
