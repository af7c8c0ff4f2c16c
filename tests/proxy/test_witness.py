"""From bytes to records, without a relay: a real Redis answers, and what would go to the observer is looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import uvloop

from emqproxy import logs
from emqproxy.locks.ledger import LockLedger
from emqproxy.proxy import clock
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.clock import LoopLag
from emqproxy.proxy.unrecognised import Unrecognised
from emqproxy.proxy.witness import Witness
from emqproxy.records import AttemptOver, Hello, ObserverSettings, Record
from emqproxy.scripts.catalogue import Catalogue
from tests.processes import RedisServer
from tests.proxy.wires import dial, until
from tests.scripts.talk import PREFIX, finish, pick, renew, sha_of, text_of
from tests.scripts.talk import words as call_words
from tests.session.talk import words

DONE = b"$4\r\ndone\r\n"


class House:
    """A witness with all it needs; its bus has no observer, so that records stay where they can be read."""

    def __init__(self, redis: RedisServer) -> None:
        self.redis = redis
        self.bus = Bus(self._hello, lambda: (), logs.get())
        self.ledger = LockLedger()
        unrecognised = Unrecognised(("emq",), logs.get())
        self.witness = Witness(Catalogue(), self.ledger, self.bus, LoopLag(), unrecognised)
        self.unrecognised = unrecognised

    def _hello(self, restarts: int) -> Hello:
        return Hello("run", "0", "redis", 6379, restarts, ObserverSettings())

    @property
    def lines(self) -> list[Record]:
        """All of them."""
        return [message for message in self.bus._waiting if isinstance(message, Record)]

    @property
    def records(self) -> list[Record]:
        """Those of jobs and queues: none of connections that open or close."""
        return [record for record in self.lines if record.line.op != "conn"]

    @property
    def told(self) -> list[tuple[str, str, str]]:
        return [(r.line.op, r.line.outcome, r.call.match if r.call else "") for r in self.records]


class Wire:
    """One client's connection, watched."""

    def __init__(self, house: House, conn: int) -> None:
        self.house = house
        self.watched = house.witness.watch(conn, f"c:{conn}", 1 << 26)
        self.sock = dial(house.redis.port)

    def ask(self, parts: list[bytes | None]) -> None:
        self.send(*(part for part in parts if part is not None))
        self.settle()

    def send(self, *parts: bytes | str | int) -> None:
        data = words(*parts)
        self.sock.sendall(data)
        self.house.witness.asked(self.watched, self.watched.session.from_client(data, clock.now()))

    def settle(self) -> None:
        """Reads until all that was sent is answered."""
        self.send("ECHO", "done")
        got = b""
        while not got.endswith(DONE):
            piece = self.sock.recv(1 << 20)
            got += piece
            self.house.witness.answered(self.watched, self.watched.session.from_server(piece, clock.now()))

    def close(self) -> None:
        self.sock.close()
        now = clock.now()
        self.house.witness.answered(self.watched, self.watched.session.end(now))
        self.house.witness.closed(self.watched, now)

    def add(self, job: str) -> None:
        """A job waits; nobody saw it come."""
        self.house.redis.call("HSET", PREFIX + job.encode(), "name", "n", "opts", "{}")
        self.house.redis.call("LPUSH", PREFIX + b"wait", job)

    def load(self, *labels: str) -> None:
        for label in labels:
            self.send("SCRIPT", "LOAD", text_of(label))
        self.settle()


def within(redis: RedisServer, test: Callable[[House, Wire], Awaitable[None]]) -> None:
    async def run() -> None:
        house = House(redis)
        wire = Wire(house, 1)
        try:
            await test(house, wire)
            assert not house.witness.teller.waiting, "nothing waits for a verdict that never comes"
        finally:
            wire.sock.close()
            house.witness.stop()
            await house.bus.close()

    uvloop.run(run())


def test_calls_become_numbered_records_with_who_and_what(redis_session: RedisServer):
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "extendLock-2", "moveToFinished-14")
        wire.send("CLIENT", "SETNAME", "worker")
        wire.add("1")
        wire.ask(pick("t:1"))
        wire.ask(renew("1", "t:1"))
        wire.ask(renew("1", "t:2"))
        wire.ask(finish("1", "t:1"))
        assert house.told == [
            ("acquire", "ok", "catalogue"),
            ("renew", "ok", "catalogue"),
            ("renew", "refused", "catalogue"),
            ("finish", "ok", "catalogue"),
        ]
        assert [record.seq for record in house.lines] == [1, 2, 3, 4, 5], "the first is the connection's"
        assert {record.peer for record in house.records if record.peer} == {wire.watched.peer}
        assert wire.watched.peer.client_name == "worker"
        assert next(record.call.script for record in house.records if record.call) == "moveToActive-11"
        assert wire.watched.asked == {}

    within(redis_session, test)


