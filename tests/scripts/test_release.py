"""Endings: finish, delay, retry, wait, wait-children, release. Each code's proof, asked of a real Redis of today."""

from __future__ import annotations

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
    Place,
    Release,
    Released,
    Take,
)
from emqproxy.records import Line
from emqproxy.scripts.operation import Happening
from emqproxy.session.exchange import LOST, NOT_RUN, SILENT, UNREAD, ErrorReply
from tests.scripts.talk import (
    AT,
    PREFIX,
    QUEUE,
    SPAN,
    TTL_MS,
    back,
    command,
    delay,
    exchange,
    finish,
    lock,
    pick,
    read,
    release,
    retry,
    to_children,
)

NEXT = Place(AT.conn, AT.request, 1)
MOVES = {"finish": finish, "delay": delay, "retry": retry, "wait": back, "wait_children": to_children}


def taken(talk, *tokens: str) -> None:
    """Jobs 1, 2, …, each held under its token and each with a child that it may wait for."""
    jobs = [str(number) for number, _ in enumerate(tokens, start=1)]
    talk.add(*jobs)
    for job, token in zip(jobs, tokens, strict=True):
        talk.ask(pick(token))
        assert talk.redis("GET", lock(job).key) == token.encode()


def held(talk, job: str) -> bool:
    return talk.redis("EXISTS", lock(job).key) == 1


def line(op: str, outcome: str, code: int | None, name: str | None = None) -> Line:
    target, delay_ms = ("completed" if op == "finish" else None), (1000 if op == "delay" else None)
    return Line(op, outcome, target=target, code=code, code_name=name, delay_ms=delay_ms)


@pytest.mark.parametrize("op", MOVES)
def test_a_move_by_the_holder_by_a_stranger_and_after_the_end(talk, op):
    taken(talk, "a:1")
    move, about = MOVES[op], (AT, SPAN, lock("1"), QUEUE)
    if op == "wait_children":
        talk.redis("SADD", PREFIX + b"1:dependencies", "child")
    assert talk.ask(move("1", "x")) == (
        Happening(HeldByOther(*about, b"x"), line(op, "refused", -6, "JobLockMismatch")),
    )
    assert held(talk, "1")
    assert talk.ask(move("1", "a:1")) == (Happening(Released(*about, b"a:1"), line(op, "ok", 0)),)
    assert talk.operation.intents(AT, 0) == (Release(AT, QUEUE, lock("1"), b"a:1"),)
    assert not held(talk, "1")
    assert talk.ask(move("1", "a:1")) == (
        Happening(Absent(*about, b"a:1"), line(op, "refused", -2, "JobLockNotExist")),
    )
    talk.redis("DEL", PREFIX + b"1")
    assert talk.ask(move("1", "a:1")) == (Happening(NoProof(*about, b"a:1"), line(op, "refused", -1, "JobNotExist")),)


@pytest.mark.parametrize("op", [op for op in MOVES if op != "wait"])
def test_not_in_active_comes_after_the_lock_was_deleted(talk, op):
    taken(talk, "a:1")
    if op == "wait_children":
        talk.redis("SADD", PREFIX + b"1:dependencies", "child")
    talk.redis("DEL", PREFIX + b"active")
    assert talk.ask(MOVES[op]("1", "a:1")) == (
        Happening(Released(AT, SPAN, lock("1"), QUEUE, b"a:1"), line(op, "refused", -3, "JobNotInState")),
    )
    assert not held(talk, "1")


@pytest.mark.parametrize("op", MOVES)
def test_the_wildcard_moves_the_job_and_leaves_the_lock(talk, op):
    taken(talk, "a:1")
    if op == "wait_children":
        talk.redis("SADD", PREFIX + b"1:dependencies", "child")
    about = (AT, SPAN, lock("1"), QUEUE, b"0")
    assert talk.ask(MOVES[op]("1", "0")) == (Happening(Bypassed(*about), line(op, "ok", 0)),)
    assert held(talk, "1")
    if op != "wait":
        (again,) = talk.ask(MOVES[op]("1", "0"))
        assert (again.fact, again.line.code) == (NoProof(*about), -3)
    for reply in (LOST, ErrorReply(b"ERR in the middle"), -77):
        (happening,) = read(talk.operation, exchange(MOVES[op]("1", "0"), reply))
        assert happening.fact == NoProof(*about), "the wildcard reaches no lock"


