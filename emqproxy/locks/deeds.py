"""Causes that somebody's deed decides: the answer itself, what the speaker did before, what others did to the job."""

from __future__ import annotations

from typing import Final

from emqproxy.locks.case import MOVES, Case
from emqproxy.locks.causes import Diagnosis, ago, by, did, lapsed_before, seqs
from emqproxy.locks.notes import Note, between_ms, seconds

PAIR_MS: Final = 1000.0
"""A worker that is refused its "completed" says "failed" at once; a renewal may be on its way for as long."""
UPTIME_MS_MIN: Final = 120_000.0
"""A lock that was taken before we began has ended by then, or has been renewed through us: twice the usual 60 s."""
HELD: Final = -6
SERVER_ERRORS: Final = frozenset(
    (
        "READONLY", "OOM", "BUSY", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "NOPERM", "NOAUTH", "CROSSSLOT",
        "CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "NOSCRIPT", "EXECABORT", "UNKILLABLE", "IOERR",
    )
)  # fmt: skip


# ---------------------------------------------------------------- the answer says it itself


def pending_children(case: Case) -> Diagnosis | None:
    note = case.note
    if note.code in {-4, -9} and note.op in MOVES:
        what = "has children that are not done" if note.code == -4 else "has children that failed"
        return Diagnosis("pending_children", f"The job {what}; its lock is held, and nothing was lost.")
    if note.code_name == "NoPendingChildren":
        return Diagnosis("pending_children", "The job has no children to wait for; its lock is held.")
    return None


def error(case: Case) -> Diagnosis | None:
    note = case.note
    if note.outcome != "error":
        return None
    name = note.code_name or "an error"
    if name == "WRONGTYPE":
        words = "a key has another type than the script expects: another release's layout, or another program's key"
        return Diagnosis("script_mismatch", f"Redis answered WRONGTYPE: {words}.")
    if name in SERVER_ERRORS:
        until = ""
        if note.op == "renew" and case.proof is not None:
            left = seconds(max(0.0, case.ttl_ms - case.age_ms))
            until = f" The lock ends in {left} unless a renewal gets through."
        words = f"Redis refused the call with {name}; it did not run.{until}"
        return Diagnosis("server_refused", words, seqs(case.proof))
    if note.op == "acquire":
        words = "the job it took is in the active list without a lock, until a sweep finds it"
        return Diagnosis("pickup_failed_dirty", f"The pickup failed in its middle: {words}.")
    if note.op == "wipe" and "-" not in note.script:  # FLUSHDB with a word that it does not know
        return None
    what = note.script or "The script"
    return Diagnosis("script_mismatch", f"{what} failed on what it was given: keys or arguments of another layout.")


# ---------------------------------------------------------------- the speaker's own doing


def applied_twice(case: Case) -> Diagnosis | None:
    first, note = case.own_unheard, case.note
    if first is None or case.own_end is not None or note.op not in MOVES or note.op != first.op:
        return None
    words = f"The same call was sent {ago(first, note)} before and its answer never came: it may have been applied."
    return Diagnosis("maybe_applied_twice", words, seqs(first))


def own_end(case: Case) -> Diagnosis | None:
    end = case.own_end
    if end is None:
        return None
    did = f"finished ({end.target})" if end.op == "finish" else f"moved (by {end.op})"
    ms = between_ms(end.closed, case.note.opened)
    when = "at the same moment" if ms <= 0 else f"{seconds(ms)} before"
    if case.note.op == "renew" and ms <= max(case.ttl_ms / 2, PAIR_MS):
        words = f"The worker {did} the job itself {when}; the renewal was on its way. Harmless."
        return Diagnosis("benign_renew_race", words, seqs(end))
    other = case.same_token
    if other is not None and end.conn != case.note.conn:
        words = f"{by(end)} {did} the job {when} with the same token: two connections took it with one token, and Redis"
        return Diagnosis("fixed_token", f"{words} cannot tell them apart.", seqs(other, end))
    words = f"The worker {did} the job itself {when}, and its code went on as if it still held it."
    return Diagnosis("already_moved_by_same_owner", words, seqs(end))


