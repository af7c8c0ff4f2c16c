"""What else happens to a queue: keys end, queues are paused, limits are set, jobs are taken away by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.lua.calls import Word, call, flag, key
from tests.lua.choices import Choices
from tests.lua.queues import MOSTLY, QUEUES
from tests.lua.twins import Step
from tests.lua.world import World

SETTINGS: Final[tuple[tuple[Word, ...], ...]] = (
    ("concurrency", 1), ("concurrency", 2), ("concurrency", 3), ("max", 1, "duration", 150_000),
    ("max", 2, "duration", 400_000), ("opts.maxLenEvents", 2), ("opts.maxLenEvents", 5), ("opts.maxLenEvents", 1),
)  # fmt: skip
MARKERS: Final = ("0:0", "0:5")
"""What releases before 5.0 left in the wait list, to say that there are delayed jobs or prioritized ones."""


def _do(*commands: Sequence[Word]) -> Step:
    return Step(" ; ".join(" ".join(map(str, words)) for words in commands), commands)


def lock_ends(world: World, choices: Choices) -> Step:
    job = world.some_job(choices)
    return _do(("DEL", f"{job.key}:lock"))


def lock_is_anothers(world: World, choices: Choices) -> Step:
    """Another worker has taken the job meanwhile."""
    job = world.some_job(choices)
    return _do(("SET", f"{job.key}:lock", world.new_token(), "PX", 300_000))


def key_ends(world: World, choices: Choices) -> Step:
    name = choices.of(("limiter", "stalled-check", "de:d", "de:e", "pc", "opts"))
    queue = choices.of(QUEUES)
    if name == "opts":
        return _do(("HDEL", key(queue, "meta"), "opts.maxLenEvents"))
    return _do(("DEL", key(queue, name)))


def worker_wakes(world: World, choices: Choices) -> Step:
    """It was blocked on the marker, and takes it away."""
    return _do(("ZPOPMIN", key(choices.of(MOSTLY), "marker")))


def limit_is_reached(world: World, choices: Choices) -> Step:
    """A worker asked for a pause, or the counter stands without an end."""
    limiter = key(choices.of(QUEUES), "limiter")
    how: tuple[tuple[Word, ...], ...] = (("SET", limiter, 100, "PX", 400_000), ("SET", limiter, 1), ("SET", limiter, 2))
    return _do(choices.of(how))


def setting(world: World, choices: Choices) -> Step:
    meta, fields = key(choices.of(MOSTLY), "meta"), choices.of(SETTINGS)
    if choices.once_in(2):
        return _do(("HDEL", meta, "concurrency", "max", "duration"))
    return _do(("HSET", meta, *fields))


def pause(world: World, choices: Choices) -> Step:
    """The release's own pause; mostly the end of one, where a queue is paused."""
    paused = [queue for queue in MOSTLY if b"paused" in (world.queues.value(key(queue, "meta")) or [])[::2]]
    queue = choices.of(MOSTLY if choices.once_in(3) else paused or MOSTLY)
    here, there, word = ("paused", "wait", "resumed") if queue in paused else ("wait", "paused", "paused")
    return Step(f"{word} {queue}", call=call("pause-7", queue, [word], here=here, there=there))


def job_is_gone(world: World, choices: Choices) -> Step:
    """By hand: its hash, its place among the active, or both of its whole keys."""
    job = world.some_job(choices)
    hash_gone, place_gone = ("DEL", job.key), ("LREM", key(job.queue, "active"), 0, job.id)
    return _do(*choices.of(((place_gone,), (hash_gone,), (hash_gone, place_gone))))


def parent_moves(world: World, choices: Choices) -> Step:
    """A parent is gone, is delayed, or has failed; or its child names it only by its key, as old releases did."""
    pending = [child for job in world.queues.jobs() for child in world.queues.children(job)]
    if pending and choices.once_in(3):
        return _do(("HDEL", choices.of(pending), "parent"))
    parent = world.some_job(choices, "waiting-children")
    waiting, delayed = key(parent.queue, "waiting-children"), key(parent.queue, "delayed")
    if pending and choices.once_in(3):
        return _do(("DEL", choices.of([job.key for job in world.queues.jobs() if world.queues.children(job)])))
    gone = ("DEL", parent.key)
    late = (("ZREM", waiting, parent.id), ("ZADD", delayed, (world.now_ms + 9_000) * 4096, parent.id))
    failed = (("ZREM", waiting, parent.id), ("ZADD", key(parent.queue, "failed"), world.now_ms, parent.id))
    return _do(*choices.of(((gone,), late, failed)))


def old_marker(world: World, choices: Choices) -> Step:
    """Where the list is taken from next, at its other end, or taken already and marked by a sweep."""
    queue, marker = choices.of(MOSTLY), choices.of(MARKERS)
    wait = key(queue, "wait")
    taken = (("LPUSH", key(queue, "active"), marker), ("SADD", key(queue, "stalled"), marker))
    return _do(*choices.of(((("RPUSH", wait, marker),), (("LPUSH", wait, marker),), taken)))


def removal(world: World, choices: Choices) -> Step:
    """The release's own removeJob, on a job in any state."""
    job = world.some_job(choices, choices.of(("completed", "waiting-children", "wait", "failed")))
    argv = [job.id, flag(choices.once_in(2)), key(job.queue)]
    return Step(f"remove {job}", call=call("removeJob-2", job.queue, argv, id=job.id))


def new_priority(world: World, choices: Choices) -> Step:
    """The release's own changePriority, on a job that waits or is active."""
    job = world.some_job(choices, choices.of(("wait", "prioritized", "active")))
    argv: list[Word] = [choices.of((0, 1, 3)), key(job.queue), job.id, flag(choices.once_in(2))]
    return Step(f"priority of {job} {argv[0]!r}", call=call("changePriority-7", job.queue, argv))