def test_pending_and_failed_children_come_before_the_token(talk):
    taken(talk, "a:1")
    about = (AT, SPAN, lock("1"), QUEUE, b"a:1")
    talk.redis("SADD", PREFIX + b"1:dependencies", "child")
    assert talk.ask(finish("1", "a:1")) == (
        Happening(NoProof(*about), line("finish", "refused", -4, "JobPendingChildren")),
    )
    talk.redis("DEL", PREFIX + b"1:dependencies")
    assert talk.ask(to_children("1", "a:1")) == (
        Happening(NoProof(*about), line("wait_children", "refused", 1, "NoPendingChildren")),
    )
    talk.redis("ZADD", PREFIX + b"1:unsuccessful", 1, "child")
    name = "JobHasFailedChildren"
    assert talk.ask(finish("1", "a:1")) == (Happening(NoProof(*about), line("finish", "refused", -9, name)),)
    assert talk.ask(to_children("1", "a:1"))[0].line == line("wait_children", "refused", -9, name)
    assert held(talk, "1")


def test_back_to_wait_tells_the_rate_limit_left(talk):
    taken(talk, "a:1")
    talk.redis("SET", PREFIX + b"limiter", 1, "PX", 60_000)
    (happening,) = talk.ask(back("1", "a:1"))
    assert happening.fact == Released(AT, SPAN, lock("1"), QUEUE, b"a:1")
    assert happening.line.outcome == "ok"
    assert 0 < happening.line.code <= 60_000


def test_release_lock_knows_no_wildcard(talk):
    taken(talk, "a:1")
    about = (AT, SPAN, lock("1"), QUEUE)
    for token in ("x", "0"):
        assert talk.ask(release("1", token)) == (
            Happening(NotMine(*about, token.encode()), Line("release", "refused", code=0)),
        )
    assert talk.ask(release("1", "a:1")) == (Happening(Released(*about, b"a:1"), Line("release", "ok", code=1)),)


def test_a_failed_job_has_its_target(talk):
    taken(talk, "a:1")
    (happening,) = talk.ask(finish("1", "a:1", target="failed"))
    assert happening.line == Line("finish", "ok", target="failed", code=0)


def test_a_finish_that_fetches_the_next_job(talk):
    taken(talk, "a:1")
    talk.add("2")
    ending, pickup = talk.ask(finish("1", "a:1", fetch="1"))
    assert ending == Happening(Released(AT, SPAN, lock("1"), QUEUE, b"a:1"), line("finish", "ok", 0))
    assert pickup.fact == Granted(NEXT, SPAN, lock("2"), QUEUE, b"a:1", TTL_MS)
    assert (pickup.line.op, pickup.line.fetched, pickup.line.job.name) == ("acquire", True, "n")
    assert talk.operation.intents(AT, 0) == (
        Release(AT, QUEUE, lock("1"), b"a:1"),
        Take(NEXT, QUEUE, b"a:1", TTL_MS),
    )
    nothing = Happening(Nothing(NEXT, SPAN, QUEUE), None)
    assert talk.ask(finish("2", "x", fetch="1"))[1] == nothing, "refused before fetching"
    assert talk.ask(finish("2", "a:1", fetch="1"))[1] == nothing, "an empty queue"


