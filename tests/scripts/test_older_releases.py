"""Layouts and codes of older releases: the traps in which one name and arity means several things.

The KEYS and ARGV are as clients of those releases send them; the shas are the catalogue's.
"""

from __future__ import annotations

import hashlib

import msgpack
import pytest

from emqproxy.locks.events import Absent, HeldByOther, LockFact, NoProof, NotMine, Perhaps, Released, Take
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.layouts import release
from emqproxy.scripts.release import Ending
from tests.scripts.talk import (
    AT,
    PICK_KEYS,
    PREFIX,
    QUEUE,
    command,
    evalsha,
    exchange,
    keys,
    lock,
    read,
    text_of,
    words,
)

NOW = 1_700_000_000_000
LATER = (NOW + 1500) * 4096 + 7  # as those clients packed a time: the last 12 bits are the job's
DELAY_4 = ("wait", "active", "prioritized", "delayed", "7", "events", "paused", "meta")
DELAY_5 = ("marker", "active", "prioritized", "delayed", "7", "events", "meta")
WAIT_OLD = ("active", "wait", "stalled", "7:lock", "paused", "meta", "limiter", "prioritized")
WAIT_NEW = ("active", "wait", "stalled", "paused", "meta", "limiter", "prioritized", "marker", "events")
CHILDREN = ("active", "waiting-children", "7", "7:dependencies", "7:unsuccessful", "stalled")
SWEEP_OLD = ("stalled", "wait", "active", "failed", "stalled-check", "meta", "paused")
SWEEP_NEW = ("stalled", "wait", "active", "stalled-check", "meta", "paused", "marker", "events")


def sha_at(catalogue: Catalogue, name: str, version: str) -> bytes:
    """The sha that a script has in one release."""
    for script in catalogue:
        first, _, last = script.releases.partition("-")
        if script.name == name and release(first) <= release(version) <= release(last):
            return script.sha.encode()
    raise AssertionError(f"{name} is not in {version}")


def unpublished(label: str) -> bytes:
    """A text that no release has, with a header of the protocol's: what stands behind it is ours."""
    header = text_of(label).split(b"\n")[:2]
    return b"\n".join([*header, b"]] return 0"])


DELAYS = [
    ("4.0.0", DELAY_4, (PREFIX, NOW, LATER, "7", "a:1"), 1500),
    ("4.12.8", DELAY_4, (PREFIX, NOW, LATER, "7", "a:1"), 1500),
    ("4.13.0", DELAY_4, (PREFIX, NOW, LATER, "7", "a:1", 1499), 1499),
    ("4.18.3", DELAY_4, (PREFIX, NOW, LATER, "7", "a:1", 1499), 1499),
    ("5.0.0", DELAY_5, (PREFIX, NOW, LATER, "7", "a:1", 1499, "0"), 1499),
    ("5.5.3", DELAY_5, (PREFIX, NOW, LATER, "7", "a:1", 1499, "0"), 1499),
    ("5.5.4", (*DELAY_5, "stalled"), (PREFIX, NOW, LATER, "7", "a:1", 1499, "0"), 1499),
    ("5.8.5", (*DELAY_5, "stalled"), (PREFIX, NOW, LATER, "7", "a:1", 1499, "0"), 1499),
    ("5.8.6", (*DELAY_5, "stalled"), (PREFIX, NOW, "7", "a:1", 1499, "0"), 1499),
    ("5.32.0", (*DELAY_5, "stalled"), (PREFIX, NOW, "7", "a:1", 1499, "0"), 1499),
    ("5.33.0", (*DELAY_5, "stalled"), (PREFIX, NOW, "7", "a:1", 1499, "0", b""), 1499),
    ("5.73.2", (*DELAY_5, "stalled"), (PREFIX, NOW, "7", "a:1", 1499, "0", b""), 1499),
    (
        "5.73.3",
        (*DELAY_5, "stalled", "wait", "limiter", "paused", "pc"),
        (PREFIX, NOW, "7", "a:1", 1499, "0", b"", "0", b""),
        1499,
    ),
    (
        "6.3.5",
        (*DELAY_5, "stalled", "wait", "limiter", "pc"),
        (PREFIX, NOW, "7", "a:1", 1499, "0", b"", "0", b""),
        1499,
    ),
]


@pytest.mark.parametrize(("version", "names", "args", "delay_ms"), DELAYS)
@pytest.mark.parametrize("match", ["catalogue", "learned"])
def test_the_token_and_job_of_a_delay(catalogue, version, names, args, delay_ms, match):
    if match == "catalogue":
        sent = evalsha(sha_at(catalogue, "moveToDelayed", version), keys(*names), *args)
    else:
        sent = words("eval", unpublished("moveToDelayed-11"), keys(*names), *args)
    operation = catalogue.recognise(command(sent))
    assert isinstance(operation, Ending)
    assert operation.script.match == match
    assert (operation.key, operation.prefix, operation.token) == (lock("7").key, PREFIX, b"a:1")
    assert operation.delay_ms == delay_ms
    vague = release(version) < release("5.5.4")
    proofs = {0: Released, -1: NoProof, -2: NotMine if vague else Absent, -3: Released}
    proofs |= {} if vague else {-6: HeldByOther}
    assert {code: told(operation, sent, code) for code in proofs} == proofs
    if vague:
        assert told(operation, sent, -6) is Perhaps, "no code of those releases"


