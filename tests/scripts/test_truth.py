"""What an answer proves is so: random histories on a real Redis, each fact compared with the lock itself afterwards."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from emqproxy.locks.events import (
    Absent,
    Bypassed,
    Deleted,
    Granted,
    HeldByOther,
    LockFact,
    NoProof,
    Nothing,
    NotMine,
    Overwritten,
    PerhapsGranted,
    Released,
    Renewed,
    Untouched,
)
from emqproxy.session.exchange import Reply
from tests.scripts.talk import (
    PREFIX,
    Conversation,
    back,
    delay,
    evalsha,
    finish,
    keys,
    lock,
    pick,
    release,
    renew,
    renew_all,
    retry,
    sha_of,
    sweep,
    to_children,
)

JOBS = ("1", "2", "3", "x:4")
TOKENS = ("a:1", "a:2", "b:1", "0", "")
STEPS = 500


def step(talk: Conversation, chance: random.Random) -> list[bytes | None]:
    """One call, and before it, now and then, something that happens to a queue."""
    job, token = chance.choice(JOBS), chance.choice(TOKENS)
    match chance.randrange(6):
        case 0:
            talk.add(job)
        case 1:
            talk.redis("DEL", lock(job).key)
        case 2:
            talk.redis("SADD", PREFIX + job.encode() + b":dependencies", "child")
        case 3:
            talk.redis("DEL", PREFIX + job.encode() + b":dependencies", PREFIX + b"stalled-check")
        case 4 if chance.random() < 0.2:
            talk.redis("DEL", PREFIX + job.encode())
        case _:
            pass
    fetch = chance.choice(("0", "1"))
    return chance.choice(
        [
            pick(token),
            pick(token),
            renew(job, token),
            renew_all(JOBS[:3], chance.choices(TOKENS, k=3)),
            finish(job, token, fetch=fetch, target=chance.choice(("completed", "failed"))),
            delay(job, token, fetch=fetch, next_token=chance.choice(TOKENS)),
            retry(job, token),
            back(job, token),
            to_children(job, token),
            release(job, token),
            sweep(),
            *beside_locks(job, chance),
        ]
    )


def beside_locks(job: str, chance: random.Random) -> list[list[bytes | None]]:
    """A removal, a write, a hand on the lock's key: some of them."""
    key, other = (lock(each).key for each in (job, chance.choice([each for each in JOBS if each != job])))
    calls: list[list[bytes | None]] = [
        evalsha(sha_of("removeJob-2"), keys(job, "repeat"), job, "0", PREFIX),
        evalsha(sha_of("updateProgress-3"), keys(job, "events", "meta"), job, "5"),
        [b"DEL", key, other],
        [b"GETDEL", key],
        [b"SET", key, b"c:1", b"PX", b"30000", chance.choice((b"NX", b"XX", b"KEEPTTL"))][: chance.choice((5, 6))],
        [b"PEXPIRE", key, chance.choice((b"60000", b"0"))],
        [b"RENAME", key, other],
        [b"EVAL", b"return redis.call('SET', KEYS[1], 'd:1')", b"1", key],
    ]
    return chance.sample(calls, 2)


def holds(fact: LockFact, before: Reply, after: Reply) -> bool:
    """Whether the fact is true of a lock that had one value before the call and has another after it."""
    match fact:
        case Granted():
            return after == fact.token
        case Renewed():
            return before == after == fact.token
        case Released():
            return before == fact.token and after is None
        case Absent():
            return before is None
        case HeldByOther():
            if not fact.token and before == b"":
                return after == b""  # a removal speaks for nobody, and here the lock's own token is empty, too
            return before == after and before not in (None, fact.token)
        case NotMine():
            return before == after != fact.token
        case NoProof() | Bypassed():
            return before == after
        case Deleted():
            return after is None
        case Overwritten():
            return True
        case Untouched():
            return before == after
        case _:
            return False


@pytest.mark.parametrize("seed", range(4))
def test_facts_are_true(talk, seed):
    chance, seen = random.Random(seed), Counter()
    for _ in range(STEPS):
        sent = step(talk, chance)
        before = {lock(job): talk.redis("GET", lock(job).key) for job in JOBS}
        happenings = talk.ask(sent)
        after = {lock(job): talk.redis("GET", lock(job).key) for job in JOBS}
        named = Counter(h.fact.lock for h in happenings if isinstance(h.fact, LockFact))
        for happening in happenings:
            fact = happening.fact
            seen[type(fact)] += 1
            if isinstance(fact, Nothing | PerhapsGranted):
                continue
            if named[fact.lock] == 1:  # a job that one call ends and fetches again has no moment between to look at
                assert holds(fact, before[fact.lock], after[fact.lock]), (sent, fact)
        for changed in (key for key in before if before[key] != after[key]):
            assert changed in named, "a lock changes only where a fact names it"
    assert {Granted, Renewed, Released, Absent, HeldByOther, NotMine, NoProof, Bypassed, Nothing} <= set(seen)
    assert {Deleted, Overwritten, Untouched} <= set(seen)
