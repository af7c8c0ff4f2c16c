"""A table played from end to end: what a child's end means for a parent in each state, and what a move says to whom."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Final

from tests.lua.calls import Call, Word, call, key, packed
from tests.lua.play import UnequalError
from tests.lua.twins import LANES, Step, Twins

NOW_MS: Final = 1_700_000_000_000
PARENT, CHILD, OTHER = key("p", "top"), key("q", "1"), key("q", "2")
WAITS: Final[tuple[Word, ...]] = ("ZADD", key("p", "waiting-children"), 5, "top")
STATES: Final[dict[str, list[tuple[Word, ...]]]] = {
    "waiting-children": [WAITS],
    "delayed": [("ZADD", key("p", "delayed"), 5, "top")],
    "failed": [("ZADD", key("p", "failed"), 5, "top")],
    "active": [("LPUSH", key("p", "active"), "top")],
    "gone": [WAITS, ("DEL", PARENT)],
    "paused": [WAITS, ("HSET", key("p", "meta"), "paused", 1)],
    "maxed": [WAITS, ("HSET", key("p", "meta"), "concurrency", 1), ("LPUSH", key("p", "active"), "x")],
    "of a priority": [WAITS, ("HSET", PARENT, "priority", 3)],
    "to be delayed": [WAITS, ("HSET", PARENT, "delay", 7_000)],
}
FATES: Final = ("fpof", "cpof", "idof", "rdof", "", "only its key")


def children_end(twins: Twins) -> None:
    _play(twins, _children_end())


def _children_end() -> Iterator[Step]:
    """One of one child, one of two, one of nobody, with each fate, in each state of the parent; kept or removed."""
    for (state, setting), fate, more, target, keep in itertools.product(
        STATES.items(), FATES, ("no other", "another", "none"), ("failed", "completed"), (-1, 0)
    ):
        link = {"id": "top", "queueKey": key("p")[:-1]} | ({fate: True} if fate in FATES[:4] else {})
        child: list[Word] = ["HSET", CHILD, "name", "j", "defa", "late", "parentKey", PARENT]
        pending = {"no other": [CHILD], "another": [CHILD, OTHER], "none": [OTHER]}[more]
        if fate != FATES[-1]:
            child += ["parent", json.dumps(link)]
        before: list[tuple[Word, ...]] = [
            tuple(child), ("RPUSH", key("q", "active"), 1), ("HSET", PARENT, "name", "top"),
            ("SADD", f"{PARENT}:dependencies", *pending), *setting,
        ]  # fmt: skip
        opts = {"token": "0", "attempts": 1, "maxMetricsSize": "", "keepJobs": {"count": keep}}
        field = "failedReason" if target == "failed" else "returnvalue"
        argv: list[Word] = ["1", NOW_MS, field, "v", target, "0", key("q"), packed(opts), ""]
        label = f"child {target}, {fate or 'no fate'}, parent {state}, keep {keep}, {more} pending"
        yield Step(label, before, call("moveToFinished-14", "q", argv, id="1", target=target))


def moves_are_asked(twins: Twins) -> None:
    _play(twins, _moves_are_asked())


def _moves_are_asked() -> Iterator[Step]:
    """Each move, of a job that is there or not, active or not, with each kind of lock, children and setting."""
    for job, active, lock, child, setting in itertools.product(
        (True, False), (True, False), ("t", "other", ""), ("", "pending", "failed"), ("", "paused", "priority", "maxed")
    ):
        before: list[tuple[Word, ...]] = [("SADD", key("q", "stalled"), 1, 2), ("LPUSH", key("q", "active"), 2)]
        before += [("HSET", CHILD, "name", "j", "delay", 5)] if job else []
        before += [("LPUSH", key("q", "active"), 1)] if active else []
        before += [("SET", f"{CHILD}:lock", lock, "PX", 300_000)] if lock else []
        before += [("SADD", f"{CHILD}:dependencies", OTHER)] if child == "pending" else []
        before += [("ZADD", f"{CHILD}:unsuccessful", 5, OTHER)] if child == "failed" else []
        before += {
            "": [], "paused": [("HSET", key("q", "meta"), "paused", 1)], "priority": [("HSET", CHILD, "priority", 2)],
            "maxed": [("HSET", key("q", "meta"), "concurrency", 1)],
        }[setting]  # fmt: skip
        if setting == "priority" and not job:
            continue
        for name, asked in _moves("t" if lock != "" else "gone").items():
            label = f"{name}, job {job}, active {active}, lock {lock!r}, child {child!r}, {setting!r}"
            yield Step(label, before, asked)


def jobs_stall(twins: Twins) -> None:
    """A sweep, of jobs that stalled before, repeat, have no hash, are locked, are no longer active; in each setting."""
    _play(twins, _jobs_stall())


def _jobs_stall() -> Iterator[Step]:
    for opts, stalls, most, lock, setting in itertools.product(
        ("", "{}", '{"repeat":{"every":5}}'), (0, 1), (0, 1), (False, True), ("", "paused", "maxed", "left")
    ):
        fields: list[Word] = ["opts", opts] if opts else []
        active: tuple[Word, ...] = ("LPUSH", key("q", "active"), 2, *([] if setting == "left" else [1]))
        before: list[tuple[Word, ...]] = [("SADD", key("q", "stalled"), 1), active]
        before += [("HSET", CHILD, "stc", stalls, *fields)] if stalls or fields else []
        before += [("SET", f"{CHILD}:lock", "t")] if lock else []
        before += [("HSET", key("q", "meta"), *{"paused": ("paused", 1), "maxed": ("concurrency", 1)}[setting])] if (
            setting in ("paused", "maxed")
        ) else []
        label = f"sweep of {opts!r}, stalled {stalls} of {most}, locked {lock}, {setting!r}"
        yield Step(label, before, call("moveStalledJobsToWait-8", "q", [most, key("q"), NOW_MS, 120_000]))


def next_is_fetched(twins: Twins) -> None:
    """By a finish and by a pickup: from the list, old markers in it, by priority, or when the first falls due."""
    _play(twins, _next_is_fetched())


def _next_is_fetched() -> Iterator[Step]:
    for wait, prioritized, due_ms in itertools.product(
        ([], ["0:5"], ["0:0"], ["5", "0:5"], ["5", "0:0"]), (False, True), (0, 9_000, -9_000)
    ):
        before: list[tuple[Word, ...]] = [("HSET", CHILD, "name", "j"), ("LPUSH", key("q", "active"), 1)]
        before += [("RPUSH", key("q", "wait"), *wait)] if wait else []
        before += [("ZADD", key("q", "prioritized"), 2**32, 7)] if prioritized else [("SET", key("q", "pc"), 3)]
        before += [("ZADD", key("q", "delayed"), (NOW_MS + due_ms) * 4096 + 5, 8)] if due_ms else []
        opts = {"token": "0", "lockDuration": 100_000, "attempts": 1, "maxMetricsSize": "", "keepJobs": {"count": -1}}
        argv: list[Word] = ["1", NOW_MS, "returnvalue", "v", "completed", "1", key("q"), packed(opts), ""]
        label = f"next of {wait}, prioritized {prioritized}, due {due_ms}"
        if prioritized or wait[-1:] != ["0:0"]:  # else see differences.toml
            yield Step(label, before, call("moveToFinished-14", "q", argv, id="1", target="completed"))
        yield Step(label, before, call("moveToActive-11", "q", [key("q"), NOW_MS, packed(opts)]))


def places_are_taken(twins: Twins) -> None:
    """A job is delayed to a millisecond in which others fall due, up to all that it has places for."""
    _play(twins, _places_are_taken())


def _places_are_taken() -> Iterator[Step]:
    args = packed([key("q"), "", "j", NOW_MS, None, None, None, None, None])
    for place, delay_ms in itertools.product((None, -1, 0, 7, 4094, 4095, 4096), (900, 0, -5)):
        due = (NOW_MS + max(delay_ms, 0)) * 4096
        before: list[tuple[Word, ...]] = [("HSET", CHILD, "name", "j"), ("LPUSH", key("q", "active"), 1)]
        before += [] if place is None else [("ZADD", key("q", "delayed"), due, 7, due + place, 8)]
        argv: list[Word] = [key("q"), NOW_MS, "1", "0", delay_ms, "0", ""]
        label = f"delay by {delay_ms}, taken up to {place}"
        yield Step(label, before, call("moveToDelayed-8", "q", argv, id="1"))
        added = call("addDelayedJob-6", "q", [args, "{}", packed({"delay": delay_ms})])
        yield Step(label, before, added)


def _moves(token: str) -> dict[str, Call]:
    opts = {"token": token, "attempts": 1, "maxMetricsSize": "", "keepJobs": {"count": -1}}
    finish: list[Word] = ["1", NOW_MS, "returnvalue", "v", "completed", "0", key("q"), packed(opts), ""]
    wait: list[Word] = [token, "", NOW_MS, "1", key("q")]
    wait_for: list[Word] = [token, OTHER, NOW_MS, "1", key("q")]
    return {
        "finish": call("moveToFinished-14", "q", finish, id="1", target="completed"),
        "delay": call("moveToDelayed-8", "q", [key("q"), NOW_MS, "1", token, 900, "0", ""], id="1"),
        "retry": call("retryJob-11", "q", [key("q"), NOW_MS, "LPUSH", "1", token, ""], id="1"),
        "put back": call("moveJobFromActiveToWait-9", "q", ["1", token, CHILD]),
        "wait": call("moveToWaitingChildren-7", "q", wait, id="1"),
        "wait for one": call("moveToWaitingChildren-7", "q", wait_for, id="1"),
    }


def _play(twins: Twins, steps: Iterator[Step]) -> None:
    """Each in a lane of its own that was empty."""
    while batch := list(itertools.islice(steps, LANES)):
        twins.fresh()
        for step, outcome in zip(batch, twins.steps(list(enumerate(batch))), strict=True):
            if outcome.differences:
                raise UnequalError(outcome.differences, [step.label], [])
