"""What is wrong with a call in itself: nothing with a call as a release's layout describes it; each defect in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.locks.events import Nothing, Place
from emqproxy.scripts import defects, layouts, texts
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.families import EXACT
from emqproxy.scripts.layouts import SUFFIXES, Layout
from emqproxy.scripts.operation import Operation, Script
from emqproxy.scripts.unfenced import JobWrite
from emqproxy.session.exchange import ErrorReply
from tests.scripts import talk
from tests.scripts.talk import PREFIX, QUEUE, command, exchange, keys, words

CATALOGUE = Catalogue()
PREFIXES = (b"emq:", b"bull:")
LAYOUTS = layouts.load()
LAID_OUT: list[tuple[Script, Layout]] = [
    (script, layout)
    for script in CATALOGUE
    if (layout := layouts.in_range(LAYOUTS.get((script.name, script.arity), ()), *script.releases.split("-")))
]
BARE = [script for script in CATALOGUE if (script.name, script.arity) not in LAYOUTS]
FREE = {"dedup": b"de:once", "producer": b"99", "custom_key": b"custom"}
STATES = (b"completed", b"failed", b"delayed", b"wait", b"active", b"prioritized", b"waiting-children")
Choose = Callable[[Sequence[Any]], Any]

names = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=12).map(str.encode)
queues = names.filter(lambda name: b":" not in name)
ids = st.one_of(
    st.integers(1, 10**12).map(lambda number: b"%d" % number), names.filter(lambda name: name != b"0"),
    st.sampled_from([b"repeat:nightly:1700000000000", b"a:b:c", b"wait", b"x:lock", b"completed", b"stalled-check"]),
)  # fmt: skip
prefixes = st.one_of(st.sampled_from([b"emq", b"bull", b"{bull}", b"", b"a:b"]), names)


def defect(sent: list[bytes | None], catalogue: Catalogue = CATALOGUE) -> defects.Defect | None:
    """What is wrong with a call, as the judge asks it."""
    call = command(sent)
    return defects.of_call(call, catalogue.recognise(call), catalogue.known(call), PREFIXES)


def laid_out(script: Script, layout: Layout, prefix: bytes, job_id: bytes, choose: Choose) -> list[bytes | None]:
    """A call as the layout of its release describes it; perhaps with one more ARGV, as some clients send."""
    job = prefix + job_id
    told: dict[str, bytes] = {"prefix": prefix, "job_id": job_id, "job": job, "lock": job + b":lock"}
    for role, ends in SUFFIXES.items():
        told.setdefault(role, (job if role.startswith("job_") else prefix[:-1]) + choose(ends))
    told["state_set"] = prefix + choose(STATES)
    told |= {role: prefix + end for role, end in FREE.items()}
    args = [told.get(role, choose((b"0", b"1", b"", b"x"))) for role in layout.row.args]
    args += [b"1700000000000"] * choose((0, 1))
    sha = choose((script.sha, script.sha.upper())).encode()
    return [b"EVALSHA", sha, b"%d" % layout.arity, *(told[role] for role in layout.row.keys), *args]


@st.composite
def calls(draw: st.DrawFn) -> list[bytes | None]:
    """Any script's, of any queue and job."""
    script, layout = draw(st.sampled_from(LAID_OUT))
    prefix = draw(prefixes) + b":" + draw(queues) + b":"
    return laid_out(script, layout, prefix, draw(ids), lambda among: draw(st.sampled_from(among)))


def test_most_scripts_have_a_layout() -> None:
    assert len(LAID_OUT) > 400
    assert {script.name for script in BARE}, "those that only read, and what came last"


@given(calls())
def test_what_a_release_sends_is_never_malformed(sent: list[bytes | None]) -> None:
    assert defect(sent) is None


@pytest.mark.parametrize("prefix", [PREFIX, b"{bull}:orders:", b":orders:", b"a:b:wait:"])
@pytest.mark.parametrize("job_id", [b"7", b"repeat:nightly:1700000000000", b"x:lock", b"0"])
def test_no_script_is_left_out(prefix: bytes, job_id: bytes) -> None:
    for choose in (lambda among: among[0], lambda among: among[-1]):
        for script, layout in LAID_OUT:
            assert defect(laid_out(script, layout, prefix, job_id, choose)) is None, script.label


@given(st.sampled_from(BARE), st.lists(names, max_size=3))
def test_a_script_without_a_layout_is_asked_for_its_arity_only(script: Script, args: list[bytes]) -> None:
    sent = words("EVALSHA", script.sha.encode(), [b"anything"] * script.arity, *args)
    assert defect(sent) is None


# ---------------------------------------------------------------- what is wrong

