"""Causes that time decides: who was silent, how long, and whose fault that was."""

from __future__ import annotations

from typing import Final

from emqproxy.locks.case import MOVES, Case
from emqproxy.locks.causes import Diagnosis, ago, by, did, listed, seqs
from emqproxy.locks.deeds import HELD, PAIR_MS, double, recovered, retaken
from emqproxy.locks.notes import BURST_MS, between_ms, counted, seconds

RENEWALS_MIN: Final = 2
"""Of fewer nobody can say that a timer ran."""
PAUSE_MS_MIN: Final = 50.0
"""A shorter pause of our own explains nothing."""


LASTING: Final = frozenset(
    (
        "proxy_pause", "slow_redis", "expired_worker_silent", "link_loss", "failover_lost_lock", "lock_vanished_early",
        "eviction_suspected", "not_in_active",
    )
)  # fmt: skip
"""Who lost a lock by one of these is told so again when the loss is met again, whatever became of the job since."""


SURPASSED: Final = frozenset(("expired_worker_silent", "link_loss", "not_in_active"))
"""But for who is told that another holds it: that says more."""
TAKEN: Final = frozenset(("retaken", "double_grant", "recovered_not_retaken"))
"""Who said its result to that, and says another at once, is told how that stands now."""
UNRENEWED: Final = frozenset(("renew_config", "renew_stopped", "expired_unswept"))
"""Likewise, but what became of the job since says more."""


def met_again(case: Case) -> Diagnosis | None:
    """The same incident: a worker whose renewal was refused finishes the job, or renews it again; or its "completed"
    was refused, and it says "failed"."""
    if case.lost is None:
        return None
    told, held = case.lost[0], case.note.code == HELD and case.taken is not None
    if told in LASTING and not (held and told in SURPASSED):
        return Diagnosis(*case.lost)
    if told in TAKEN and case.note.op in MOVES and case.said_just_before(PAIR_MS):
        return double(case) or retaken(case) or recovered(case)
    return None


def never_in_time(case: Case) -> Diagnosis | None:
    """The same incident, where nothing became of the job."""
    return Diagnosis(*case.lost) if case.lost is not None and case.lost[0] in UNRENEWED else None


def off_the_list(case: Case) -> Diagnosis | None:
    """The answer says that the lock was the speaker's until now, whatever time says."""
    if case.note.code != -3 or case.proof is None or case.taken is not None or case.swept is not None:
        return None
    words, hand = "The job was in the active list no more", case.off_active
    if hand is not None:
        what = did(hand, f"taken it out of that list by hand ({hand.script})")
        if hand.job is None:
            what = did(hand, f"written on the whole of that list by hand ({hand.script})")
        words = f"{words}: {by(hand)} {what} {ago(hand, case.note)} before"
    return Diagnosis("not_in_active", f"{words}; its lock went with this call.", seqs(case.proof, hand))


def pause(case: Case) -> Diagnosis | None:
    if not case.expired or case.proof is None:
        return None
    lag_ms = case.lay_with_us_ms
    if lag_ms < max(PAUSE_MS_MIN, case.over_ms):
        return None
    words = f"emqproxy itself stood still for {seconds(lag_ms)}; that is no fault of the worker's."
    return Diagnosis("proxy_pause", words, seqs(case.proof))


def slow(case: Case) -> Diagnosis | None:
    note, proof = case.note, case.proof
    if proof is None or note.op not in {"renew"} | MOVES or between_ms(proof.opened, note.opened) >= case.ttl_ms:
        return None
    took_ms = between_ms(note.opened, note.closed)
    if took_ms < case.ttl_ms / 4 or not case.expired:
        return None
    ttl = seconds(case.ttl_ms)
    what = "renewal" if note.op == "renew" else note.op
    words = f"The {what} was sent in time, and Redis took {seconds(took_ms)} to answer under a lock of {ttl}."
    return Diagnosis("slow_redis", words, seqs(proof))


