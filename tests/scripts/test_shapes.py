"""Scripts known by shape: those of releases as by their sha, where their layouts agree; strangers never as proof."""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emqproxy.locks.events import (
    AnyFact,
    Granted,
    LockFact,
    NoProof,
    Nothing,
    NotMine,
    Overwrite,
    Overwritten,
    Perhaps,
    PerhapsGranted,
    Released,
    Renewed,
    Untouched,
    Wiped,
)
from emqproxy.scripts import layouts
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.families import FAMILIES
from emqproxy.scripts.layouts import SUFFIXES, Layout
from emqproxy.scripts.operation import Operation
from emqproxy.scripts.raw import Hand
from emqproxy.scripts.release import FINISH_UNSETTLED, Ending
from emqproxy.scripts.shapes import _LINE_ONLY, _LOCK_FAMILIES, Guess, Surmise, _is_telling
from emqproxy.session.exchange import LOST, NOT_RUN, ErrorReply, Reply, Word
from tests.scripts.talk import (
    AT,
    PREFIX,
    TTL_MS,
    command,
    evalsha,
    exchange,
    finish,
    keys,
    pick,
    read,
    renew,
    renew_all,
    sweep,
)
from tests.scripts.talk import lock as lock_of

SHA = b"5" * 40
LAYOUTS = layouts.load()
ALL = [row for rows in LAYOUTS.values() for row in rows if row.script in FAMILIES]
TELLING = [row for row in ALL if _is_telling(row) and row.script in _LOCK_FAMILIES]
OPTIONS = msgpack.packb({"token": "a:1", "lockDuration": TTL_MS})
ARGS: dict[str, Any] = {
    "prefix": PREFIX, "job": PREFIX + b"7", "job_id": b"7", "token": b"a:1", "timestamp": b"1700000000000",
    "duration_ms": b"30000", "packed_options": OPTIONS, "tokens": msgpack.packb(["a:1", "a:2"]),
    "job_ids": msgpack.packb(["7", "8"]), "fields": b"", "fetch_next": b"1", "target": b"completed",
    "push_command": b"LPUSH", "skip_attempt": b"0", "delay_ms": b"1000", "delayed_timestamp": b"6963200000000000",
    "max_stalled_count": b"1", "max_check_time_ms": b"30000", "child_key": b"", "state": b"active", "count": b"10",
    "packed_arguments": msgpack.packb([PREFIX.decode(), "7", "resize", 1, None]), "force": b"force",
}  # fmt: skip
_OF_JOB = {"lock": b"7:lock", "job": b"7", "job_logs": b"7:logs", "job_dependencies": b"7:dependencies"}
REPLIES: list[Reply] = [
    0, 1, -1, -2, -3, -4, -6, -9, 5000, [], [b"7"], [[b"8"], [b"7"]], [0, 0, 0, 0], [0, 0, 99, 0],
    [[b"name", b"n"], b"9", 0, 0], ErrorReply(b"NOSCRIPT No"), ErrorReply(b"OOM no"), NOT_RUN,
]  # fmt: skip


def call_of(row: Layout, sha: bytes = SHA) -> list[Word]:
    """A sound call of a layout."""
    ours = _OF_JOB | {"prefix": b"", "job_unsuccessful": b"7:unsuccessful"}
    named = [PREFIX + ours.get(role, SUFFIXES.get(role, (b":x",))[0][1:]) for role in row.row.keys]
    return evalsha(sha, named, *(ARGS.get(role, b"1") for role in row.row.args))


def name(row: Layout) -> str:
    return f"{row.script}-{row.arity}-{row.row.first}"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue(("emq",))


def shape(catalogue: Catalogue, sent: list[Word]) -> Operation | None:
    operation = catalogue.recognise(command(sent))
    assert operation is None or operation.script.match in ("shape", "")
    return operation


def facts(operation: Operation, sent: list[Word], reply: Reply) -> list[AnyFact]:
    return [happening.fact for happening in read(operation, exchange(sent, reply))]


# ---------------------------------------------------------------- releases without their shas


@pytest.mark.parametrize("row", TELLING, ids=name)
def test_a_lock_script_whose_sha_is_unknown_is_told_as_if_it_were_known(catalogue: Catalogue, row: Layout) -> None:
    """For every layout of every lock family: what the recogniser says of a published text, the shape says too."""
    (sha, known), *_ = ((sha, k) for sha, k in catalogue._lock_scripts.items() if k.layout.row == row.row)
    by_sha = catalogue.recognise(command(call_of(row, sha)))
    by_shape = shape(catalogue, call_of(row))
    assert isinstance(by_shape, Surmise)
    assert (by_shape.script.label, by_shape.script.sha) == (known.script.label, SHA.decode())
    assert by_sha is not None
    assert by_shape.intents(AT, 0) == by_sha.intents(AT, 0)
    settled = not (isinstance(by_shape.operation, Ending) and by_shape.operation.rule is FINISH_UNSETTLED)
    for reply in REPLIES:
        if reply in (-4, -9) and not settled:
            continue  # keys and arguments do not tell which of two came first
        for one, two in zip(
            read(by_sha, exchange(call_of(row, sha), reply)),
            read(by_shape, exchange(call_of(row), reply)),
            strict=True,
        ):
            assert one.line == two.line
            if not isinstance(one.fact, Perhaps):
                assert one.fact == two.fact
            else:
                assert isinstance(two.fact, Overwritten)


