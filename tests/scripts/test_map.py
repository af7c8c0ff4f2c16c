"""The map "what an answer proves", row by row, on a real Redis with the scripts of 5.65.1 and 6.x.

Each row: what stands in Redis, one call, the fact that its answer is, and the lock key before and after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import pytest

from emqproxy.locks.events import (
    Absent,
    Bypassed,
    Granted,
    HeldByOther,
    NoProof,
    Nothing,
    NotMine,
    Perhaps,
    PerhapsGranted,
    Released,
    Renewed,
)
from emqproxy.scripts.layouts import release as release_of
from tests.processes import RedisServer
from tests.scripts.conftest import LABELS
from tests.scripts.older import old_texts
from tests.scripts.talk import (
    PREFIX,
    TTL_MS,
    Conversation,
    back,
    delay,
    finish,
    lock,
    pick,
    release,
    renew,
    renew_all,
    retry,
    sha_of,
    sweep,
    text_of,
    to_children,
)
from tests.scripts.test_truth import holds

OLD = "5.65.1"
A, B = "a:1", "b:1"
SHORTER = {"moveToDelayed": 7}
"""Arguments of 5.65.1, where they are fewer."""

Sent = list[bytes | None]


class Tongue:
    """A conversation in which every call is made as a release makes it."""

    def __init__(self, talk: Conversation, line: str) -> None:
        self.talk, self._old = talk, old_texts() if line == OLD else {}
        self._names = {sha_of(label): label.rpartition("-")[0] for label in LABELS}
        for label in LABELS:
            text = self._old[label.rpartition("-")[0]][0] if self._old else text_of(label)
            assert isinstance(talk.redis("SCRIPT", "LOAD", text), bytes)

    def ask(self, sent: Sent) -> list[object]:
        """The facts of one call."""
        return [happening.fact for happening in self.talk.ask(self.spoken(sent))]

    def spoken(self, sent: Sent) -> Sent:
        """A call as this release makes it."""
        name = self._names[sent[1] or b""]
        if not self._old:
            return sent
        text, arity = self._old[name]
        count = int(sent[2] or b"0")
        args = sent[3 + count :][: SHORTER.get(name)]
        return [sent[0], hashlib.sha1(text).hexdigest().encode(), b"%d" % arity, *sent[3 : 3 + arity], *args]

    def token_of(self, job: str) -> object:
        return self.talk.redis("GET", lock(job).key)

    # ---------------------------------------------------------------- what stands in Redis

    def held(self) -> None:
        """Jobs 1 and 2 in active, held by A and B; 3 in wait."""
        self.talk.add("1")
        self.talk.ask(self.spoken(pick(A)))
        self.talk.add("2")
        self.talk.ask(self.spoken(pick(B)))
        self.talk.add("3")
        assert (self.token_of("1"), self.token_of("2")) == (A.encode(), B.encode())


@pytest.fixture(params=["6.x", OLD])
def tongue(request: pytest.FixtureRequest, redis_server: RedisServer, catalogue: object) -> Iterator[Tongue]:
    talk = Conversation(redis_server.port, catalogue)  # type: ignore[arg-type]
    yield Tongue(talk, request.param)
    talk.close()


def test_the_texts_are_of_that_release(catalogue):
    for name in {label.rpartition("-")[0] for label in LABELS}:
        script = catalogue.identify(old_texts()[name][0])
        first, _, last = script.releases.partition("-")
        assert release_of(first) <= release_of(OLD) <= release_of(last), name


# ---------------------------------------------------------------- the rows

MOVES: dict[str, Callable[..., Sent]] = {
    "finish": finish, "delay": delay, "retry": retry, "wait": back, "wait_children": to_children,
}  # fmt: skip
CODED = [op for op in MOVES if op != "wait"]
"""Those that look for the job in active behind the lock."""


def check(tongue: Tongue, sent: Sent, *wanted: type[object]) -> None:
    """The facts are these, and each is true of its lock's key before and after."""
    jobs = ("1", "2", "3")
    before = {lock(job): tongue.token_of(job) for job in jobs}
    facts = tongue.ask(sent)
    assert [type(fact) for fact in facts] == list(wanted), facts
    for fact in facts:
        if not isinstance(fact, (Nothing, PerhapsGranted)):
            key = fact.lock  # type: ignore[attr-defined]
            assert holds(fact, before[key], tongue.talk.redis("GET", key.key)), fact  # type: ignore[arg-type]