def never_owner(case: Case) -> Diagnosis | None:
    note = case.note
    if case.grant is not None or note.op == "write":
        return None
    if note.token is None:
        return Diagnosis("never_owner", "The call carried no token.")
    own = next((n for n in reversed(case.before) if n.worker == note.worker and n.effect == "granted"), None)
    if own is not None and own.token != note.token:
        words = f"The same worker took the job {ago(own, note)} before, under another token of its own."
        return Diagnosis("stale_suffix", words, seqs(own))
    first = next((n for n in case.before if n.effect == "granted" or n.op == "add"), None)
    if first is not None and case.whole and (first.op == "add" or first.starts == 1):
        if not any(n.effect == "granted" for n in case.before):
            words = f"The job was added {ago(first, note)} before and nobody has been given it since: it is waiting."
            return Diagnosis("never_owner", words, seqs(first))
        return Diagnosis("never_owner", "This token was never given the job, in all of its life.", seqs(first))
    uptime_ms = between_ms(case.began, note.opened)
    words = f"This token was not given the job in the {seconds(uptime_ms)} since emqproxy began to watch"
    if uptime_ms < UPTIME_MS_MIN:
        return Diagnosis("before_our_start", f"{words}; it may have been before, or past us.")
    return Diagnosis("never_owner", f"{words}.")


# ---------------------------------------------------------------- what others did


def bypass(case: Case) -> Diagnosis | None:
    found = case.bypass
    if found is None or case.note.code not in {-2, -3, 0, None}:
        return None
    words = f'{by(found)} moved the job {ago(found, case.note)} before with the token "0", which asks for no lock.'
    return Diagnosis("lock_bypass", words, seqs(found))


def removed(case: Case) -> Diagnosis | None:
    gone, note, deleted_key = case.removal, case.note, case.job_deleted
    if note.code == -1 and deleted_key is not None and (gone is None or gone.closed <= deleted_key.closed):
        what = did(deleted_key, f"deleted the job's own key ({deleted_key.script})")
        words = f"{by(deleted_key)} {what} {ago(deleted_key, note)} before."
        return Diagnosis("job_removed", words, seqs(deleted_key))
    if gone is not None and (note.code == -1 or not lapsed_before(case, gone)):
        what = "removed the job" if gone.op == "remove" else f"emptied its queue or database ({gone.script or 'wipe'})"
        return Diagnosis("job_removed", f"{by(gone)} {did(gone, what)} {ago(gone, note)} before.", seqs(gone))
    if note.code != -1:
        return None
    other = next((n for n in reversed(case.before) if n.op == "finish" and n.outcome == "ok"), None)
    if other is not None and other.token != note.token:
        words = f"{by(other, 'another worker')} finished the job {ago(other, note)} before, and that removed it."
        return Diagnosis("job_removed", words, seqs(other))
    if case.estranged is not None:
        words = f"Redis was lost or replaced {ago(case.estranged, note)} before, and the job with it."
        return Diagnosis("failover_lost_lock", words, seqs(case.estranged))
    return Diagnosis("job_vanished", "The job is gone, and nobody was seen removing it.", seqs(case.proof))


def deleted(case: Case) -> Diagnosis | None:
    hand, note = case.hand, case.note
    if hand is None or lapsed_before(case, hand):
        return None
    how = hand.script or "by a script that nobody knows"
    words = f"{by(hand)} wrote on the lock's key ({how}) {ago(hand, note)} before."
    return Diagnosis("lock_deleted_by", words, seqs(hand))


def double(case: Case) -> Diagnosis | None:
    taken = case.taken
    if taken is None or taken.finding != "double":
        return None
    words = f"The job was given to {by(taken, 'another worker')} {ago(taken, case.note)} before, while its lock lived"
    return Diagnosis("double_grant", f"{words}{pusher(case.pushed)}.", seqs(case.pushed, taken))


def held_by_taker(case: Case) -> Diagnosis | None:
    """The answer says that another holds it, and that is who: whatever kept the speaker from renewing it."""
    return (double(case) or retaken(case)) if case.note.code == HELD else None


def pusher(hand: Note | None) -> str:
    """Who put a job where others take it, as the end of a sentence."""
    return "" if hand is None else f"; {by(hand)} {did(hand, f'put it into {hand.target} by hand ({hand.script})')}"


def retaken(case: Case) -> Diagnosis | None:
    taken, note = case.taken, case.note
    if taken is None:
        return None
    who = "the same worker, under another token" if taken.worker == note.worker else by(taken, "another worker")
    done = next((n for n in case.before if n.token == taken.token and n.op in MOVES and n.outcome == "ok"), None)
    after = f"; it has ended it since (by {done.op})" if done is not None else "; it holds it now"
    how = ""
    if case.expired:
        how = f", after {seconds(case.age_ms)} without a renewal under a lock of {seconds(case.ttl_ms)}"
    hand = case.pushed if case.swept is None else None
    words = f"The job was taken by {who} {ago(taken, note)} before{how}{after}{pusher(hand)}."
    return Diagnosis("retaken", words, seqs(case.proof, case.swept, hand, taken, done))


def recovered(case: Case) -> Diagnosis | None:
    swept = case.swept
    if swept is None:
        return None
    words = f"A sweep put the job back {ago(swept, case.note)} before; nobody has taken it since."
    return Diagnosis("recovered_not_retaken", words, seqs(case.proof, swept))
