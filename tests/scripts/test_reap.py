"""Stalled sweeps: each named id had no lock; the sweep's own place is answered last."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import Absent, Nothing, Place, Sweep
from emqproxy.records import Line
from emqproxy.scripts.operation import Happening
from emqproxy.session.exchange import LOST, NOT_RUN, UNREAD, ErrorReply
from tests.scripts.talk import AT, PREFIX, QUEUE, SPAN, command, exchange, lock, pick, read, sweep

END = Happening(Nothing(AT, SPAN, QUEUE), None)
NOBODY = END._replace(line=Line("sweep", "ok", interval_ms=1))


def absent(number: int, job: str, target: str, size: int, interval_ms: int | None = 1) -> Happening:
    fact = Absent(Place(AT.conn, AT.request, number), SPAN, lock(job), QUEUE, b"", swept=True)
    return Happening(fact, Line("reap", "ok", target=target, batch_size=size, interval_ms=interval_ms))


def test_a_sweep_may_name_any_job_of_its_queue(catalogue):
    assert catalogue.recognise(command(sweep())).intents(AT, 0) == (Sweep(AT, QUEUE),)


def test_two_sweeps_find_the_job_without_a_lock(talk):
    talk.add("1", "2")
    talk.ask(pick("a:1"))
    talk.ask(pick("a:2"))
    assert talk.ask(sweep()) == (NOBODY,), "the first one only marks"
    talk.redis("DEL", lock("2").key, PREFIX + b"stalled-check")
    assert talk.ask(sweep()) == (absent(1, "2", "wait", 1), END)
    talk.redis("DEL", lock("1").key, PREFIX + b"stalled-check")
    assert talk.ask(sweep(guard_ms=60_000)) == (absent(1, "1", "wait", 1, 60_000), END)
    assert talk.ask(sweep()) == (NOBODY,), "another one was here"


def test_the_oldest_form_tells_the_failed_first(catalogue):
    sent = sweep()
    found = read(catalogue.recognise(command(sent)), exchange(sent, [[b"9"], [b"1", b"2"]]))
    assert found == (absent(1, "9", "failed", 3), absent(2, "1", "wait", 3), absent(3, "2", "wait", 3), END)
    assert read(catalogue.recognise(command(sent)), exchange(sent, [[], []])) == (NOBODY,)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ([], "ok"), (None, "ok"), (0, "ok"), ({}, "ok"),
        (LOST, "unknown"), (UNREAD, "unknown"), (ErrorReply(b"ERR x"), "error"),
        (NOT_RUN, None), (ErrorReply(b"NOSCRIPT x"), None),
    ],
)  # fmt: skip
def test_what_names_nobody_happened_to_nobody(catalogue, reply, outcome):
    sent = sweep()
    (happening,) = read(catalogue.recognise(command(sent)), exchange(sent, reply))
    assert happening.fact == END.fact
    assert (happening.line and (happening.line.op, happening.line.outcome)) == (outcome and ("sweep", outcome))


def test_what_is_no_id_is_left_out(catalogue):
    sent = sweep()
    found = read(catalogue.recognise(command(sent)), exchange(sent, [b"1", None, 2, [b"3"], b""]))
    assert found == (absent(1, "1", "wait", 2), absent(2, "2", "wait", 2), END)


@pytest.mark.parametrize("said", ["0", "", "-1", "soon", None])
def test_an_interval_that_is_none_is_not_told(catalogue, said):
    sent = [*sweep()[:-1], None if said is None else said.encode()]
    (happening,) = read(catalogue.recognise(command(sent)), exchange(sent, []))
    assert happening == END._replace(line=Line("sweep", "ok"))