FINISH = talk.finish("7", "t")
KEYED = {
    "another prefix": lambda sent: [*sent[:3], b"x" + (sent[3] or b""), *sent[4:]],
    "another key": lambda sent: [*sent[:4], PREFIX + b"wait", *sent[5:]],
    "another job's key": lambda sent: [*sent[:14], PREFIX + b"8", *sent[15:]],
    "a key too few": lambda sent: [*sent[:2], b"13", *sent[4:]],
    "a key too many": lambda sent: [*sent[:2], b"15", *sent[3:4], *sent[3:]],
}  # fmt: skip
WORDS = {
    "another prefix": "whose keys and ARGV are of different prefixes; a client's keyPrefix would do that",
    "another key": "whose key for active does not end with :active",
    "another job's key": "whose job's key is not the one of its prefix and id",
    "a key too few": "with a numkeys of 13; it takes 14",
    "a key too many": "with a numkeys of 15; it takes 14",
}


@pytest.mark.parametrize("wrong", KEYED)
def test_a_call_that_does_not_hold_together(wrong: str) -> None:
    assert defect(FINISH) is None
    for sha in (FINISH[1], (FINISH[1] or b"").upper()):
        sent = [FINISH[0], sha, *KEYED[wrong](FINISH)[2:]]
        assert defect(sent) == ("malformed_call", f"moveToFinished-14 {WORDS[wrong]}")
    text = [b"EVAL", talk.text_of("moveToFinished-14"), *KEYED[wrong](FINISH)[2:]]
    assert defect(text) == ("malformed_call", f"moveToFinished-14 {WORDS[wrong]}")


@pytest.mark.parametrize("own", sorted(texts.names()))
def test_texts_of_lua_are_held_to_their_arity(own: str) -> None:
    text = texts.load(own)
    counts = [text.arity - 1, text.arity + 1] if text.script in EXACT else [text.arity - 1]
    for count in counts:
        sent = words("EVALSHA", text.sha.encode(), [PREFIX + b"x"] * count)
        assert defect(sent) == ("malformed_call", f"{own} with a numkeys of {count}; it takes {text.arity}")


def test_keys_behind_its_own_are_nothing_to_a_script_that_moves_no_lock() -> None:
    """PyPI's bullmq calls promote-9 with 13. The call is read by its own keys: what is wrong with those is wrong."""
    names = ("delayed", "wait", "paused", "meta", "prioritized", "active", "pc", "events", "marker")
    sent = talk.evalsha(talk.sha_of("promote-9"), keys(*names, "7", "events", "paused", "meta"), PREFIX, "7")
    assert defect(sent) is None
    operation = CATALOGUE.recognise(command(sent))
    assert isinstance(operation, JobWrite)
    assert operation.job == (PREFIX + b"7:lock", PREFIX)
    assert defect([*sent[:3], PREFIX + b"shifted", *sent[3:]]) is not None


def test_what_redis_refuses_itself_is_not_ours_to_refuse() -> None:
    sha = talk.sha_of("extendLock-2")
    for counted in ([], [b"x", PREFIX], [b"-1"], [b"9", b"k"]):
        assert defect([b"EVALSHA", sha, *counted]) is None


OWN = b"return redis.call('GET', KEYS[1])"


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (words("EVAL", OWN, keys("meta")), "a script that nobody knows"),
        (words("EVAL", OWN, [b"other", b"bull:q:1:lock"]), "a script that nobody knows"),
        (words("EVALSHA", b"a" * 40, keys("meta")), "a script that nobody knows"),
        (words("FCALL", b"mine", keys("meta")), "the function mine"),
        (words("FCALL", b"a\r\n+OK\n", keys("meta")), "the function a??+OK? on"),
    ],
)  # fmt: skip
def test_a_stranger_on_a_queues_keys(sent: list[bytes | None], what: str) -> None:
    found = defect(sent)
    assert found is not None
    assert (found.rule, found.words[: len(what)]) == ("unknown_script", what)


@pytest.mark.parametrize(
    "sent",
    [
        words("EVAL", OWN, [b"other:key"]), words("EVAL", OWN, [], PREFIX + b"meta"), words("FCALL", b"mine", [b"k"]),
        words("EVAL_RO", OWN, keys("meta")), words("EVALSHA_RO", b"a" * 40, keys("meta")),
        words("FCALL_RO", b"mine", keys("meta")), [b"EVAL", OWN, b"1"], [b"EVAL", OWN],
        [b"EVAL"], [b"EVALSHA"], [b"FCALL"],
    ],
)  # fmt: skip
def test_what_is_nobodys_business(sent: list[bytes | None]) -> None:
    """Other keys, ARGV alone, and what cannot write."""
    assert defect(sent) is None


