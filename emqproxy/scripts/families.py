"""Which recogniser reads the calls of which script. A script of the protocol that is not here only reads, or changes
nothing of one job or its lock (pause, relay…, removeDeduplicationKey).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from emqproxy.scripts.acquire import recognise_pickup
from emqproxy.scripts.add import recognise_add, recognise_scheduler
from emqproxy.scripts.arguments import Call
from emqproxy.scripts.layouts import Layout
from emqproxy.scripts.operation import Operation, Script
from emqproxy.scripts.reap import recognise_sweep
from emqproxy.scripts.release import recognise_finish, recognise_move
from emqproxy.scripts.remove import recognise_clean, recognise_obliteration, recognise_orphans, recognise_removal
from emqproxy.scripts.renew import recognise_batch, recognise_renewal
from emqproxy.scripts.unfenced import recognise_job_write, recognise_queue_write

Recogniser: TypeAlias = Callable[[Script, Layout, Call], Operation | None]

_JOB_WRITES: Final = (
    "updateProgress", "updateData", "updateJobOption", "addLog", "saveStacktrace", "changePriority", "changeDelay",
    "promote", "reprocessJob", "removeChildDependency", "removeUnprocessedChildren",
    "releaseParentIfNoPendingDependencies",
)  # fmt: skip
_QUEUE_WRITES: Final = (
    "moveJobsToWait", "retryJobs", "removeJobScheduler", "addRepeatableJob", "updateRepeatableJobMillis",
    "removeRepeatable",
)  # fmt: skip

FAMILIES: Final[dict[str, Recogniser]] = {
    "moveToActive": recognise_pickup,
    "extendLock": recognise_renewal,
    "extendLocks": recognise_batch,
    "moveToFinished": recognise_finish,
    "moveToDelayed": recognise_move,
    "retryJob": recognise_move,
    "moveToWaitingChildren": recognise_move,
    "moveJobFromActiveToWait": recognise_move,
    "releaseLock": recognise_move,
    "moveStalledJobsToWait": recognise_sweep,
    "removeJob": recognise_removal,
    "cleanJobsInSet": recognise_clean,
    "removeOrphanedJobs": recognise_orphans,
    "obliterate": recognise_obliteration,
    "drain": recognise_obliteration,
    "addStandardJob": recognise_add,
    "addDelayedJob": recognise_add,
    "addPrioritizedJob": recognise_add,
    "addParentJob": recognise_add,
    "addJob": recognise_add,
    "addJobScheduler": recognise_scheduler,
    "updateJobScheduler": recognise_scheduler,
    **dict.fromkeys(_JOB_WRITES, recognise_job_write),
    **dict.fromkeys(_QUEUE_WRITES, recognise_queue_write),
}
"""By the script's name."""

EXACT: Final = FAMILIES.keys() - {*_JOB_WRITES, *_QUEUE_WRITES}
"""Scripts that must be called with just their keys. To the others more keys behind their own are nothing: PyPI's bullmq
calls promote with four."""
