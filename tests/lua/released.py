"""The texts that are held against each other: ours, and those of the release that our arities stand for.

The released texts are fetched as a test dependency, sent to a Redis, and nothing else.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from emqproxy.scripts import texts
from tests.e2e.packages import python_packages

RELEASE: Final = Path(__file__).parent.absolute() / "bullmq-5.65.txt"
MOVES: Final = (
    "moveToActive-11", "moveToFinished-14", "moveToDelayed-8", "moveStalledJobsToWait-8", "extendLock-2",
    "extendLocks-1", "retryJob-11", "moveToWaitingChildren-7", "moveJobFromActiveToWait-9", "releaseLock-1",
    "updateProgress-3",
)  # fmt: skip
ADDS: Final = ("addStandardJob-9", "addDelayedJob-6", "addPrioritizedJob-9", "addParentJob-6")
COMPARED: Final = MOVES + ADDS
HELPERS: Final = ("pause-7", "removeJob-2", "changePriority-7")
"""Scripts of the release that set the stage in both databases; none of them is ours."""


@functools.cache
def released() -> dict[str, str]:
    """Name with arity → text, of all scripts of the release."""
    folder = python_packages("bullmq", RELEASE) / "bullmq" / "commands"
    return {path.stem: path.read_text() for path in folder.glob("*.lua")}


@functools.cache
def ours() -> dict[str, str]:
    """Name with arity → text, of our scripts."""
    return {name: texts.load(name).text for name in texts.names()}


def unwritten() -> list[str]:
    """Which of those that are compared are not there."""
    return sorted(set(COMPARED) - ours().keys())
