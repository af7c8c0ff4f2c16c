"""The steps of a producer: jobs are added, alone or with a parent, with ids of their own, deduplicated."""

from __future__ import annotations

from typing import Any, Final

from tests.lua.calls import BROKEN, Word, call, key, packed
from tests.lua.choices import Choices
from tests.lua.moves import DELAYS_MS
from tests.lua.queues import MOSTLY, Job
from tests.lua.twins import Step
from tests.lua.world import World

IDS: Final = ("", "", "", "", "", "a", "b", "c:x")
FATES: Final[tuple[dict[str, bool], ...]] = (
    {}, {}, {"fpof": True}, {"cpof": True}, {"idof": True}, {"rdof": True}, {"fpof": True, "cpof": True},
)  # fmt: skip
"""What becomes of the parent when this child fails."""
ONCE: Final[tuple[dict[str, Any], ...]] = (
    {"id": "d"}, {"id": "d", "ttl": 200_000}, {"id": "d", "ttl": 500_000, "extend": True}, {"id": "d", "replace": True},
    {"id": "d", "ttl": 200_000, "replace": True}, {"id": "d", "ttl": 500_000, "replace": True, "extend": True},
    {"id": "e", "ttl": 0}, {"id": "e"}, {"id": "e", "ttl": 0, "replace": True}, {},
)  # fmt: skip


def _add(world: World, choices: Choices, script: str, parent: Job | None, **opts: Any) -> Step:
    queue = choices.of(MOSTLY)
    job_id = choices.of(IDS)
    if choices.once_in(4):
        opts["de"] = choices.of(ONCE)
    if choices.once_in(8):
        opts |= choices.of(({"repeat": {"every": 5}}, {"attempts": 3}, {"removeOnFail": True}))
    args: list[Any] = [key(queue), job_id, "job", world.now_ms, None, None, None, None, None]
    if parent is not None:
        args[4] = parent.key
        args[5] = None if choices.once_in(12) else f"{parent.key}:dependencies"
        fate = dict(choices.of(FATES))
        args[6] = {"id": parent.id, "queueKey": key(parent.queue)[:-1]} | fate
    if choices.once_in(12):
        args[7] = "rk"
    if "id" in opts.get("de", {}):
        args[8] = key(queue, f"de:{opts['de']['id']}")
    argv: list[Word] = [packed(args), '{"x":1}', packed(opts)]
    if choices.once_in(64):
        argv[choices.of((2, 0))], opts = BROKEN, {"broken": True}
    label = f"{script} {queue} id={job_id!r} {opts} parent={parent and str(parent)} {args[6] or ''} rjk={args[7]}"
    return Step(label, call=call(script, queue, argv))


def _flavour(choices: Choices) -> tuple[str, dict[str, Any]]:
    kind = choices.below(4)
    if kind == 1:
        return "addDelayedJob-6", {"delay": choices.of((5_000, 1, 5_000, 60_000, 0))}
    if kind == 2:
        return "addPrioritizedJob-9", {"priority": choices.of((1, 2, 5))}
    if kind == 3:
        return "addParentJob-6", {}
    return "addStandardJob-9", {"lifo": True} if choices.once_in(4) else {}


def add_standard(world: World, choices: Choices) -> Step:
    opts: dict[str, Any] = {"lifo": True} if choices.once_in(3) else {}
    return _add(world, choices, "addStandardJob-9", None, **opts)


def add_delayed(world: World, choices: Choices) -> Step:
    opts = {"delay": world.some_delay_ms(choices, DELAYS_MS)}
    if choices.once_in(3):
        opts["priority"] = choices.of((1, 2))
    return _add(world, choices, "addDelayedJob-6", None, **opts)


def add_prioritized(world: World, choices: Choices) -> Step:
    return _add(world, choices, "addPrioritizedJob-9", None, priority=choices.of((1, 2, 2, 5)))


def add_parent(world: World, choices: Choices) -> Step:
    """Of children that are yet to come; when they are done, its own delay or priority says where it goes."""
    opts: dict[str, Any] = choices.of(({}, {}, {"priority": 2}, {"delay": 5_000}))
    return _add(world, choices, "addParentJob-6", None, **opts)


def add_child_of_active(world: World, choices: Choices) -> Step:
    """A job that runs makes a child, to wait for it."""
    parent = world.some_job(choices)
    script, opts = _flavour(choices)
    return _add(world, choices, script, parent, **opts)


def add_child(world: World, choices: Choices) -> Step:
    """Mostly of a parent that waits for its children, also of one in another state, or of none that there is."""
    state = choices.of(("waiting-children",) * 6 + ("active", "active", "delayed", "failed"))
    if state == "waiting-children" and not world.queues.all_listed(state):
        return add_parent(world, choices)
    parents = [job for job in world.queues.all_listed("waiting-children") if world.queues.children(job)]
    parent = choices.of(parents) if parents and choices.once_in(2) else world.some_job(choices, state)
    script, opts = _flavour(choices)
    return _add(world, choices, script, parent, **opts)
