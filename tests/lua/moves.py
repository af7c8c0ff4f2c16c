"""The steps of a worker: one function a script of ours, which chooses a job, a token and the rest."""

from __future__ import annotations

from typing import Any, Final

from tests.lua.calls import BROKEN, Call, Word, call, flag, key, packed
from tests.lua.choices import Choices
from tests.lua.queues import QUEUES
from tests.lua.twins import Step
from tests.lua.world import LOCKS_MS, World

TAKEN_FROM: Final = ("wait", "prioritized", "delayed")
DELAYS_MS: Final = (5_000, 0, 1, 5_000, 60_000, 5_000, -5)
SWEEPS_MS: Final = (120_000, 350_000)
LIMITS: Final[tuple[dict[str, Any] | None, ...]] = (
    None, None, None, {"max": 1, "duration": 150_000}, {"max": 2, "duration": 400_000.7},
    {"max": 1, "duration": -150_000}, {"max": 100, "duration": 150_000},
)  # fmt: skip
KEEPS: Final[tuple[dict[str, Any], ...]] = (
    {"count": -1}, {"count": -1}, {"count": 0}, {"count": 1}, {"count": 2}, {"age": 60}, {"age": 0},
    {"age": 3_600, "count": 1}, {"count": 3, "age": 300}, {},
)  # fmt: skip


def _taking(world: World, choices: Choices, token: str) -> dict[str, Any]:
    """What a worker says of itself where it takes a job."""
    opts: dict[str, Any] = {"token": token, "lockDuration": choices.of(LOCKS_MS)}
    if choices.once_in(2):
        opts["name"] = "w1"
    if (limit := choices.of(LIMITS)) is not None:
        opts["limiter"] = limit
    return opts


def _optional(fields: list[Any] | None) -> Word:
    return "" if fields is None else packed(fields)


def pick(world: World, choices: Choices) -> Step:
    """moveToActive, mostly where there is something to take."""
    ready = [queue for queue in QUEUES if any(world.queues.listed(queue, state) for state in TAKEN_FROM)]
    queue = choices.of(QUEUES if choices.once_in(10) or not ready else ready)
    token = "0" if choices.once_in(12) else world.new_token()
    opts = _taking(world, choices, token)
    argv: list[Word] = [key(queue), world.now_ms, BROKEN if choices.once_in(64) else packed(opts)]
    return Step(f"pick {queue} {opts}", call=call("moveToActive-11", queue, argv))


def finish(world: World, choices: Choices) -> Step:
    """moveToFinished."""
    job = world.some_job(choices)
    token = world.some_token(choices, job)
    target = choices.of(("completed", "failed"))
    fetch = choices.of(("0", "1", "", "1"))
    metrics = choices.of(("", 2, 3, ""))
    keep = choices.of(KEEPS)
    fields = world.fields(choices)
    attempts = choices.of((1, 2, 0))
    opts = {"keepJobs": keep, "attempts": attempts, "maxMetricsSize": metrics} | _taking(world, choices, token)
    told = ("returnvalue", '"done"') if target == "completed" else ("failedReason", "went wrong")
    argv: list[Word] = [job.id, world.now_ms, *told, target, fetch, key(job.queue), packed(opts)]
    if choices.once_in(64):
        argv[-1], opts = BROKEN, {"broken": True}
    if not choices.once_in(6):
        argv.append(_optional(fields))
    label = f"finish {job} {target} fetch={fetch!r} {opts} fields={fields}"
    return Step(label, call=call("moveToFinished-14", job.queue, argv, id=job.id, target=target))


def delay(world: World, choices: Choices) -> Step:
    """moveToDelayed."""
    job = world.some_job(choices)
    token = world.some_token(choices, job)
    delay_ms, skip, fields = world.some_delay_ms(choices, DELAYS_MS), flag(choices.once_in(2)), world.fields(choices)
    argv: list[Word] = [key(job.queue), world.now_ms, job.id, token, delay_ms, skip]
    if not choices.once_in(6):
        argv.append(_optional(fields))
    label = f"delay {job} token={token!r} by {delay_ms} skip={skip} fields={fields}"
    return Step(label, call=call("moveToDelayed-8", job.queue, argv, id=job.id))


