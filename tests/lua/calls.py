"""How a client writes a call: KEYS and ARGV of each script, from names. Knows the layouts; knows no state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

Word = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Call:
    """One EVALSHA: `script` is a name with its arity."""

    script: str
    keys: Sequence[str]
    argv: Sequence[Word]

    def __post_init__(self) -> None:
        assert self.script.endswith(f"-{len(self.keys)}"), self


def key(queue: str, name: object = "") -> str:
    return f"emq:{queue}:{name}"


LAYOUTS: Final[Mapping[str, str]] = {
    "moveToActive-11": "wait active prioritized events stalled limiter delayed paused meta pc marker",
    "moveToFinished-14":
        "wait active prioritized events stalled limiter delayed paused meta pc {target} {id} metrics:{target} marker",
    "moveToDelayed-8": "marker active prioritized delayed {id} events meta stalled",
    "moveStalledJobsToWait-8": "stalled wait active stalled-check meta paused marker events",
    "extendLock-2": "{id}:lock stalled",
    "extendLocks-1": "stalled",
    "retryJob-11": "active wait paused {id} meta events delayed prioritized pc marker stalled",
    "moveToWaitingChildren-7": "active waiting-children {id} {id}:dependencies {id}:unsuccessful stalled events",
    "moveJobFromActiveToWait-9": "active wait stalled paused meta limiter prioritized marker events",
    "releaseLock-1": "{id}:lock",
    "updateProgress-3": "{id} events meta",
    "addStandardJob-9": "wait paused meta id completed delayed active events marker",
    "addDelayedJob-6": "marker meta id delayed completed events",
    "addPrioritizedJob-9": "marker meta id prioritized delayed completed active events pc",
    "addParentJob-6": "meta id delayed waiting-children completed events",
    "pause-7": "{here} {there} meta prioritized events delayed marker",
    "removeJob-2": "{id} repeat",
    "changePriority-7": "wait paused meta prioritized active pc marker",
}  # fmt: skip


def call(script: str, queue: str, argv: Sequence[Word], **names: str) -> Call:
    """A call on one queue; `names` fill the layout: id, target, here, there."""
    return Call(script, [key(queue, word.format(**names)) for word in LAYOUTS[script].split()], argv)


def packed(value: Any) -> bytes:
    return bytes(msgpack.packb(value))


BROKEN: Final = b"\xc1"
"""No msgpack: a byte that begins nothing."""


def flag(on: bool) -> str:
    return "1" if on else "0"
