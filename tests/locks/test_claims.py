"""Who took a job over which connection, and what is not claimed."""

from __future__ import annotations

import pytest

from emqproxy.locks.claims import FORMER_MAX, Claims
from emqproxy.locks.events import AnyFact, Blinded, Lock, PerhapsGranted, Place, Queue, Sighted, Wiped
from tests.locks.history import JOB, QUEUE, fact_of, intent_of, job, span

MAILS = Queue(0, b"emq:mails:")


class Seen:
    """Claims, and the facts that are told to them: each a millisecond after the one before."""

    def __init__(self, locks_max: int = 100) -> None:
        self.claims = Claims(locks_max)
        self.now = 0

    def fact(self, kind: str, token: bytes = b"T", conn: int = 1, lock: Lock = JOB) -> None:
        self.now += 10
        self.observe(fact_of(kind, Place(conn, self.now), span(self.now, self.now + 5), token, lock))

    def observe(self, fact: AnyFact) -> None:
        self.claims.observed(fact)

    def use(self, token: bytes = b"T", conn: int = 1, lock: Lock = JOB, kind: str = "renewed") -> None:
        self.now += 10
        self.claims.spoke(intent_of(kind, Place(conn, self.now), token, lock))

    def stale(self, token: bytes = b"T", conn: int = 1, lock: Lock = JOB) -> bool:
        return self.claims.is_stale(lock, token, conn)

    def zombie(self, conn: int = 1, lock: Lock = JOB) -> bytes | None:
        """Who holds what this connection lost."""
        since = self.claims.holder_since(lock, conn)
        return None if since is None else since.token


def taken_over(first: bytes = b"T", second: bytes = b"T") -> Seen:
    """Connection 1 took the job; connection 2 took it since."""
    seen = Seen()
    seen.fact("grant", first, 1)
    seen.fact("grant", second, 2)
    return seen


def test_who_lost_a_job_to_another_connection_with_the_same_token_is_stale() -> None:
    seen = taken_over()
    assert seen.stale(conn=1)
    assert not any(seen.stale(conn=conn) for conn in (2, 3))
    assert not seen.stale(b"other", 1)
    assert not seen.stale(conn=1, lock=job(7))


def test_who_lost_a_job_to_another_worker_is_a_zombie_there_and_nowhere_else() -> None:
    seen = taken_over(b"A", b"B")
    assert seen.zombie(1) == b"B"
    assert (seen.zombie(2), seen.zombie(3)) == (None, None)
    assert seen.zombie(1, job(7)) is None
    assert not seen.stale(b"B", 1)  # Redis itself tells them apart
    assert not seen.stale(b"A", 1)


def test_whoever_takes_it_again_has_it() -> None:
    seen = taken_over()
    seen.fact("grant", b"T", 1)
    assert (seen.stale(conn=1), seen.stale(conn=2)) == (False, True)
    seen = taken_over(b"A", b"B")
    seen.fact("grant", b"A2", 1)
    assert seen.zombie(1) is None
    assert seen.zombie(2) == b"A2"


def test_a_workers_own_next_token_makes_no_zombie_of_it() -> None:
    seen = taken_over(b"uuid:1", b"uuid:2")
    assert seen.zombie(1) is None
    seen.fact("grant", b"uuid-b:1", 3)
    assert seen.zombie(1) is None
    assert seen.zombie(2) == b"uuid-b:1"
    seen.fact("grant", b"uuid:3", 4)  # it has taken it again, over a third connection
    assert seen.zombie(1) is None


@pytest.mark.parametrize("again", [(b"uuid:3", 1), (b"uuid:3", 4), (b"other", 1)])
def test_who_took_it_again_and_gave_it_back_has_lost_nothing(again: tuple[bytes, int]) -> None:
    seen = taken_over(b"uuid:1", b"B")
    seen.fact("grant", *again)
    seen.fact("released", *again)
    seen.fact("grant", b"C", 5)
    assert seen.zombie(1) is None
    assert seen.zombie(again[1]) is None
    assert seen.zombie(2) == b"C"