def test_every_lock_family_has_a_shape_but_the_one_with_a_single_plain_key() -> None:
    assert {row.script for row in TELLING} == _LOCK_FAMILIES
    assert {row.script for row in ALL if row.script not in {row.script for row in TELLING}} >= {"releaseLock"}
    assert len(TELLING) == 30


@pytest.mark.parametrize("row", [row for row in ALL if row not in TELLING], ids=name)
def test_of_all_other_scripts_no_shape_gives_proof_of_a_lock(catalogue: Catalogue, row: Layout) -> None:
    operation = shape(catalogue, call_of(row))
    if operation is None:
        return
    sent = call_of(row)
    for reply in REPLIES:
        for fact in facts(operation, sent, reply):
            assert isinstance(fact, (Nothing, Untouched, Overwritten, Wiped))


def test_the_text_of_a_stranger_is_told_by_shape_and_one_with_a_known_first_line_is_not(catalogue: Catalogue) -> None:
    text = b"return 1"
    operation = catalogue.recognise(command([b"EVAL", text, *renew("7", "a:1")[2:]]))
    assert isinstance(operation, Surmise)
    assert operation.script.sha == hashlib.sha1(text).hexdigest()
    assert catalogue.recognise(command([b"FCALL", b"mine", *pick("a:1")[2:]])) is None


def test_a_known_script_is_never_told_by_shape(catalogue: Catalogue) -> None:
    known = next(script for script in catalogue if script.label == "getState-8")
    assert catalogue.recognise(command([b"evalsha", known.sha.encode(), *pick("a:1")[2:]])) is None
    other = next(script for script in catalogue if script.label == "extendLocks-1")
    operation = catalogue.recognise(command([b"evalsha", other.sha.encode(), *renew("7", "a:1")[2:]]))
    assert isinstance(operation, Hand)


# ---------------------------------------------------------------- what differs a little fits nothing


def changed(sent: list[Word], at: int, word: Word) -> list[Word]:
    return [sent[0], SHA, *sent[2:at], word, *sent[at + 1 :]]


RENEW, PICK, FINISH, BATCH = renew("7", "a:1"), pick("a:1"), finish("7", "a:1"), renew_all(["7"], ["a:1"])


@pytest.mark.parametrize(
    "sent",
    [
        changed(RENEW, 3, b"bull:orders:7:lock"),  # not within the prefixes
        changed(RENEW, 3, b"emq:other:7:lock"),  # of another queue than the rest
        changed(RENEW, 3, b"emq:orders::lock"),
        changed(RENEW, 4, b"emq:orders:7:stalled"),
        changed(RENEW, 5, b""),  # no token
        changed(RENEW, 6, b"0"),
        changed(RENEW, 6, b"soon"),
        changed(RENEW, 7, b"8"),  # another job's id
        changed(RENEW, 7, None),
        [RENEW[0], SHA, *RENEW[2:7]],  # no id at all
        [RENEW[0], SHA, *RENEW[2:], b"1", b"2"],
        changed(PICK, 14, b"emq:other:"),
        changed(PICK, 15, b"now"),
        changed(PICK, 16, msgpack.packb({"token": "a:1"})),
        changed(PICK, 16, msgpack.packb({"lockDuration": 1})),
        changed(PICK, 16, b"\xc1"),
        changed(PICK, 3, PREFIX + b"waits"),
        changed(FINISH, 14, PREFIX + b"8"),  # its job's key is not of the id
        changed(FINISH, 21, b"gone"),  # neither completed nor failed
        changed(BATCH, 4, b"emq:"),
        changed(BATCH, 5, msgpack.packb(["a:1", "a:2"])),  # more tokens than ids
        changed(BATCH, 5, b"a:1"),
        changed(BATCH, 7, b"0"),
        changed(sweep(), 12, b"many"),
        evalsha(SHA, keys("7")),
        evalsha(SHA, keys("stalled"), "x"),
        evalsha(SHA, keys("meta", "events"), "x"),
        evalsha(SHA, []),
        [b"evalsha", SHA, b"9", PREFIX + b"wait"],
        [b"evalsha", b"not a sha", *PICK[2:]],
        [b"evalsha", None, *PICK[2:]],
    ],
    ids=range(31),
)
def test_a_near_miss_is_nobody_s(catalogue: Catalogue, sent: list[Word]) -> None:
    operation = shape(catalogue, sent)
    assert operation is None or isinstance(operation, Hand)