def retry(world: World, choices: Choices) -> Step:
    """retryJob."""
    job = world.some_job(choices)
    token = world.some_token(choices, job)
    push, fields = choices.of(("LPUSH", "RPUSH")), world.fields(choices)
    argv: list[Word] = [key(job.queue), world.now_ms, push, job.id, token]
    if not choices.once_in(6):
        argv.append(_optional(fields))
    label = f"retry {job} token={token!r} {push} fields={fields}"
    return Step(label, call=call("retryJob-11", job.queue, argv, id=job.id))


def put_back(world: World, choices: Choices) -> Step:
    """moveJobFromActiveToWait."""
    job = world.some_job(choices)
    token = world.some_token(choices, job)
    argv: list[Word] = [job.id, token, job.key]
    return Step(f"put back {job} token={token!r}", call=call("moveJobFromActiveToWait-9", job.queue, argv))


def wait_for_children(world: World, choices: Choices) -> Step:
    """moveToWaitingChildren, on a job that has children where one is active."""
    job = world.some_job(choices)
    if not choices.once_in(4):
        job = choices.of(world.queues.active_parents() or [job])
    token = world.some_token(choices, job)
    pending = world.queues.children(job)
    child = choices.of(["", "", *pending[:2], key("q", "nope")])
    argv: list[Word] = [token, child, world.now_ms, job.id, key(job.queue)]
    label = f"wait for children {job} token={token!r} child={child!r}"
    return Step(label, call=call("moveToWaitingChildren-7", job.queue, argv, id=job.id))


def sweep(world: World, choices: Choices) -> Step:
    """moveStalledJobsToWait, mostly when the time between two sweeps has passed; some locks may have ended before."""
    marked = world.queues.marked()
    queue = choices.of(QUEUES if choices.once_in(4) else marked or QUEUES)
    before: list[tuple[Word, ...]] = []
    if not choices.once_in(6):
        before.append(("DEL", key(queue, "stalled-check")))
    some_end = queue in marked or choices.once_in(3)
    ended = [job for job in world.queues.listed(queue, "active") if some_end and choices.once_in(2)]
    before += [("DEL", f"{job.key}:lock") for job in ended]
    most, interval_ms = choices.of((1, 0, 2)), choices.of(SWEEPS_MS)
    argv: list[Word] = [most, key(queue), world.now_ms, interval_ms]
    label = f"sweep {queue} most={most} interval={interval_ms} after {before}"
    return Step(label, before, call("moveStalledJobsToWait-8", queue, argv))


def renew(world: World, choices: Choices) -> Step:
    """extendLock."""
    job = world.some_job(choices)
    token, ttl_ms = world.some_token(choices, job), choices.of(LOCKS_MS)
    argv: list[Word] = [token, ttl_ms, job.id]
    return Step(f"renew {job} token={token!r} {ttl_ms}", call=call("extendLock-2", job.queue, argv, id=job.id))


def renew_many(world: World, choices: Choices) -> Step:
    """extendLocks, on jobs of one queue."""
    queue, ttl_ms = choices.of(QUEUES), choices.of(LOCKS_MS)
    jobs = [job for job in (world.some_job(choices) for _ in range(choices.below(4))) if job.queue == queue]
    tokens = [world.some_token(choices, job) for job in jobs]
    argv: list[Word] = [key(queue), packed(tokens), packed([job.id for job in jobs]), ttl_ms]
    label = f"renew many {queue} {[str(job) for job in jobs]} tokens={tokens} {ttl_ms}"
    return Step(label, call=call("extendLocks-1", queue, argv))


def release(world: World, choices: Choices) -> Step:
    """releaseLock."""
    job = world.some_job(choices)
    token = world.some_token(choices, job)
    argv: list[Word] = [token, choices.of(LOCKS_MS)]
    return Step(f"release {job} token={token!r}", call=call("releaseLock-1", job.queue, argv, id=job.id))


def progress(world: World, choices: Choices) -> Step:
    """updateProgress."""
    job = world.some_job(choices)
    told = choices.of(("50", '{"a":1}'))
    return Step(f"progress {job} {told}", call=_progress(job.queue, job.id, told))


def _progress(queue: str, job_id: str, told: str) -> Call:
    return call("updateProgress-3", queue, [job_id, told], id=job_id)
