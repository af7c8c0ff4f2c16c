"""What is told of a call waits for its verdict, and goes out once, with what became of the call."""

from __future__ import annotations

from typing import Any, cast

from emqproxy.locks.events import (
    Blinded,
    Granted,
    Lapsed,
    Met,
    Nothing,
    NotMine,
    PerhapsGranted,
    Place,
    Released,
    Sighted,
    Take,
    Window,
)
from emqproxy.locks.evictions import Memory
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.policy import PASS, Action, Charge, Decision, Rule
from emqproxy.locks.verdicts import Verdict
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.clock import LoopLag
from emqproxy.proxy.consulting import Consulting
from emqproxy.proxy.surmised import Surmised
from emqproxy.proxy.teller import Spoken, Teller
from emqproxy.proxy.watched import Asked
from emqproxy.records import AttemptOver, CallSite, FactBeside, Line, Peer, Record
from tests.scripts.talk import QUEUE, lock

PEER, CALL = Peer(1, "c:1", None), CallSite("EVALSHA", "extendLock-2", "0" * 40, "catalogue", "")
REFUSED = Decision(Action.BLOCKED, Charge(Rule.ZERO_TOKEN, "words"))


class Desk:
    """A teller with a real ledger, whose bus keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.ledger = LockLedger()
        self._numbers = iter(range(1, 1000))
        self.lag = LoopLag()
        self.teller = Teller(cast("Bus", self), self.lag, Surmised(), Consulting(0, 100))

    def number(self) -> int:
        return next(self._numbers)

    def tell(self, message: Any) -> None:
        self.told.append(message)

    def says(self, fact: Any, line: Line, decision: Decision | None) -> None:
        verdicts = self.ledger.observe(fact)
        self.teller.tell_of(Spoken(line, PEER, CALL, decision), verdicts, fact, fact.window.closed)

    @property
    def records(self) -> list[Record]:
        return [one for one in self.told if isinstance(one, Record)]


def test_what_redis_says_of_its_memory_goes_once_with_the_next_line() -> None:
    desk = Desk()
    first, full = Memory(1, "volatile-lru", 1 << 20, 0), Memory(3, "volatile-lru", 1 << 20, 7)
    for memory in (first, first._replace(at=2), full):
        desk.teller.memory(memory)
    desk.says(Granted(*about(1), 30_000), Line("acquire", "ok"), None)
    desk.says(Released(*about(2)), Line("finish", "ok"), None)
    desk.teller.memory(full._replace(at=4, evicted_keys=8))
    desk.teller.watch(10**15)
    assert [record.memory for record in desk.records] == [(first, first._replace(at=2), full), ()]
    desk.teller.connection("opened", Met(Place(1, 0), Window(5, 5)), PEER)
    assert desk.records[-1].memory == (full._replace(at=3), full._replace(at=4, evicted_keys=8))


def about(number: int, conn: int = 1, token: bytes = b"a:1") -> tuple[Place, Window, Any, Any, bytes]:
    at = number * 1_000_000
    return Place(conn, number), Window(at, at + 1000), lock("1"), QUEUE, token


def test_what_became_of_a_call_stands_on_its_record() -> None:
    desk = Desk()
    desk.says(Granted(*about(1), 30_000), Line("acquire", "ok"), PASS)
    desk.says(NotMine(*about(2, 2, b"0"), True, 30_000), Line("renew", "blocked"), REFUSED)
    desk.says(Released(*about(3)), Line("finish", "ok"), None)
    assert [(record.line.op, record.action, record.rule) for record in desk.records] == [
        ("acquire", "passed", None), ("renew", "blocked", "zero_token"), ("finish", "", None)
    ]  # fmt: skip
    assert [record.seq for record in desk.records] == [1, 2, 3]
    assert {(record.peer, record.call) for record in desk.records} == {(PEER, CALL)}
    assert desk.teller.waiting == 0


def test_a_lapse_has_no_caller() -> None:
    desk = Desk()
    desk.says(Granted(*about(1), 10), Line("acquire", "ok"), PASS)
    later = 60_000_000_000
    desk.teller.tell(desk.ledger.tick(later), later)
    lapse = desk.records[-1]
    assert isinstance(lapse.verdict.fact, Lapsed)
    assert (lapse.line.op, lapse.line.outcome, lapse.action) == ("lapse", "told", "")
    assert (lapse.peer, lapse.call) == (None, None)


def test_a_line_waits_for_its_own_verdict_and_is_told_once() -> None:
    """Verdicts on other facts go by; an attempt that ended is told though nobody waits for it."""
    desk = Desk()
    fact = NotMine(*about(2, 2, b"x:1"), True, 30_000)
    desk.teller.tell_of(Spoken(Line("renew", "refused"), PEER, CALL, PASS), [], fact, fact.window.closed)
    assert (desk.teller.waiting, desk.told) == (1, [])
    verdicts = desk.ledger.observe(Granted(*about(1), 30_000))
    desk.teller.tell(verdicts, 2_000_000)
    assert (desk.teller.waiting, desk.records) == (1, [])
    over = [v for v in desk.ledger.observe(Released(*about(3))) if v.over]
    desk.teller.tell(over, 4_000_000)
    assert [type(one) for one in desk.told] == [AttemptOver]
    desk.teller.tell([Verdict(fact, None, at=5_000_000)], 5_000_000)
    assert (desk.teller.waiting, [record.line.op for record in desk.records]) == (0, ["renew"])
    desk.teller.tell([Verdict(fact, None, at=5_000_000)], 5_000_000)
    assert len(desk.records) == 1


def test_what_has_no_line_goes_with_the_next_one_and_only_once() -> None:
    desk, (place, window, _, queue, token) = Desk(), about(1)
    perhaps = PerhapsGranted(place, window, queue, token, 30_000)
    pause = Window(5, 9)
    desk.teller.beside(perhaps)
    desk.teller.beside(Nothing(place, window, queue))
    desk.teller.beside(Sighted(place, window))
    desk.lag.pauses.append(pause)
    desk.says(Granted(*about(2), 30_000), Line("acquire", "ok"), None)
    desk.says(Released(*about(3)), Line("finish", "ok"), None)
    first, second = desk.records
    assert (first.besides, first.pauses, first.paused_at) == ((FactBeside(perhaps, 1),), (pause,), (3,))
    assert (second.besides, second.pauses, second.paused_at) == ((), (), ())


def test_that_a_blind_connection_closed_is_told_with_the_next_line() -> None:
    desk, (place, window, *_) = Desk(), about(1)
    blinded, gone = Blinded(place, window), Sighted(place, window)
    desk.teller.blind(PEER, Verdict(blinded, None), "MONITOR")
    desk.teller.beside(gone)
    desk.teller.beside(gone)
    desk.says(Granted(*about(2, 2), 30_000), Line("acquire", "ok"), None)
    assert desk.records[-1].besides == (FactBeside(gone, 2),)


def test_in_which_order_all_was_asked_and_heard_is_told() -> None:
    """What proves nothing, too, where something waited for its answer."""
    desk, (place, window, _, queue, token) = Desk(), about(1)
    nothing, take = Nothing(place, window, queue), Take(place, queue, token, 30_000)
    asked = Asked(cast("Any", None), place, (take,), 5, None, None, desk.teller.turn(), 4)
    desk.teller.beside(nothing, asked, waited=True)
    desk.says(Granted(*about(2), 30_000), Line("acquire", "ok"), None)
    desk.says(Released(*about(3)), Line("finish", "ok"), None)
    first, second = desk.records
    assert first.besides == (FactBeside(nothing, 2, take, 5, 1, 4),)
    assert (first.turn, second.turn) == (3, 4)
