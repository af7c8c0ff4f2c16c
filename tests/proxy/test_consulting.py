"""How long a worker was silent on all its connections, how much it said at once, and its line as a note."""

from __future__ import annotations

from emqproxy.locks.events import Granted, Lock, NotMine, Place, Queue, Renew, Sweep, Window
from emqproxy.locks.notes import MS
from emqproxy.locks.verdicts import Verdict
from emqproxy.proxy.consulting import Consulting
from emqproxy.proxy.watched import Watched
from emqproxy.records import JobFields, Line, Peer
from emqproxy.session.gated import GatedSession

QUEUE, LOCK = Queue(0, b"emq:orders:"), Lock(0, b"emq:orders:1:lock")
TTL_MS = 2000


class Practice:
    """A worker `a` with two connections."""

    def __init__(self) -> None:
        self.consulting = Consulting(0, 100)
        self.conns = [Watched(number, f"c{number}", GatedSession()) for number in (1, 2)]
        self.consulting.speakers |= {conn.conn: conn for conn in self.conns}

    def take(self, ms: int, conn: int, token: bytes = b"a:1") -> None:
        at = Window(ms * MS, ms * MS)
        fact = Granted(Place(conn, 1), at, LOCK, QUEUE, token, TTL_MS)
        line = Line("acquire", "ok", job=JobFields(name="n", attempts_started=1))
        self.consulting.line(1, line, Verdict(fact, None, ttl_ms=TTL_MS), Peer(conn, "c", None), None, 0, None)

    def idle_ms(self, ms: int, conn: int, token: bytes = b"a:1") -> float | None:
        intent = Renew(Place(conn, 2), QUEUE, LOCK, token, TTL_MS)
        return self.consulting.idle_ms(self.conns[conn - 1], (intent,), ms * MS)


def test_a_worker_was_silent_only_where_all_its_connections_were():
    practice = Practice()
    practice.take(0, 1)
    practice.conns[0].heard(5000 * MS)
    assert practice.idle_ms(5000, 1) == 5000
    practice.take(0, 2, b"a:2")
    practice.conns[1].heard(4000 * MS)
    assert practice.idle_ms(5000, 1) == 1000
    assert practice.idle_ms(5000, 1, b"b:1") == 5000, "another worker's connection is not asked"


def test_how_long_it_was_silent_is_known_as_exactly_as_it_is_told():
    practice = Practice()
    practice.take(0, 1)
    practice.conns[0].silent_from = 999
    assert practice.idle_ms(5000, 1) == 4999.999


def test_a_call_without_a_token_is_nobodys():
    practice = Practice()
    assert practice.consulting.idle_ms(practice.conns[0], (Sweep(Place(1, 1), QUEUE),), 5 * MS) is None


def test_a_refusal_is_diagnosed_with_the_calls_that_came_at_once():
    practice = Practice()
    practice.take(0, 1)
    for conn in practice.conns[:1]:
        conn.calls.extend([4500 * MS, 4501 * MS])
    fact = NotMine(Place(1, 2), Window(4500 * MS, 4501 * MS), LOCK, QUEUE, b"a:1", True, TTL_MS)
    line = Line("renew", "refused", code=0, code_name="RenewRefused")
    found, burst = practice.consulting.line(2, line, Verdict(fact, None), Peer(1, "c1", "w"), None, 0, 4500.0)
    assert burst == 2
    assert found is not None
    assert found.cause == "expired_worker_silent"
    assert "emq:orders:1" in found.because
