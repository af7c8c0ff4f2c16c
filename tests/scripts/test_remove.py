"""Removals, on a real Redis: what each answer proves of the lock, and what became of the lock's key."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import (
    Absent,
    Deleted,
    HeldByOther,
    Nothing,
    Overwritten,
    Remove,
    Sweep,
    Untouched,
    Wipe,
    Wiped,
)
from emqproxy.scripts.layouts import NamedJob
from emqproxy.scripts.operation import Script
from emqproxy.scripts.remove import WORDS_MAX, Clean, JobRemoval, Obliteration, Orphans
from emqproxy.session.exchange import LOST, NOT_RUN, ErrorReply
from emqproxy.wire.frames import HELD_WORDS_MAX
from tests.scripts.roles import Speaker
from tests.scripts.talk import AT, PREFIX, QUEUE, exchange, keys, lock, read

SCRIPT = Script("removeJob", 2, "f" * 40, "catalogue", "5.52.1-6.7.0")


def test_a_removed_job_had_no_lock(speaker: Speaker) -> None:
    speaker.talk.add("1")
    fact, line = speaker.one("removeJob", job_id="1", remove_children="1")
    assert isinstance(fact, Absent)
    assert (fact.lock, fact.queue, fact.token, fact.swept) == (lock("1"), QUEUE, b"", False)
    assert (line.op, line.outcome, line.code) == ("remove", "ok", 1)
    assert speaker.talk.operation is not None
    assert speaker.talk.operation.intents(AT, 0) == (Remove(AT, QUEUE, lock("1"), b""),)


@pytest.mark.parametrize(("children", "proof"), [("0", HeldByOther), ("1", Untouched)])
def test_a_locked_job_is_not_removed(speaker: Speaker, children: str, proof: type[HeldByOther | Untouched]) -> None:
    speaker.held()
    fact, line = speaker.one("removeJob", job_id="1", remove_children=children)
    assert isinstance(fact, proof)
    assert (line.op, line.outcome, line.code, line.code_name) == ("remove", "refused", 0, "JobLocked")
    assert speaker.token_of("1") == b"a:1"


def test_where_a_child_is_locked_nothing_is_said_of_the_jobs_own_lock(speaker: Speaker) -> None:
    speaker.held("1")
    speaker.talk.add("2")
    speaker.redis("SADD", PREFIX + b"2:dependencies", PREFIX + b"1")
    fact, line = speaker.one("removeJob", job_id="2", remove_children="1")
    assert isinstance(fact, Untouched)
    assert line.code_name == "JobLocked"
    assert speaker.token_of("2") is None


def test_a_schedulers_job_is_refused_before_its_lock_is_looked_at(speaker: Speaker) -> None:
    speaker.redis("ZADD", PREFIX + b"repeat", 1, "s")
    speaker.talk.add("repeat:s:1", rjk="s")
    speaker.redis("SET", lock("repeat:s:1").key, "a:1")
    fact, line = speaker.one("removeJob", job_id="repeat:s:1", remove_children="0")
    assert isinstance(fact, Untouched)
    assert (line.outcome, line.code, line.code_name) == ("refused", -8, "JobBelongsToJobScheduler")


def test_a_removal_that_was_not_answered_proves_nothing() -> None:
    operation = JobRemoval(SCRIPT, NamedJob(lock("1").key, PREFIX), children=False)
    for reply in (LOST, NOT_RUN, ErrorReply(b"OOM no"), b"what"):
        ((fact, line),) = [(h.fact, h.line) for h in read(operation, exchange([b"evalsha"], reply))]
        assert isinstance(fact, Untouched)
        assert (line is None) == (reply is NOT_RUN)


# ---------------------------------------------------------------- many jobs


def test_a_clean_of_the_active_list_names_what_it_found_without_a_lock(speaker: Speaker) -> None:
    speaker.held("1")
    speaker.held("2", "b:1")
    speaker.redis("DEL", lock("2").key)
    roles = {"state_set": PREFIX + b"active", "state": "active", "max_timestamp": 9_999_999_999_999, "limit": "0"}
    (absent, line), (nothing, none) = speaker.happenings("cleanJobsInSet", **roles)
    assert isinstance(absent, Absent)
    assert isinstance(nothing, Nothing)
    assert (absent.lock, nothing.place, none) == (lock("2"), AT, None)
    assert line is not None
    assert (line.op, line.outcome, line.batch_size) == ("remove", "ok", 1)
    assert speaker.talk.operation is not None
    assert speaker.talk.operation.intents(AT, 0) == (Sweep(AT, QUEUE),)


def test_a_clean_of_another_set_looks_at_no_lock(speaker: Speaker) -> None:
    speaker.talk.add("1")
    speaker.redis("SET", lock("1").key, "a:1")
    roles = {"state_set": PREFIX + b"wait", "state": "wait", "max_timestamp": 9_999_999_999_999, "limit": "0"}
    (fact, line), _ = speaker.happenings("cleanJobsInSet", **roles)
    assert isinstance(fact, Untouched)
    assert (fact.lock, line and line.op) == (lock("1"), "remove")
    assert speaker.token_of("1") == b"a:1"
    assert [type(fact) for fact, _ in speaker.happenings("cleanJobsInSet", **roles)] == [Nothing]


def test_a_clean_that_failed_names_nobody() -> None:
    for reply in (LOST, ErrorReply(b"ERR no"), NOT_RUN):
        (happening,) = read(Clean(SCRIPT, PREFIX, active=True), exchange([b"evalsha"], reply))
        assert (type(happening.fact), happening.line) == (Nothing, None)


def test_an_obliteration(speaker: Speaker) -> None:
    speaker.held("1")
    fact, line = speaker.one("obliterate", count=1000, force="")
    assert isinstance(fact, Nothing)
    assert (line.op, line.outcome, line.code, line.code_name) == ("wipe", "refused", -1, "NotPaused")
    speaker.redis("HSET", PREFIX + b"meta", "paused", 1)
    fact, line = speaker.one("obliterate", count=1000, force="")
    assert isinstance(fact, Nothing)
    assert (line.outcome, line.code, line.code_name) == ("refused", -2, "HasActiveJobs")
    assert speaker.token_of("1") == b"a:1"
    fact, line = speaker.one("obliterate", count=1000, force="force")
    assert isinstance(fact, Wiped)
    assert (fact.db, fact.prefix, fact.place) == (0, PREFIX, AT)
    assert (line.op, line.outcome, line.code) == ("wipe", "ok", 0)
    assert speaker.token_of("1") is None
    assert speaker.talk.operation is not None
    assert speaker.talk.operation.intents(AT, 0) == (Wipe(AT, QUEUE),)


def test_an_obliteration_that_was_cut_short_may_have_deleted_locks() -> None:
    forced, gentle = Obliteration(SCRIPT, PREFIX, force=True), Obliteration(SCRIPT, PREFIX, force=False)
    for reply in (LOST, ErrorReply(b"WRONGTYPE no")):
        (happening,) = read(forced, exchange([b"evalsha"], reply))
        assert isinstance(happening.fact, Wiped)
        (happening,) = read(gentle, exchange([b"evalsha"], reply))
        assert isinstance(happening.fact, Nothing)
    (happening,) = read(forced, exchange([b"evalsha"], ErrorReply(b"OOM no")))
    assert isinstance(happening.fact, Nothing)


def test_a_drained_queue_keeps_its_locks(speaker: Speaker) -> None:
    speaker.held("1")
    speaker.talk.add("2")
    fact, line = speaker.one("drain", remove_delayed="0")
    assert isinstance(fact, Nothing)
    assert (fact.queue, line.op, line.outcome) == (QUEUE, "wipe", "ok")
    assert speaker.redis("EXISTS", PREFIX + b"2") == 0
    assert speaker.token_of("1") == b"a:1"


# ---------------------------------------------------------------- orphans: 5.70.2 and later


def orphans(speaker: Speaker, *ids: str, subkeys: tuple[str, ...] = ("logs", "lock")) -> list[tuple[object, object]]:
    roles = {"suffix_count": 2, "suffixes": ["wait", "active"], "subkey_count": len(subkeys), "subkeys": [*subkeys]}
    return list(speaker.happenings("removeOrphanedJobs", job_ids=[*ids], **roles))


@pytest.mark.parametrize("speaker", ["6.x"], indirect=True)
def test_orphans(speaker: Speaker) -> None:
    for job in ("1", "2", "3"):
        speaker.redis("SET", lock(job).key, "a:1")
    speaker.talk.add("3")
    (one, line), (two, _), (end, none) = orphans(speaker, "1", "2")
    assert isinstance(one, Deleted)
    assert isinstance(two, Deleted)
    assert (one.lock, two.lock, type(end), none) == (lock("1"), lock("2"), Nothing, None)
    assert line is not None
    assert (speaker.token_of("1"), speaker.token_of("2")) == (None, None)
    assert speaker.talk.operation is not None
    assert speaker.talk.operation.intents(AT, 0) == (Wipe(AT, QUEUE),)
    assert [type(fact) for fact, _ in orphans(speaker, "1", "3")] == [Overwritten, Overwritten, Nothing]
    assert [type(fact) for fact, _ in orphans(speaker, "3")] == [Nothing]
    assert speaker.token_of("3") == b"a:1"
    assert [type(fact) for fact, _ in orphans(speaker, "4", subkeys=("logs",))] == [Untouched, Nothing]


def test_orphans_that_were_too_many_to_be_held_are_a_wipe_of_the_queue() -> None:
    assert WORDS_MAX == HELD_WORDS_MAX
    operation = Orphans(SCRIPT, PREFIX, (b"1",), locks=True, whole=False)
    (happening,) = read(operation, exchange([b"evalsha"], 500))
    assert isinstance(happening.fact, Wiped)
    assert happening.fact.prefix == PREFIX
    assert keys("1") == [PREFIX + b"1"]
