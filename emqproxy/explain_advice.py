"""What to change, by cause: one or two sentences, with the figures of the job that met it."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from emqproxy.locks.notes import seconds


class Culprit(NamedTuple):
    """Who did what a cause comes of, and by which command."""

    who: str
    command: str
    of_hash: bool = False
    """It deleted the job's hash."""


class StoryFigures(NamedTuple):
    """Of one cause, over all lines of the job that have it."""

    gap_ms: float | None
    """The longest time from a proof of holding to the next word of its holder."""
    ttl_ms: float | None
    """The lock's time to live."""
    code_name: str | None
    """What Redis or the script said."""
    who: str
    """Who did it, where somebody did."""
    by_script: str = ""
    """The beginning of the sha of the script that nobody knows, where it was one."""
    sweeps: bool = False
    """A sweep for stalled jobs was seen on the queue."""
    hand: Culprit | None = None
    """Whose hand was at the job's hash or its queue's lists, and did what the cause says."""
    wipe: Culprit | None = None
    """Who emptied the queue or the database, where that is what the cause says."""


_SILENT: Final = (
    "Move what blocks the event loop off it (a child process, a thread, smaller steps){or_raise}. The first job named "
    "above is the first suspect."
)
_TAKEN: Final = (
    "Whoever lost it was too late: look for why its renewals stopped{or_raise}. Until then the job must bear being "
    "run twice."
)
_GONE: Final = (
    "Set maxmemory-policy noeviction, and look for what deletes keys past emqproxy: with all clients behind it, it "
    "would be named."
)
ADVICE: Final = {
    "expired_worker_silent": _SILENT,
    "retaken": _TAKEN,
    "recovered_not_retaken": _TAKEN,
    "already_moved_by_same_owner": (
        "After its code has moved or finished the job it must end there: throw the library's own error (DelayedError, "
        "WaitingError, …) and do not return a result as well."
    ),
    "expired_unswept": (
        "Renew at half the lock's time at the latest{or_raise}; {sweeping}"
    ),
    "renew_config": (
        "Renew every {half} at the latest (half of lockDuration; lockRenewTime), or raise lockDuration{above}; see "
        "that renewal is not switched off."
    ),
    "renew_stopped": (
        "Its renewals ended before its work did: close a worker without force, so that it renews until its last job "
        "has ended."
    ),
    "renewal_late": (
        "Nothing is lost yet: the longest gap was {gap} under a lock of {ttl}. Look for what holds up its timer, or "
        "raise lockDuration{above}."
    ),
    "link_loss": (
        "Look at the network and at restarts of Redis; raise lockDuration above what a reconnect takes "
        "(here {gap} without a renewal)."
    ),
    "never_owner": (
        "Some code renews or ends a job with a token that it was not given: it must bring the token of its own pickup."
    ),
    "stale_suffix": "The worker mixes up its tokens: each job must be ended with the token of its own last pickup.",
    "lock_bypass": (
        'Let {who} wait until the job is free, or bring its token: the token "0" asks for no lock. With mode "enforce" '
        "the rule zero_token refuses it."
    ),
    "job_removed": (
        "Let {who} remove only jobs that nobody works on, and let the worker's code take a job that is gone as ended."
    ),
    "job_vanished": (
        "Whoever removed it did so past emqproxy, or by what is not watched: an EXPIRE, or a script that nobody knows; "
        "or Redis lost it: see maxmemory-policy and persistence."
    ),
    "lock_vanished_early": _GONE,
    "eviction_suspected": (
        "Set maxmemory-policy noeviction, and raise maxmemory or let fewer finished jobs be kept: under any other "
        "policy a full Redis throws away locks, and with allkeys-* jobs, too."
    ),
    "lock_deleted_by": (
        "Find the program behind {who}: locks are the scripts' to delete. {rule}"
    ),
    "failover_lost_lock": (
        "Redis came back without what it had: see its persistence (appendfsync) and replication "
        "(min-replicas-to-write). Jobs must bear being run twice."
    ),
    "not_in_active": "Something takes ids out of the active list by hand (LREM, LTRIM), or moves jobs with no token.",
    "server_refused": "Redis refused it itself ({code_name}): {server}",
    "double_grant": (
        "The id was put into the waiting list again while it was worked on: look for who pushes ids by hand, and for "
        "a second path to this Redis."
    ),
    "script_mismatch": (
        "Two releases or another key layout are at work on this queue: bring all clients to one release, and set no "
        "keyPrefix."
    ),
    "no_sweeper": (
        "Let at least one worker of the queue sweep for stalled jobs (stalledInterval; skipStalledCheck off)."
    ),
    "hung_processor": (
        "It renews and does nothing else: put a time limit into the processor, and look for what it waits for."
    ),
    "stall_limit": "See above why its lock was lost each time; maxStalledCount says how often it may be.",
    "ghost_job": (
        "Its id was pushed into the queue after its data was removed: look for who returns or pushes ids by hand."
    ),
    "slow_redis": (
        "Redis took too long to answer: see SLOWLOG for what it ran then, or raise lockDuration{above}."
    ),
    "proxy_pause": "emqproxy itself had no processor: give it one (requests and limits of the sidecar).",
    "maybe_applied_twice": (
        "A call was sent again after its connection broke: take -1, -2 or -3 after a reconnect as \"it is done\"."
    ),
    "fixed_token": "Use a new token for each pickup: with the same one a stale finish is accepted.",
    "pickup_failed_dirty": (
        "Give each pickup a lockDuration above zero; the job comes back with the next sweep but one."
    ),
    "before_our_start": "What came before emqproxy began is not known: if it happens again, it will be.",
    "unknown": "Take a journal of it with all clients behind emqproxy, and send it: emqproxy replay FILE --redact OUT.",
}
"""By cause; what is harmless has none."""
_HASH: Final = (
    "Let {who} remove jobs by the library, which refuses while a lock lives: a {command} of the job's hash asks "
    "nobody, and leaves its id in the lists. Let the worker's code take a job that is gone as ended."
)
BY_HAND: Final = {
    "job_removed": _HASH,
    "job_vanished": _HASH,
    "not_in_active": (
        "Let {who} keep off the active list ({command}): to take a job from a worker that hangs, end the worker; its "
        "lock runs out then, and a sweep puts the job back."
    ),
    "double_grant": (
        "Let {who} push no id by hand ({command}): whoever took the job then ran it beside its holder. A job that "
        "hangs is put back by the sweep once its lock has run out, a failed one by the library's retry."
    ),
    "retaken": _TAKEN + (
        " Let {who} push no id by hand ({command}): without a sweep's word nobody knows that its holder has lost it."
    ),
    "ghost_job": (
        "Let {who} push no id by hand ({command}) whose data is gone: add the job anew, by the library."
    ),
}
"""By cause: where it was seen whose hand it was."""
WIPED: Final = (
    "Let {who} empty no queue or database that is worked on ({command}): pause the queue and let its workers end "
    'first. The rule mass_delete refuses it while locks are held, but is only shadow unless told otherwise: set it to '
    '"enforce", with mode "enforce".'
)
_RAW: Final = 'With mode "enforce" the rule raw_lock_write refuses it.'
_UNKNOWN: Final = (
    "It was a script that nobody knows (sha {sha}…): the rule unknown_script refuses it, which is only shadow unless "
    'told otherwise: set it to "enforce", with mode "enforce".'
)
_SWEPT: Final = "and look for what blocks the worker: sweeps are going on, and one would have put the job back."
_UNSWEPT: Final = "and let at least one worker of the queue sweep for stalled jobs, or nobody takes it up."
_SERVER: Final = {
    "OOM": "raise maxmemory, or let fewer finished jobs be kept.",
    "READONLY": "it is a replica; let clients follow the master.",
    "LOADING": "it was starting; raise lockDuration above what that takes.",
    "BUSY": "a script ran too long; see SLOWLOG.",
    "NOPERM": "give the worker's user the commands and keys that the scripts need.",
    "NOAUTH": "give the worker its password.",
    "WRONGTYPE": "a key has another type than this release expects.",
}