def silent(case: Case) -> Diagnosis | None:
    note, silence = case.note, case.silence
    if silence is None or case.worker is None or not case.expired or case.hung_up is not None:
        return None
    if case.own_lag_ms >= max(PAUSE_MS_MIN, case.over_ms):
        return None  # with all our own pauses in it nobody is accused
    if not silence.renewed and note.burst - case.said_just_before(BURST_MS) < 2:
        return None  # one result after a silence: its timer may as well have been stopped
    suspects = case.worker.suspects(silence.begin)
    held = f"; it held {listed(suspects)}" if suspects else ""
    ms, ttl = seconds(silence.ms), seconds(case.ttl_ms)
    words = f"The worker said nothing for {ms} under a lock of {ttl}, as one whose event loop is blocked"
    if not case.regular:
        words = f"{words}, or whose renewal interval is too long: its first calls do not tell"
    return Diagnosis("expired_worker_silent", f"{words}{held}.", seqs(case.proof))


def link(case: Case) -> Diagnosis | None:
    if not case.expired or (closed := case.hung_up) is None:
        return None
    gone, age = seconds(between_ms(closed, case.note.opened)), seconds(case.age_ms)
    words = f"A connection of the worker's closed {gone} before, and no renewal came for {age}"
    return Diagnosis("link_loss", f"{words} under a lock of {seconds(case.ttl_ms)}.", seqs(case.proof))


def errors_before(case: Case) -> Diagnosis | None:
    if not case.errors or not case.expired:
        return None
    last = case.errors[-1]
    many = counted(len(case.errors), "renewal")
    words = f"Redis refused {many} before, the last with {last.code_name}, and the lock ran out."
    return Diagnosis("server_refused", words, seqs(case.proof, *case.errors[-3:]))


def early(case: Case) -> Diagnosis | None:
    note = case.note
    if case.proof is None or case.expired:
        return None
    left = seconds(case.ttl_ms - case.age_ms)
    if case.estranged is not None:
        words = f"Redis was lost or replaced {ago(case.estranged, note)} before"
        words = f"{words}; the lock should have lived {left} more."
        return Diagnosis("failover_lost_lock", words, seqs(case.proof, case.estranged))
    words = f"The lock should have lived {left} more, and nobody was seen ending it"
    if case.evicted is not None:
        before, last = case.evicted
        count, ms = last.evicted_keys - before.evicted_keys, between_ms(before.at, note.closed)
        keys = counted(count, "key")
        full = f"maxmemory {last.maxmemory_bytes} bytes, maxmemory-policy {last.policy}"
        words = f"{words}; Redis evicted {keys} in the last {seconds(ms)} ({full}), and it may be one of them"
        return Diagnosis("eviction_suspected", f"{words}.", seqs(case.proof))
    return Diagnosis("lock_vanished_early", f"{words}: evicted, deleted past us, or lost by Redis.", seqs(case.proof))


def expired(case: Case) -> Diagnosis | None:
    if case.proof is None:
        return None
    note, age, ttl = case.note, seconds(case.age_ms), seconds(case.ttl_ms)
    unswept = f"No renewal came for {age} under a lock of {ttl}, and no sweep has found the job yet."
    if case.own_lag_ms >= max(PAUSE_MS_MIN, case.over_ms):
        return Diagnosis("expired_unswept", unswept, seqs(case.proof))
    talked = case.talked
    if talked and note.op == "renew" and not case.regular:
        words = f"The worker talked, and its renewal came after {age} under a lock of {ttl}: its interval is too long"
        why = "or what it ran before kept its timer from firing: its first calls do not tell"
        return Diagnosis("renew_config", f"{words}, {why}.", seqs(case.proof))
    if talked and not case.renewals and not case.regular:
        words = f"No renewal ever came for {age} under a lock of {ttl}, though the worker talked"
        why = "renewal is off, or its interval too long"
        if not case.seen_talking:
            why = f"{why}, or what it ran kept its timer from firing: its first calls do not tell"
        return Diagnosis("renew_config", f"{words}: {why}.", seqs(case.proof))
    if case.renewals >= RENEWALS_MIN and note.op != "renew":
        words = f"{case.renewals} renewals came, and then none for {age} under a lock of {ttl}"
        why = "its timer was stopped, or what it ran kept its timer from firing: its first calls do not tell"
        return Diagnosis("renew_stopped", f"{words}: {why}.", seqs(case.proof))
    return Diagnosis("expired_unswept", unswept, seqs(case.proof))