@pytest.mark.parametrize("token", [b"", b"0"])
def test_the_wildcard_is_nobodys_sign(token: bytes) -> None:
    seen = taken_over(token, token)
    seen.use(token, 3)
    assert not seen.stale(token, 1)


@pytest.mark.parametrize("kind", ["renewed", "released"])
def test_a_token_used_from_two_connections_is_nobodys_sign_from_then_on(kind: str) -> None:
    seen = Seen()
    seen.fact("grant", conn=1, lock=job(7))
    seen.use(conn=3, lock=job(7), kind=kind)
    seen.fact("grant", conn=1)
    seen.fact("grant", conn=2)
    assert not seen.stale(conn=1)


def test_so_are_the_connections_whatever_their_next_tokens() -> None:
    for pool in ((1, 3), (3, 1), (2, 4), (4, 2)):
        seen = Seen()
        seen.fact("grant", b"X", pool[0], job(7))
        seen.use(b"X", pool[1], job(7))
        seen.fact("grant", b"A", 1)
        seen.fact("grant", b"B", 2)
        assert seen.zombie(1) is None, pool


def test_a_pool_shows_itself_by_a_token_that_has_lost_too() -> None:
    seen = taken_over(b"A", b"B")
    seen.use(b"A", 3)
    assert seen.zombie(1) is None


def test_and_on_a_job_whose_grant_was_not_seen() -> None:
    seen = Seen()
    for conn in (1, 2):
        seen.use(b"X", conn, job(7))
    seen.fact("grant", b"A", 1)
    seen.fact("grant", b"B", 2)
    assert seen.zombie(1) is None


@pytest.mark.parametrize("kind", ["renewed", "released"])
@pytest.mark.parametrize("conn", [1, 2])
def test_who_speaks_for_what_was_taken_elsewhere_is_nobodys_sign(kind: str, conn: int) -> None:
    seen = Seen()
    seen.fact(kind, b"X", conn, job(7))
    seen.fact("grant", b"A", 1)
    seen.fact("grant", b"B", 2)
    assert seen.zombie(1) is None
    for token in (b"A", b"B"):
        seen.fact(kind, token, 1)  # of its own job: no sign of that
    seen.fact("grant", b"C", 3)
    seen.fact("grant", b"D", 4)
    assert seen.zombie(3) == b"D"


def test_what_was_taken_here_before_it_was_forgotten_was_not_taken_elsewhere() -> None:
    seen = Seen()
    seen.fact("grant", b"A", 1)
    seen.observe(PerhapsGranted(Place(9, 0), span(900), QUEUE, b"", None))
    seen.use(b"A", 1)
    seen.fact("renewed", b"A", 1)
    seen.fact("released", b"A", 1)
    seen.fact("grant", b"B", 1)
    seen.fact("grant", b"C", 2)
    assert seen.zombie(1) == b"C"


def test_a_use_alone_makes_no_claim() -> None:
    seen = Seen()
    seen.use(b"T", 1)
    seen.fact("grant", b"T", 2)
    assert not seen.stale(conn=1)
    assert seen.zombie(1) is None


def test_a_strangers_token_says_nothing() -> None:
    seen = taken_over(b"A", b"B")
    seen.use(b"C", 1)
    seen.use(b"C", 9)
    seen.use(b"A", 1)
    seen.use(b"B", 2)
    assert seen.zombie(1) == b"B"


def test_a_worker_that_connected_anew_keeps_its_own_sign() -> None:
    seen = Seen()
    seen.fact("grant", b"A", 1, job(7))
    seen.observe(Sighted(Place(1, 0), span(seen.now)))
    seen.use(b"A", 2, job(7))
    seen.fact("grant", b"B", 2)
    seen.fact("grant", b"C", 3)
    assert seen.zombie(2) == b"C"


@pytest.mark.parametrize("kind", ["released", "released?"])
def test_who_gave_it_back_has_lost_nothing(kind: str) -> None:
    for first, second in ((b"T", b"T"), (b"A", b"B")):
        seen = Seen()
        seen.fact("grant", first, 1)
        seen.fact(kind, first, 1)
        seen.fact("grant", second, 2)
        assert not seen.stale(first, 1)
        assert seen.zombie(1) is None