def test_a_pickup_grants_whatever_was_before(tongue):
    tongue.held()
    check(tongue, pick("c:1"), Granted)
    assert tongue.token_of("3") == b"c:1"
    tongue.talk.add("1")  # a job whose lock lives is in wait again: by hand, or by a move with "0"
    check(tongue, pick("c:2"), Granted)
    assert tongue.token_of("1") == b"c:2"
    check(tongue, pick("c:3"), Nothing)


def test_a_finish_that_fetches_releases_one_and_grants_another(tongue):
    tongue.held()
    check(tongue, finish("1", A, fetch="1"), Released, Granted)
    assert tongue.token_of("3") == A.encode()
    check(tongue, finish("3", A, fetch="1"), Released, Nothing)


def test_a_delay_that_fetches(tongue):
    tongue.held()
    if tongue._old:
        check(tongue, delay("1", A, fetch="1", next_token="c:1"), Released)
        assert tongue.token_of("3") is None, "5.65.1 does not fetch with a delay"
    else:
        check(tongue, delay("1", A, fetch="1", next_token="c:1"), Released, Granted)
        assert tongue.token_of("3") == b"c:1"


@pytest.mark.parametrize("op", MOVES)
def test_the_codes_of_a_move(tongue, op):
    """-6, then 0, then -2, then -1."""
    tongue.held()
    tongue.talk.redis("SADD", PREFIX + b"2:dependencies", "child")
    if op == "wait_children":
        tongue.talk.redis("SADD", PREFIX + b"1:dependencies", "child")
    move = MOVES[op]
    check(tongue, move("1", B), HeldByOther)
    check(tongue, move("1", A), Released)
    assert tongue.token_of("1") is None
    check(tongue, move("1", A), Absent)
    tongue.talk.redis("DEL", PREFIX + b"1")
    check(tongue, move("1", A), NoProof)


@pytest.mark.parametrize("op", CODED)
def test_minus_three_comes_after_the_lock_was_deleted(tongue, op):
    tongue.held()
    tongue.talk.redis("SADD", PREFIX + b"1:dependencies", "child")
    if op == "finish":
        tongue.talk.redis("DEL", PREFIX + b"1:dependencies")
    tongue.talk.redis("DEL", PREFIX + b"active")
    check(tongue, MOVES[op]("1", A), Released)
    assert tongue.token_of("1") is None


@pytest.mark.parametrize("op", MOVES)
def test_the_token_zero_moves_the_job_and_leaves_the_lock(tongue, op):
    tongue.held()
    if op == "wait_children":
        tongue.talk.redis("SADD", PREFIX + b"1:dependencies", "child")
    check(tongue, MOVES[op]("1", "0"), Bypassed)
    assert tongue.token_of("1") == A.encode()
    assert b"1" not in tongue.talk.redis("LRANGE", PREFIX + b"active", 0, -1)


def test_children_are_looked_at_before_the_token(tongue):
    tongue.held()
    check(tongue, to_children("1", A), NoProof)  # 1: none is pending
    tongue.talk.redis("SADD", PREFIX + b"1:dependencies", "child")
    check(tongue, finish("1", A), NoProof)  # -4
    tongue.talk.redis("DEL", PREFIX + b"1:dependencies")
    tongue.talk.redis("ZADD", PREFIX + b"1:unsuccessful", 1, "child")
    for move in (finish, to_children):
        check(tongue, move("1", A), NoProof)  # -9
        check(tongue, move("1", B), NoProof)
    assert tongue.token_of("1") == A.encode()


