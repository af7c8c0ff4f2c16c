"""On a queue where a script is known by its shape only nobody is accused, whatever calls and answers go by."""

from __future__ import annotations

import asyncio

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emqproxy import logs
from emqproxy.locks.events import Granted, Lock, Place, Queue, Renew, Take, Window, Write
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Finding, Suspect, Verdict
from emqproxy.proxy import surmised as module
from emqproxy.proxy.bus import Bus
from emqproxy.proxy.clock import LoopLag
from emqproxy.proxy.surmised import Surmised
from emqproxy.proxy.unrecognised import Unrecognised
from emqproxy.proxy.witness import Witness
from emqproxy.records import Hello, ObserverSettings, Record
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.session.exchange import Command, ErrorReply, Exchange, Reply, Word
from tests.processes import RedisServer
from tests.proxy.test_witness import House, Wire, within
from tests.scripts.talk import PREFIX, finish, keys, lock, pick, renew, sweep

MS = 1_000_000
MINE, OTHER = Queue(0, b"emq:mine:"), Queue(0, b"emq:other:")
AT, SPAN = Place(1, 1), Window(1, 2)


def verdict(queue: Queue, finding: Finding | None) -> Verdict:
    return Verdict(Granted(AT, SPAN, Lock(0, queue.prefix + b"1:lock"), queue, b"t", 1), finding, scope="here")


@pytest.mark.parametrize("finding", [*Finding, None])
def test_what_suspects_anybody_is_doubtful_on_such_a_queue_only(finding: Finding | None) -> None:
    surmised = Surmised()
    assert surmised.soften(verdict(MINE, finding)) == verdict(MINE, finding)
    surmised.note([Take(AT, MINE, b"t", 1)])
    assert surmised.soften(verdict(OTHER, finding)) == verdict(OTHER, finding)
    softened = surmised.soften(verdict(MINE, finding))
    if finding is not None and finding.suspects is not Suspect.NOBODY:
        assert (softened.finding, softened.scope) == (Finding.DOUBTFUL, None)
    else:
        assert softened == verdict(MINE, finding)


def test_a_guess_at_a_write_spares_nobody() -> None:
    surmised = Surmised()
    surmised.note([Write(AT, MINE, Lock(0, b"emq:mine:1:lock"), b"")])
    assert not surmised
    surmised.note([Renew(AT, MINE, Lock(0, b"emq:mine:1:lock"), b"t", 1)])
    assert surmised


def test_past_so_many_queues_every_queue_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUES_MAX", 3)
    surmised = Surmised()
    surmised.note(Take(AT, Queue(0, b"emq:%d:" % number), b"t", 1) for number in range(10))
    assert len(surmised) == 10
    surmised.note([Take(AT, MINE, b"t", 1)])
    assert len(surmised) == 10
    assert surmised.soften(verdict(OTHER, Finding.DOUBLE)).finding is Finding.DOUBTFUL


# ---------------------------------------------------------------- from bytes to records

STRANGER = b"--[[ ours ]] redis.call('DEL', KEYS[1]) return 1"


def stranger(job: str, token: str) -> list[Word]:
    """It has the keys and arguments of a renewal, and ends the lock."""
    return [b"EVAL", STRANGER, *renew(job, token)[2:]]


def test_a_script_that_only_looks_like_a_renewal_accuses_nobody(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "extendLock-2", "moveToFinished-14")
        wire.add("1")
        wire.ask(pick("t:1"))
        wire.ask(stranger("1", "t:2"))  # said 1: as if another held it, and in truth nobody does
        wire.ask(renew("1", "t:1"))
        wire.ask(finish("1", "t:1"))
        assert house.told[1] == ("renew", "ok", "shape")
        assert [told[:2] for told in house.told[2:]] == [("renew", "refused"), ("finish", "refused")]
        found = [record.verdict.finding for record in house.records]
        assert all(finding is not None and finding.suspects is Suspect.NOBODY for finding in found), found
        assert house.unrecognised.guesses == 1

    within(redis_session, test)