def told(operation: Ending, sent: list[bytes | None], code: int) -> type[object]:
    return type(read(operation, exchange(sent, code))[0].fact)


def test_a_delay_that_fits_two_layouts_differently_is_not_recognised(catalogue):
    """One release has its token where the other has its job: prefix and id together decide, or nothing does."""
    names = keys(*DELAY_5, "stalled")
    for args in ((PREFIX, NOW, "8", "a:1", 1500, "0", b""), (PREFIX, NOW, LATER, "8", "a:1", 1500, "0")):
        assert catalogue.recognise(command(words("eval", unpublished("moveToDelayed-11"), names, *args))) is None
    both = (PREFIX, NOW, "7", "7", "a:1", 1500, "0")  # the id stands in both places, so the token stands in two
    assert catalogue.recognise(command(words("eval", unpublished("moveToDelayed-11"), names, *both))) is None


@pytest.mark.parametrize(
    ("version", "names"),
    [("4.0.0", (*WAIT_OLD, "events")), ("5.1.5", (*WAIT_OLD, "events")), ("5.34.4", (*WAIT_OLD, "marker", "events"))],
)
@pytest.mark.parametrize("match", ["catalogue", "learned"])
def test_the_oldest_return_to_wait_answers_the_limiter_whatever_it_did(catalogue, version, names, match):
    args = ("7", "a:1", PREFIX + b"7")
    sent = evalsha(sha_at(catalogue, "moveJobFromActiveToWait", version), keys(*names), *args)
    if match == "learned":
        sent = words("eval", unpublished("moveJobFromActiveToWait-9"), keys(*names), *args)
    operation = catalogue.recognise(command(sent))
    assert (operation.key, operation.prefix, operation.token) == (lock("7").key, PREFIX, b"a:1")
    for pttl in (-2, -1, 0, 5000):
        (happening,) = read(operation, exchange(sent, pttl))
        assert happening.fact.ttl_ms is None
        assert isinstance(happening.fact, Perhaps)
        assert (happening.line.outcome, happening.line.code, happening.line.code_name) == ("ok", pttl, None)


@pytest.mark.parametrize("match", ["catalogue", "learned"])
def test_the_return_to_wait_since_it_has_codes(catalogue, match):
    args = ("7", "a:1", PREFIX + b"7")
    sent = evalsha(sha_at(catalogue, "moveJobFromActiveToWait", "5.34.5"), keys(*WAIT_NEW), *args)
    if match == "learned":
        sent = words("eval", unpublished("moveJobFromActiveToWait-9"), keys(*WAIT_NEW), *args)
    operation = catalogue.recognise(command(sent))
    proofs = {0: Released, 5000: Released, -1: NoProof, -2: Absent, -6: HeldByOther, -3: Perhaps}
    assert {code: told(operation, sent, code) for code in proofs} == proofs


@pytest.mark.parametrize(
    ("version", "names", "args", "done", "missing"),
    [
        ("4.0.0", ("7:lock", "active", "waiting-children", "7"), (), Released, NotMine),
        ("5.5.3", ("7:lock", "active", "waiting-children", "7"), (), Released, NotMine),
        ("5.5.4", ("7:lock", "active", "waiting-children", "7", "stalled"), (), Released, Absent),
        ("5.41.9", ("7:lock", "active", "waiting-children", "7", "stalled"), (), Released, Absent),
        # 0 may also mean that the job failed with its children, and then no token was looked at
        ("5.42.0", (*CHILDREN, "failed", "events"), (PREFIX,), Perhaps, Absent),
        ("5.56.6", (*CHILDREN, "failed", "events"), (PREFIX,), Perhaps, Absent),
        ("5.56.7", (*CHILDREN, "failed", "events"), (PREFIX,), Released, Absent),
        ("5.56.9", (*CHILDREN, "events"), (PREFIX,), Released, Absent),
    ],
)
def test_waiting_for_children(catalogue, version, names, args, done, missing):
    sent = evalsha(sha_at(catalogue, "moveToWaitingChildren", version), keys(*names), "a:1", "", NOW, "7", *args)
    operation = catalogue.recognise(command(sent))
    assert (operation.key, operation.prefix, operation.token) == (lock("7").key, PREFIX, b"a:1")
    proofs = {0: done, 1: NoProof, -1: NoProof, -2: missing, -3: Released}
    assert {code: told(operation, sent, code) for code in proofs} == proofs
    learned = words("eval", unpublished("moveToWaitingChildren-7"), keys(*names), "a:1", "", NOW, "7", *args)
    assert catalogue.recognise(command(learned)).token == b"a:1"


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("4.0.0", (*SWEEP_OLD, "events")),
        ("5.1.3", (*SWEEP_OLD, "events")),
        ("5.1.4", (*SWEEP_OLD, "marker", "events")),
        ("5.53.1", (*SWEEP_OLD, "marker", "events")),
        ("5.53.2", SWEEP_NEW),
        ("5.78.0", SWEEP_NEW),
        ("5.78.1", (*SWEEP_NEW, "repeat")),
    ],
)
def test_sweeps(catalogue, version, names):
    args = (1, PREFIX, NOW, 30_000)
    nested = release(version) < release("5.53.2")
    for sent in (
        evalsha(sha_at(catalogue, "moveStalledJobsToWait", version), keys(*names), *args),
        words("eval", unpublished("moveStalledJobsToWait-9"), keys(*names), *args),
    ):
        found = read(catalogue.recognise(command(sent)), exchange(sent, [[b"8"], [b"7"]] if nested else [b"7"]))
        targets = {h.fact.lock: h.line.target for h in found if isinstance(h.fact, LockFact)}
        assert targets == ({lock("8"): "failed"} if nested else {}) | {lock("7"): "wait"}