def test_a_connection_has_its_lines_once_it_made_a_call_that_is_known(redis_session: RedisServer):
    async def test(house: House, wire: Wire) -> None:
        stranger = Wire(house, 2)
        stranger.send("GET", PREFIX + b"meta")
        stranger.settle()
        stranger.close()
        assert house.lines == []
        wire.load("moveToActive-11", "extendLock-2")
        wire.ask(renew("1", "t:1"))
        wire.ask(renew("1", "t:1"))
        wire.close()
        house.witness.estranged()
        house.witness.looks.run()
        told = [(r.line.op, r.line.target, r.peer.conn if r.peer else None) for r in house.lines]
        renewed = ("renew", None, 1)
        assert told == [("conn", "opened", 1), renewed, renewed, ("conn", "closed", 1), ("conn", "closed", None)]
        opened, closed = house.lines[0], house.lines[3]
        assert opened.verdict.fact.window.opened == wire.watched.made_at
        assert opened.verdict.at <= closed.verdict.at

    within(redis_session, test)


def test_texts_that_go_by_are_learned_if_they_compile(redis_session: RedisServer):
    mine = text_of("extendLock-2") + b"\n-- mine\n"

    async def test(house: House, wire: Wire) -> None:
        call = renew("1", "t:1")
        by_text = call_words("EVAL", mine, [w for w in call[3:5] if w], *(w for w in call[5:] if w))
        wire.send("SCRIPT", "LOAD", mine + b"(")  # an error
        wire.settle()
        assert wire.watched.texts == {}
        wire.ask(by_text)  # nobody knew it when it went by; it is known from now on
        wire.ask(by_text)
        assert house.told[-1] == ("renew", "refused", "learned")
        assert wire.watched.texts == {}
        assert wire.watched.session.pending_bytes == 0

    within(redis_session, test)


def test_a_noscript_is_counted_and_is_no_record(redis_session: RedisServer):
    async def test(house: House, wire: Wire) -> None:
        wire.ask(renew("1", "t:1"))
        assert (house.witness.noscripts, house.told) == (1, [])
        assert house.ledger.open_attempts() == ()

    within(redis_session, test)


def test_strangers_are_no_operation_and_leave_nothing(redis_session: RedisServer):
    async def test(house: House, wire: Wire) -> None:
        wire.ask(call_words("EVAL", b"return 1", [PREFIX + b"wait"]))
        assert (house.unrecognised.count, house.told, wire.watched.asked) == (1, [], {})
        assert wire.watched.session.pending_bytes == 0

    within(redis_session, test)


def test_a_lapse_is_told_by_the_clock_when_its_bound_has_passed(redis_session: RedisServer):
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "extendLock-2")
        wire.add("1")
        began = clock.now()
        wire.ask(pick("t:1", 150))
        wire.ask(renew("1", "t:1", 300))
        await until(lambda: len(house.records) == 3)
        took_ms = (clock.now() - began) / 1e6
        assert [record.line.op for record in house.records] == ["acquire", "renew", "lapse"]
        assert 300 <= took_ms < 1000, "the renewal's bound, not the grant's"
        lapse = house.records[2]
        assert (lapse.line.outcome, lapse.call, lapse.peer) == ("told", None, None)
        # Its holder goes without a word: the attempt's end has no line of its own.
        wire.close()
        assert [type(m) for m in house.bus._waiting if isinstance(m, AttemptOver)] == [AttemptOver]
        assert len(house.records) == 3

    within(redis_session, test)


def test_an_answer_that_never_came_is_told_as_unknown(redis_session: RedisServer):
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "extendLock-2")
        wire.add("1")
        wire.ask(pick("t:1"))
        wire.send(*filter(None, renew("1", "t:1")))
        assert len(wire.watched.asked) == 1
        wire.close()
        assert house.told[-1] == ("renew", "unknown", "catalogue")
        assert wire.watched.asked == {}

    within(redis_session, test)


def test_blindness_is_one_record_and_what_is_out_is_abandoned(redis_session: RedisServer):
    async def test(house: House, wire: Wire) -> None:
        wire.load("extendLock-2")
        wire.send(*filter(None, renew("1", "t:1")))
        house.witness.blinded(wire.watched, "for a test", clock.now())
        house.witness.forsake(wire.watched, clock.now())
        assert house.told == [("blind", "told", "")]
        assert house.records[0].reason == "for a test"
        wire.settle()
        assert house.told == [("blind", "told", "")], "an answer to what was forsaken says nothing"

    within(redis_session, test)


def test_stop_ends_the_timer(redis_session: RedisServer):
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11")
        wire.add("1")
        wire.ask(pick("t:1", 100))
        house.witness.stop()
        deadline = house.ledger.next_deadline()
        assert deadline is not None
        await until(lambda: clock.now() > deadline + 50_000_000)
        assert [record.line.op for record in house.records] == ["acquire"]
        assert sha_of("moveToActive-11").decode() == (house.records[0].call.sha if house.records[0].call else "")

    within(redis_session, test)


def test_two_connections_do_not_share_what_they_asked(redis_session: RedisServer):
    async def test(house: House, wire: Wire) -> None:
        other = Wire(house, 2)
        wire.load("moveToActive-11", "extendLock-2")
        wire.add("1")
        wire.ask(pick("t:1"))
        wire.send(*filter(None, renew("1", "t:1")))
        other.send(*filter(None, renew("1", "t:1")))
        other.settle()
        wire.settle()
        assert house.told.count(("renew", "ok", "catalogue")) == 2
        assert {r.peer.conn for r in house.records if r.peer} == {1, 2}
        other.close()

    within(redis_session, test)