def test_a_script_that_is_known_by_its_shape_is_followed_as_any_other(redis_session: RedisServer) -> None:
    async def test(house: House, wire: Wire) -> None:
        wire.load("moveToActive-11", "moveToFinished-14")
        wire.add("1")
        wire.ask(pick("t:1"))
        wire.ask([b"EVAL", b"return redis.call('PEXPIRE', KEYS[1], ARGV[2])", *renew("1", "t:1")[2:]])
        wire.ask(finish("1", "t:1"))
        assert house.told == [("acquire", "ok", "catalogue"), ("renew", "ok", "shape"), ("finish", "ok", "catalogue")]
        assert [record.verdict.finding for record in house.records] == [Finding.SOUND] * 3
        renewal = house.records[1]
        assert renewal.call is not None
        assert (renewal.call.script, renewal.verdict.ttl_ms) == ("extendLock-2", 30_000)

    within(redis_session, test)


# ---------------------------------------------------------------- any stranger

_JOBS, _TOKENS = st.sampled_from(["1", "2"]), st.sampled_from(["t:1", "t:2", "0"])
_KNOWN = st.one_of(st.builds(pick, _TOKENS), st.builds(renew, _JOBS, _TOKENS), st.builds(finish, _JOBS, _TOKENS))
_LOOKS = st.one_of(
    _KNOWN,
    st.just(sweep()),
    st.builds(lambda job, token: finish(job, token, fetch="1"), _JOBS, _TOKENS),
    st.builds(
        lambda jobs, token: [b"evalsha", b"", b"1", *keys("stalled"), PREFIX, msgpack.packb([token] * len(jobs)),
                             msgpack.packb(jobs), b"30000"],
        st.lists(_JOBS, min_size=1), _TOKENS,
    ),
    st.builds(lambda jobs: [b"evalsha", b"", b"%d" % len(jobs), *(lock(job).key for job in jobs)], st.lists(_JOBS)),
)  # fmt: skip
_ANSWERS: st.SearchStrategy[Reply] = st.sampled_from(
    [0, 1, -1, -2, -3, -6, 2, b"OK", None, [], [b"1"], [[], [b"1"]], [[b"name", b"n"], b"1", 0, 0],
     [[b"name", b"n"], b"2", 0, 0], [0, 0, 0, 0], ErrorReply(b"ERR no"), ErrorReply(b"NOSCRIPT no")]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2), _LOOKS, _ANSWERS, st.integers(0, 40_000)), min_size=1, max_size=12))
def test_strangers_that_look_like_lock_scripts_and_answer_anything(
    said: list[tuple[int, list[Word], Reply, int]],
) -> None:
    """Every call here is a stranger's, and the account believes what it looks like: still nobody is accused."""

    async def run() -> list[Record]:
        bus = Bus(lambda restarts: Hello("run", "0", "redis", 1, restarts, ObserverSettings()), lambda: (), logs.get())
        ledger = LockLedger()
        witness = Witness(Catalogue(("emq",)), ledger, bus, LoopLag(), Unrecognised(("emq",), logs.get()))
        connections = {conn: witness.watch(conn, f"c:{conn}", 1 << 20) for conn in (1, 2)}
        now = 1
        for request, (conn, sent, reply, later_ms) in enumerate(said, start=1):
            call = Command(b"EVALSHA", [b"EVALSHA", b"5" * 40, *sent[2:]], request, 0, now)
            witness.asked(connections[conn], [call])
            witness.answered(connections[conn], [Exchange(call, reply, now, now + MS, 0, False, 2)])
            now += MS + later_ms * MS
            witness.teller.tell(ledger.tick(now), now)
        witness.stop()
        records = [message for message in bus._waiting if isinstance(message, Record)]
        await bus.close()
        return records

    for record in asyncio.run(run()):
        finding = record.verdict.finding
        assert finding is None or finding.suspects is Suspect.NOBODY, (finding, record.line)