def advice(cause: str, figures: StoryFigures) -> str | None:
    """What to change; None where there is nothing to change."""
    words = ADVICE.get(cause)
    if words is None:
        return None
    gap_ms, ttl_ms, code_name, who, sha, sweeps, hand, wipe = figures
    doer = hand or wipe or Culprit(who, "")
    if hand is not None:
        words = _HASH if hand.of_hash else BY_HAND.get(cause, words)
    elif wipe is not None:
        words = WIPED
    above = f" above {_enough(gap_ms)}" if gap_ms else ""
    longest = ""
    if gap_ms and ttl_ms:
        longest = f": its longest gap was {seconds(gap_ms)} under a lock of {seconds(ttl_ms)}"
    return words.format(
        above=above,
        or_raise=f", or raise lockDuration{above}{longest}" if above else "",
        half=seconds(ttl_ms / 2) if ttl_ms else "half its time",
        gap=seconds(gap_ms) if gap_ms else "longer than it may be",
        ttl=seconds(ttl_ms) if ttl_ms else "unknown length",
        code_name=code_name or "an error",
        server=_SERVER.get(code_name or "", "see its configuration and its log."),
        rule=_UNKNOWN.format(sha=sha) if sha else _RAW,
        sweeping=_SWEPT if sweeps else _UNSWEPT,
        who=doer.who or "whoever did it",
        command=doer.command,
    )


def _enough(gap_ms: float) -> str:
    """Twice the gap, in a round figure: renewals come at half the time."""
    return f"{math.ceil(gap_ms / 500)} s"