def test_a_finish_of_a_queue_that_waits_answers_an_array_all_the_same(talk):
    taken(talk, "a:1", "a:2")
    talk.redis("HSET", PREFIX + b"meta", "paused", 1)
    ending, pickup = talk.ask(finish("1", "a:1", fetch="1"))
    assert ending == Happening(Released(AT, SPAN, lock("1"), QUEUE, b"a:1"), line("finish", "ok", 0))
    assert pickup == Happening(Nothing(NEXT, SPAN, QUEUE), None)


def test_a_delay_that_fetches_the_next_job_under_another_token(talk):
    taken(talk, "a:1")
    talk.add("2")
    ending, pickup = talk.ask(delay("1", "a:1", fetch="1", next_token="a:2"))
    assert ending == Happening(Released(AT, SPAN, lock("1"), QUEUE, b"a:1"), line("delay", "ok", 0))
    assert pickup.fact == Granted(NEXT, SPAN, lock("2"), QUEUE, b"a:2", TTL_MS)
    assert talk.redis("GET", lock("2").key) == b"a:2"


@pytest.mark.parametrize("fetch", ["", "0", "2", "true"])
def test_fetching_is_asked_for_by_1_only(catalogue, fetch):
    assert len(catalogue.recognise(command(finish("1", "a:1", fetch=fetch))).intents(AT, 0)) == 1


@pytest.mark.parametrize("reply", [LOST, SILENT, UNREAD, ErrorReply(b"ERR in the middle"), None, b"OK", 7, -5, -77, {}])
def test_what_leaves_open_whether_it_ended_and_whether_it_fetched(catalogue, reply):
    sent = finish("1", "a:1", fetch="1")
    ending, pickup = read(catalogue.recognise(command(sent)), exchange(sent, reply))
    assert ending.fact == Perhaps(AT, SPAN, lock("1"), QUEUE, b"a:1", None)
    assert ending.line.outcome == ("error" if isinstance(reply, ErrorReply) else "unknown")
    assert pickup == Happening(PerhapsGranted(NEXT, SPAN, QUEUE, b"a:1", TTL_MS), None)


def test_an_array_nobody_asked_for_proves_nothing(catalogue):
    sent = retry("1", "a:1")
    (happening,) = read(catalogue.recognise(command(sent)), exchange(sent, [[], b"2", 0, 0]))
    assert happening.fact == Perhaps(AT, SPAN, lock("1"), QUEUE, b"a:1", None)
    assert happening.line.outcome == "unknown"


@pytest.mark.parametrize("op", MOVES)
@pytest.mark.parametrize("reply", [NOT_RUN, ErrorReply(b"NOSCRIPT No matching script."), ErrorReply(b"READONLY x")])
def test_what_did_not_run_proves_nothing(catalogue, op, reply):
    sent = MOVES[op]("1", "a:1")
    (happening,) = read(catalogue.recognise(command(sent)), exchange(sent, reply))
    assert happening.fact == NoProof(AT, SPAN, lock("1"), QUEUE, b"a:1")
    told = Line(op, "error", target=line(op, "", 0).target, code_name="READONLY", delay_ms=line(op, "", 0).delay_ms)
    assert happening.line == (told if reply == b"READONLY x" else None)


def test_an_error_in_the_middle_of_a_finish(talk):
    """The lock is deleted, then a list of the wrong type ends the script."""
    taken(talk, "a:1")
    talk.redis("DEL", PREFIX + b"active")
    talk.redis("SET", PREFIX + b"active", "x")
    (happening,) = talk.ask(finish("1", "a:1"))
    assert not held(talk, "1")
    assert happening.fact == Perhaps(AT, SPAN, lock("1"), QUEUE, b"a:1", None)
    assert happening.line.code_name == "WRONGTYPE"


def test_a_job_id_may_hold_colons(talk):
    talk.add("repeat:x:17")
    talk.ask(pick("a:1"))
    for sent in (retry("repeat:x:17", "x"), finish("repeat:x:17", "a:1")):
        (happening,) = talk.ask(sent)
        assert (happening.fact.lock, happening.fact.queue) == (lock("repeat:x:17"), QUEUE)