def test_even_where_that_was_read_late() -> None:
    seen = taken_over(b"A", b"B")
    seen.fact("released", b"A", 1)
    assert seen.zombie(1) is None
    seen = taken_over()
    seen.fact("released", b"T", 1)
    assert not seen.stale(conn=1)


def test_the_holders_own_finish_does_not_absolve_who_lost_it_before() -> None:
    seen = taken_over(b"A", b"B")
    seen.fact("released", b"B", 2)
    seen.fact("grant", b"C", 3)
    assert seen.zombie(1) == b"C"
    assert seen.zombie(2) is None
    seen = taken_over()
    seen.fact("released", b"T", 2)
    seen.fact("grant", b"T", 3)
    assert seen.stale(conn=1)
    assert not seen.stale(conn=2)


def test_of_overlapping_grants_nobody_knows_the_order() -> None:
    for first, second in ((b"T", b"T"), (b"A", b"B")):
        seen = Seen()
        seen.observe(fact_of("grant", Place(1, 1), span(10, 30), first))
        seen.observe(fact_of("grant", Place(2, 1), span(20, 40), second))
        assert not seen.stale(first, 1)
        assert not seen.stale(second, 2)
        assert seen.zombie(1) is None
        assert seen.zombie(2) is None


@pytest.mark.parametrize("kind", ["deleted", "overwritten", "removed", "bypassed"])
def test_after_an_unseen_end_nothing_is_claimed(kind: str) -> None:
    seen = taken_over()
    seen.fact(kind)
    seen.fact("grant", b"T", 3)
    assert not seen.stale(conn=1)
    assert not seen.stale(conn=2)


@pytest.mark.parametrize("kind", ["renewed", "refused", "not_mine", "-2", "swept", "-6", "-1", "locked", "renewed?"])
def test_what_ends_no_acquisition_changes_no_claim(kind: str) -> None:
    seen = taken_over()
    seen.fact(kind)
    assert seen.stale(conn=1)


@pytest.mark.parametrize(
    ("hit", "fact"),
    [
        (True, Wiped(Place(9, 0), span(900), None)),
        (True, Wiped(Place(9, 0), span(900), 0, QUEUE.prefix)),
        (False, Wiped(Place(9, 0), span(900), 0, MAILS.prefix)),
        (False, Wiped(Place(9, 0), span(900), 1)),
        (True, PerhapsGranted(Place(9, 0), span(900), QUEUE, b"", None)),
        (False, PerhapsGranted(Place(9, 0), span(900), MAILS, b"", None)),
        (False, PerhapsGranted(Place(9, 0), span(900), Queue(1, QUEUE.prefix), b"", None)),
        (True, Blinded(Place(9, 0), span(900))),
        (False, Sighted(Place(9, 0), span(900))),
    ],
)
def test_what_hits_many_forgets_them(fact: AnyFact, *, hit: bool) -> None:
    seen = taken_over()
    seen.observe(fact)
    assert seen.stale(conn=1) is not hit
    if hit:
        seen.fact("grant", b"T", 3)  # from here on it is known again
        seen.fact("grant", b"T", 4)
        assert [seen.stale(conn=conn) for conn in (1, 2, 3, 4)] == [False, False, True, False]


def test_a_bypass_is_remembered_until_the_next_grant() -> None:
    seen = Seen()
    seen.fact("grant")
    assert not seen.claims.was_bypassed(JOB)
    seen.fact("bypassed", b"0", 2)
    assert seen.claims.was_bypassed(JOB)
    assert not seen.claims.was_bypassed(job(7))
    seen.fact("grant")
    assert not seen.claims.was_bypassed(JOB)


def test_memory_is_bounded() -> None:
    seen = Seen(locks_max=10)
    for number in range(50):
        seen.fact("grant", b"T", number, job(number))
        seen.use(b"T", number, job(1000 + number))
        seen.fact("bypassed", b"0", 1, job(2000 + number))
    for conn in range(50):
        seen.fact("grant", b"T", conn)
    claims = seen.claims
    assert len(claims) == sum(map(len, claims._of_queue.values())) == 10
    assert len(claims._bypassed) == 10
    assert max(len(claim.former) for claim in claims._by_lock.values()) == FORMER_MAX