def test_renewals(tongue):
    tongue.held()
    check(tongue, renew("1", A), Renewed)
    check(tongue, renew("1", B), NotMine)
    check(tongue, renew("3", A), NotMine)
    check(tongue, renew_all(["1", "2", "3"], [A, A, A]), Renewed, NotMine, NotMine)
    check(tongue, renew_all(["1", "2"], [A, B]), Renewed, Renewed)
    check(tongue, renew("1", A, 77_000), Renewed)
    assert 70_000 < tongue.talk.redis("PTTL", lock("1").key) <= 77_000


def test_a_release(tongue):
    tongue.held()
    check(tongue, release("1", B), NotMine)
    check(tongue, release("1", A), Released)
    check(tongue, release("1", A), NotMine)


def test_a_sweep_names_what_it_found_without_a_lock(tongue):
    tongue.held()
    tongue.talk.redis("DEL", lock("1").key)
    check(tongue, sweep(), Nothing)  # marks
    tongue.talk.redis("DEL", PREFIX + b"stalled-check")
    check(tongue, sweep(), Absent, Nothing)
    assert tongue.token_of("2") == B.encode()


# ---------------------------------------------------------------- errors


def test_errors_before_the_first_write_prove_nothing(tongue, redis_server):
    tongue.held()
    every = [finish("1", A), delay("1", A), retry("1", A), back("1", A), renew("1", A), release("1", A)]
    redis = tongue.talk.redis
    assert redis("CONFIG", "SET", "maxmemory", "1") == b"OK"
    check(tongue, renew("1", A), NoProof)
    check(tongue, renew_all(["1", "2"], [A, B]), NoProof, NoProof)
    check(tongue, finish("2", B), Released)  # its first write, a DEL, needs no memory; then it is let finish
    assert redis("CONFIG", "SET", "maxmemory", "0") == b"OK"
    redis("REPLICAOF", "127.0.0.1", "1")
    for sent in every:
        check(tongue, sent, NoProof)
    redis("REPLICAOF", "NO", "ONE")
    redis("SCRIPT", "FLUSH")
    for sent in every:
        check(tongue, sent, NoProof)
    redis("ACL", "SETUSER", "default", "-evalsha")
    for sent in every:
        check(tongue, sent, NoProof)
    check(tongue, pick("c:1"), Nothing)
    assert (tongue.token_of("1"), tongue.token_of("3")) == (A.encode(), None)


def test_errors_in_the_middle_may_have_done_anything(tongue):
    """A key of the wrong type stops a script half-way: behind its first writes."""
    tongue.held()
    redis = tongue.talk.redis
    redis("DEL", PREFIX + b"stalled")
    redis("SET", PREFIX + b"stalled", "no set")
    (fact,) = tongue.ask(renew("1", A, 77_000))
    assert isinstance(fact, Perhaps)
    assert fact.ttl_ms == 77_000
    assert redis("PTTL", lock("1").key) > TTL_MS, "the error came after the new time to live was set"
    first, second = tongue.ask(renew_all(["1", "2"], [A, B], 99_000))
    assert (type(first), type(second)) == (Perhaps, Perhaps)
    times = [redis("PTTL", lock(job).key) for job in ("1", "2")]
    assert times[0] > 90_000 or times[1] <= TTL_MS, "a batch that failed extended its first ids at most"
    (fact,) = tongue.ask(finish("1", A))
    assert isinstance(fact, Perhaps)
    assert fact.ttl_ms is None
    assert tongue.token_of("1") is None, "the error came after the lock was deleted"


def test_a_failed_pickup_may_have_granted(tongue):
    tongue.held()
    redis = tongue.talk.redis
    redis("DEL", PREFIX + b"3")
    redis("SET", PREFIX + b"3", "no hash")
    (fact,) = tongue.ask(pick("c:1"))
    assert isinstance(fact, PerhapsGranted)
    assert (fact.token, fact.ttl_ms) == (b"c:1", TTL_MS)
    assert b"3" in redis("LRANGE", PREFIX + b"active", 0, -1)