def test_a_pickup_of_4_x_may_name_the_job_it_took_by_itself(catalogue):
    packed = msgpack.packb({"token": "a:1", "lockDuration": 30_000})
    sha = sha_at(catalogue, "moveToActive", "4.18.3")
    for job_id in ("", "7"):
        sent = evalsha(sha, keys(*PICK_KEYS[:10]), PREFIX, NOW, job_id, packed)
        operation = catalogue.recognise(command(sent))
        assert operation.intents(AT, 0) == (Take(AT, QUEUE, b"a:1", 30_000),)
        (happening,) = read(operation, exchange(sent, [[b"attemptsMade", b"1"], b"7", 0, 0]))
        assert (happening.fact.lock, happening.line.job.attempts_made) == (lock("7"), 1)


FINISH_OPTIONS = msgpack.packb({"token": "a:1", "lockDuration": 30_000, "keepJobs": {"count": -1}})


def finish_of(catalogue: Catalogue, version: str, fetch: str) -> list[bytes | None]:
    sha, target = sha_at(catalogue, "moveToFinished", version), ("completed", "7", "metrics:completed")
    if release(version) < release("5.0.0"):
        args: tuple[object, ...] = ("7", NOW, "returnvalue", "1", "completed", "{}", fetch, PREFIX, FINISH_OPTIONS)
        return evalsha(sha, keys(*PICK_KEYS[:10], *target), *args)
    args = ("7", NOW, "returnvalue", "1", "completed", fetch, PREFIX, FINISH_OPTIONS)
    return evalsha(sha, keys(*PICK_KEYS[:10], *target, "marker"), *args)


@pytest.mark.parametrize(
    ("version", "pending"),
    [("4.0.0", Released), ("4.18.3", Released), ("5.0.0", Released), ("5.45.0", Released), ("5.45.2", NoProof)],
)
def test_pending_children_once_came_after_the_lock_was_deleted(catalogue, version, pending):
    sent = finish_of(catalogue, version, "1")
    operation = catalogue.recognise(command(sent))
    assert (operation.key, operation.prefix, operation.token) == (lock("7").key, PREFIX, b"a:1")
    assert (operation.target, operation.fetch.token, operation.fetch.ttl_ms) == ("completed", b"a:1", 30_000)
    assert catalogue.recognise(command(finish_of(catalogue, version, ""))).fetch is None
    proofs = {0: Released, -1: NoProof, -2: Absent, -3: Released, -4: pending, -6: HeldByOther}
    assert {code: told(operation, sent, code) for code in proofs} == proofs


def test_a_learned_finish_leaves_open_which_came_first(catalogue):
    known = finish_of(catalogue, "5.65.1", "")
    sent = [b"eval", unpublished("moveToFinished-14"), *known[2:]]
    operation = catalogue.recognise(command(sent))
    proofs = {0: Released, -2: Absent, -4: Perhaps, -6: HeldByOther}
    assert {code: told(operation, sent, code) for code in proofs} == proofs


@pytest.mark.parametrize(
    ("version", "names", "args", "missing"),
    [
        ("4.0.0", (), (), NotMine),
        ("5.5.3", ("marker",), (), NotMine),
        ("5.5.4", ("marker", "stalled"), (), Absent),
        ("5.39.1", ("marker", "stalled"), (b"",), Absent),
    ],
)
def test_retries(catalogue, version, names, args, missing):
    names = ("active", "wait", "paused", "7", "meta", "events", "delayed", "prioritized", "pc", *names)
    sent = evalsha(sha_at(catalogue, "retryJob", version), keys(*names), PREFIX, NOW, "LPUSH", "7", "a:1", *args)
    operation = catalogue.recognise(command(sent))
    assert (operation.key, operation.prefix, operation.token) == (lock("7").key, PREFIX, b"a:1")
    assert told(operation, sent, -2) is missing


def test_the_shas_of_a_learned_and_a_published_text_differ(catalogue):
    text = unpublished("moveToDelayed-11")
    assert catalogue.identify(hashlib.sha1(text).hexdigest()) is None