def test_ones_own_scripts_are_allowed_by_their_sha() -> None:
    catalogue, sent = Catalogue(), words("EVAL", OWN, keys("1:lock"))
    assert defect(sent, catalogue) is not None
    sha = talk.command(sent).words[1]
    catalogue.allowed = frozenset({defects.sha_called(command(sent))})
    assert sha == OWN
    assert defect(sent, catalogue) is None
    by_sha = words("EVALSHA", defects.sha_called(command(sent)).upper().encode(), keys("1:lock"))
    assert defect(by_sha, catalogue) is None


def test_a_learned_text_is_no_stranger() -> None:
    text = talk.text_of("extendLock-2") + b"\n-- changed"
    assert defect(words("EVAL", text, keys("1:lock", "stalled"), "t", 1000, "1")) is None
    catalogue = Catalogue()
    catalogue.script_loaded(text)
    sha = defects.sha_called(command(words("EVAL", text, []))).encode()
    assert defect(words("EVALSHA", sha, keys("1:lock", "stalled"), "t", 1000, "1"), catalogue) is None


@pytest.mark.parametrize("name", ["DEL", "SET", "PEXPIRE", "RENAME", "UNLINK"])
def test_a_hand_on_a_locks_key(name: str) -> None:
    sent: list[bytes | None] = [name.encode(), PREFIX + b"1:lock", b"1"]
    assert defect(sent) == ("raw_lock_write", f"{name} on a lock's key outside the protocol's scripts")
    assert defect([name.encode(), PREFIX + b"1", b"1"]) is None
    assert defect([b"GET", PREFIX + b"1:lock"]) is None


# ---------------------------------------------------------------- pickups

LONG = (
    "a pickup with a lockDuration of 86400001 ms; write one of limits.ttl_ms_min 1 to limits.ttl_ms_max 86400000"
)
SHORT = "a pickup without a lockDuration above 0; its job would be active unlocked"


@pytest.mark.parametrize(
    ("ttl_ms", "words_"),
    [
        (30_000, None), (1, None), (86_400_000, None), (30_000.0, None),
        (0, SHORT), (None, SHORT), ("x", SHORT), (-1, SHORT), (0.5, SHORT), ([1], SHORT),
        (86_400_001, LONG),
    ],
)  # fmt: skip
def test_a_pickups_time(ttl_ms: Any, words_: str | None) -> None:
    wanted = None if words_ is None else ("bad_duration", words_)
    for sent in (talk.pick("t", ttl_ms), talk.finish("7", "t", fetch="1", ttl_ms=ttl_ms)):
        assert of_pickup(sent) == wanted
    assert of_pickup(talk.finish("7", "t", fetch="0", ttl_ms=ttl_ms)) is None, "it fetches nothing"
    assert of_pickup(talk.pick("0", ttl_ms)) is None, "no lock is set for this token"


def of_pickup(sent: list[bytes | None]) -> defects.Defect | None:
    operation = CATALOGUE.recognise(command(sent))
    assert operation is not None
    return defects.of_pickup(operation.intents(Place(1, 1), 0), 1, 86_400_000)


def test_a_pickup_without_any_options_has_no_time() -> None:
    sent = talk.pick("t")
    for packed in (msgpack.packb({"token": "t"}), msgpack.packb({"token": "t", "lockDuration": True})):
        assert of_pickup([*sent[:-1], packed]) == ("bad_duration", SHORT)


# ---------------------------------------------------------------- strangers


def test_a_stranger_is_told_by_its_queue() -> None:
    found = stranger(words("EVAL", OWN, [b"k", PREFIX + b"7"]))
    sha = defects.sha_called(command([b"EVAL", OWN]))
    assert (found.prefix, found.script.sha, found.script.label) == (PREFIX, sha, "")
    assert found.intents(talk.AT, 0) == ()
    for reply, outcome in ((b"x", "ok"), (ErrorReply(b"ERR no"), "error")):
        ((fact, line),) = found.happenings(exchange(words("EVAL", OWN, []), reply), talk.AT)
        assert fact == Nothing(talk.AT, talk.SPAN, QUEUE)
        assert line is not None
        assert (line.op, line.outcome) == ("write", outcome)
    assert stranger(words("EVAL", OWN, [b"k", b"emq:none"])).prefix == b""
    assert stranger([b"EVAL"]).prefix == b""


def stranger(sent: list[bytes | None]) -> defects.Stranger:
    found = defects.stranger(command(sent), CATALOGUE.known(command(sent)), PREFIXES)
    held: Operation = found
    assert isinstance(held, defects.Stranger)
    return found