def test_a_delay_is_told_where_id_and_key_leave_one_reading(catalogue: Catalogue) -> None:
    eight = keys("marker", "active", "prioritized", "delayed", "7", "events", "meta", "stalled")
    old = evalsha(SHA, eight, PREFIX, 1, 6963200000000000, "7", "a:1", 1000, "0")
    new = evalsha(SHA, eight, PREFIX, 1, "7", "a:1", 1000, "0", b"")
    for sent in (old, new):
        operation = shape(catalogue, sent)
        assert isinstance(operation, Surmise)
        (fact,) = facts(operation, sent, 0)
        assert isinstance(fact, Released)
        assert (fact.lock, fact.token) == (lock_of("7"), b"a:1")


def test_a_removal_is_one_write_line_and_its_jobs_lock_is_unseen(catalogue: Catalogue) -> None:
    sent = evalsha(SHA, keys("7", "meta", "repeat"), "7", "0", PREFIX)
    operation = shape(catalogue, sent)
    assert isinstance(operation, Guess)
    assert operation.script.name in _LINE_ONLY
    assert operation.intents(AT, 0) == (Overwrite(AT, lock_queue(), lock_of("7"), b""),)
    (told,) = read(operation, exchange(sent, 1))
    assert isinstance(told.fact, Overwritten)
    assert told.line is not None
    assert (told.line.op, told.line.outcome, told.line.code) == ("write", "ok", 1)
    assert [type(fact) for fact in facts(operation, sent, ErrorReply(b"OOM no"))] == [Untouched]
    assert [type(fact) for fact in facts(operation, sent, LOST)] == [Overwritten]


def lock_queue() -> Any:
    return Surmise.intents(shape_of_renewal(), AT, 0)[0].queue


def shape_of_renewal() -> Any:
    return Catalogue(("emq",)).recognise(command(changed(RENEW, 7, b"7")))


# ---------------------------------------------------------------- what a family would not have answered


@pytest.mark.parametrize("reply", [2, -1, b"OK", None, [], [b"7"], {b"a": 1}, ErrorReply(b"ERR x"), LOST, True, 1.5])
def test_a_renewals_odd_answer_leaves_the_lock_unseen(catalogue: Catalogue, reply: Reply) -> None:
    sent = changed(RENEW, 7, b"7")
    operation = shape(catalogue, sent)
    assert operation is not None
    (fact,) = facts(operation, sent, reply)
    assert isinstance(fact, Overwritten)
    assert [type(fact) for fact in facts(operation, sent, 1)] == [Renewed]
    assert [type(fact) for fact in facts(operation, sent, 0)] == [NotMine]
    assert [type(fact) for fact in facts(operation, sent, ErrorReply(b"NOSCRIPT No"))] == [NoProof]


@pytest.mark.parametrize("reply", [[[b"a"], b"9", 0, 0], [[], b"9"], [[], b"9", 0, 1], [[], b"9", 0, 0, 0]])
def test_only_the_exact_answer_of_a_pickup_grants(catalogue: Catalogue, reply: Reply) -> None:
    sent = [b"evalsha", SHA, *PICK[2:]]
    operation = shape(catalogue, sent)
    assert operation is not None
    assert [type(fact) for fact in facts(operation, sent, reply)] == [Overwritten]
    assert [type(fact) for fact in facts(operation, sent, [[b"a", b"b"], b"9", 0, 0])] == [Granted]
    assert [type(fact) for fact in facts(operation, sent, b"OK")] == [PerhapsGranted]


WORD = st.sampled_from(
    [b"", b"0", b"1", b"7", b"a:1", b"30000", b"completed", b"LPUSH", PREFIX, OPTIONS, msgpack.packb(["7"]), None,
     *keys("7", "8:lock", "7:lock", "stalled", "wait", "active", "meta", "events", "marker")]
)  # fmt: skip
ANSWER = st.sampled_from(REPLIES) | st.binary(max_size=3) | st.lists(st.integers(-9, 2) | st.binary(max_size=2))


@settings(max_examples=150)
@given(st.data())
def test_any_call_near_a_shape_and_any_answer(catalogue: Catalogue, data: st.DataObject) -> None:
    sent = call_of(data.draw(st.sampled_from(ALL), label="row"))
    for at in data.draw(st.lists(st.integers(2, len(sent) - 1), max_size=3), label="changed"):
        sent[at] = data.draw(WORD)
    operation = shape(catalogue, sent)
    if operation is None:
        return
    reply = data.draw(ANSWER)
    for fact in facts(operation, sent, reply):
        assert not isinstance(fact, Perhaps)
        if isinstance(fact, LockFact) and not isinstance(operation, Hand):
            assert fact.queue.prefix == PREFIX
