"""No words and no reply make the translator raise, and every intent is answered by exactly one fact."""

from __future__ import annotations

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.scripts.catalogue import FAMILIES, Catalogue
from emqproxy.session.exchange import LOST, NOT_RUN, SILENT, UNREAD, ErrorReply, Reply
from tests.scripts.talk import PREFIX, TTL_MS, command, exchange, keys, read

CATALOGUE = Catalogue()
LOCK_SCRIPTS = [script for script in CATALOGUE if script.name in FAMILIES]

_PACKED = st.sampled_from(
    [
        msgpack.packb({"token": "a:1", "lockDuration": TTL_MS, "keepJobs": {"count": 1}}),
        msgpack.packb({"token": "0", "lockDuration": 1}),
        msgpack.packb({"token": 7, "lockDuration": "x"}),
        msgpack.packb(["1", "2", 3]),
        b"\x80",
        b"\xc1",
    ]
)
_WORD = (
    st.none()
    | st.binary(max_size=12)
    | _PACKED
    | st.sampled_from([b"0", b"1", b"7", b"a:1", b"30000", b"completed", PREFIX, *keys("7", "7:lock", "stalled")])
)
_SCALAR = st.none() | st.booleans() | st.integers(-12, 3) | st.integers() | st.floats() | st.binary(max_size=6)
_REPLY: st.SearchStrategy[Reply] = st.sampled_from([LOST, UNREAD, SILENT, NOT_RUN]) | st.recursive(
    _SCALAR | st.binary(max_size=20).map(ErrorReply) | st.sampled_from([b"1", b"7", 0]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_SCALAR, inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(_WORD, max_size=30), st.sampled_from([b"EVALSHA", b"EVAL", b"SCRIPT", b"GET"]))
def test_any_words(words, name):
    CATALOGUE.recognise(command([name, *words]))
    CATALOGUE.script_loaded(words[0] if words else None)


@given(st.sampled_from(LOCK_SCRIPTS), st.lists(_WORD, min_size=14, max_size=14), st.lists(_WORD, max_size=10), _REPLY)
def test_any_arguments_and_any_reply_of_a_known_script(script, some_keys, args, reply):
    sent = [b"evalsha", script.sha.encode(), b"%d" % script.arity, *some_keys[: script.arity], *args]
    operation = CATALOGUE.recognise(command(sent))
    if operation is not None:
        assert operation.script == script
        for in_exec in (False, True):
            read(operation, exchange(sent, reply, in_exec=in_exec))


_SOUND_ARGS = {
    "prefix": PREFIX,
    "job_id": b"7",
    "token": b"a:1",
    "job": PREFIX + b"7",
    "packed_options": msgpack.packb({"token": "a:1", "lockDuration": TTL_MS}),
    "tokens": msgpack.packb(["a:1", "a:2"]),
    "job_ids": msgpack.packb(["7", "8"]),
    "duration_ms": b"30000",
    "fetch_next": b"1",
    "target": b"completed",
    "state": b"active",
    "packed_arguments": msgpack.packb([PREFIX.decode(), "7", "resize", 1, None]),
}


@given(st.sampled_from(sorted(CATALOGUE._lock_scripts)), _REPLY)
def test_any_reply_to_a_sound_call_of_every_release(sha, reply):
    known = CATALOGUE._lock_scripts[sha]
    row = known.layout.row
    its_keys = [PREFIX + {"lock": b"7:lock", "job": b"7", "prefix": b""}.get(role, role.encode()) for role in row.keys]
    args = [_SOUND_ARGS.get(role, b"1") for role in row.args]
    sent = [b"evalsha", sha, b"%d" % row.arity, *its_keys, *args]
    operation = CATALOGUE.recognise(command(sent))
    assert operation is not None
    for happening in read(operation, exchange(sent, reply)):
        assert happening.line is None or happening.line.outcome in ("ok", "refused", "error", "unknown")
