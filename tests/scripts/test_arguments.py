"""Words as scripts take them: numkeys, msgpack within bounds, numbers in every dress."""

from __future__ import annotations

import math
import tracemalloc

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.scripts.arguments import (
    _OPTIONS,
    PACKED_BYTES_MAX,
    PACKED_DEPTH_MAX,
    PACKED_ITEMS_MAX,
    UNREADABLE,
    Call,
    entry,
    plain,
    split,
    unpack,
    unpack_options,
    whole,
)
from tests.scripts.talk import float64

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.integers() | st.binary(max_size=8), inner),
    max_leaves=30,
)


def test_keys_and_args_are_told_apart():
    assert split([b"evalsha", b"sha", b"2", b"k1", b"k2", b"a1", None]) == Call([b"k1", b"k2"], [b"a1", None])
    assert split([b"evalsha", b"sha", b"0"]) == Call([], [])


@pytest.mark.parametrize("numkeys", [b"3", b"-1", b"", b"two", b"1.0", b"99999999999999999999", None])
def test_a_numkeys_that_counts_nothing_is_no_call(numkeys):
    assert split([b"evalsha", b"sha", numkeys, b"k1", b"k2"]) is None


@given(_VALUES)
def test_what_a_client_packs_is_what_we_read(value):
    try:
        packed = msgpack.packb(value, use_bin_type=False)
    except (OverflowError, ValueError):
        return
    assert unpack(packed) == msgpack.unpackb(packed, raw=True, strict_map_key=False)


@given(st.binary(max_size=400))
def test_no_bytes_make_it_raise(data):
    unpack(data)
    unpack_options(data)


_NAMES = st.sampled_from([b"token", b"lockDuration", b"name", b"keepJobs", b"\xff"]) | st.integers(0, 3) | st.binary()


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=6), st.sampled_from([b"", b"\xc0", b"\xdc\xff\xff"]))
def test_the_two_options_that_matter_are_read_as_the_whole_map_is(pairs, behind):
    try:
        entries = b"".join(msgpack.packb(part, use_bin_type=False) for pair in pairs for part in pair)
    except (OverflowError, ValueError):
        return
    packed = bytes([0x80 | len(pairs)]) + entries + behind
    both, options = unpack(packed), unpack_options(packed)
    for name in (b"token", b"lockDuration"):
        assert plain(entry(options, name)) == plain(entry(both, name))
        assert whole(entry(options, name)) == whole(entry(both, name))


def test_what_workers_pack_is_not_read_the_long_way():
    node = b"\xde\x00\x02\xa5token\xd9\x03a:1\xa4name\xcb" + bytes(8)
    for packed in (node, msgpack.packb({"token": "a:1", "keepJobs": {"count": -1}})):
        assert bytes(_OPTIONS.decode(packed).token)[-3:] == b"a:1"


def test_a_declared_length_in_options_costs_nothing():
    """What would take gigabytes if it were believed is passed over, or refused."""
    packed = b"\x82\xa5token\xa1t\xa4name" + b"\xdd\xff\xff\xff\xff" * 1000
    tracemalloc.start()
    unpack_options(packed)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\xde\x00\x01\xa5token\xd9\x03a:1", {b"token": b"a:1"}),  # Node: map16, str8
        (msgpack.packb({"token": "a:1"}), {b"token": b"a:1"}),  # Python: fixmap, fixstr
        (b"\x81\xa1a" + float64(30000.0), {b"a": 30000.0}),  # Node's numbers
        (b"\xc4\x02hi", b"hi"),
        (msgpack.packb([msgpack.Timestamp(1), msgpack.ExtType(5, b"x" * 20), 7]), [None, None, 7]),
        (b"\x82\x91\x01\x02\x03\x04", {3: 4}),  # an array as a key is left out
        (b"\x01\x02", 1),  # what comes after the first value is nobody's
        (b"", UNREADABLE),
        (b"\xc1", UNREADABLE),
        (b"\xa5tok", UNREADABLE),
        (b"\xcb\x00", UNREADABLE),
        (b"\x92\x01", UNREADABLE),
        (None, UNREADABLE),
    ],
)
def test_forms_of_msgpack(data, value):
    assert unpack(data) == value


def test_reading_is_bounded_in_depth_count_and_size():
    deep = b"\x91" * PACKED_DEPTH_MAX + b"\x01"
    assert unpack(deep) != UNREADABLE
    assert unpack(b"\x91" + deep) is UNREADABLE
    assert unpack(b"\xdd\xff\xff\xff\xff" * 10) is UNREADABLE, "a length is believed only as far as values may come"
    many = PACKED_ITEMS_MAX
    assert unpack(b"\xdd" + many.to_bytes(4, "big") + b"\x01" * many) == [1] * many
    assert unpack(b"\xdd" + (many + 1).to_bytes(4, "big") + b"\x01" * (many + 1)) is UNREADABLE
    assert unpack(b"\xdb" + (PACKED_BYTES_MAX - 5).to_bytes(4, "big") + b"x" * (PACKED_BYTES_MAX - 5)) != UNREADABLE
    assert unpack(b"\xdb" + (PACKED_BYTES_MAX - 4).to_bytes(4, "big") + b"x" * (PACKED_BYTES_MAX - 4)) is UNREADABLE


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (b"30000", 30000),
        (30000, 30000),
        (30000.0, 30000),
        (b"0", 0),
        (b"-1", None),
        (-1, None),
        (30000.5, None),
        (math.inf, None),
        (math.nan, None),
        (b"", None),
        (b"30 000", None),
        (b"1" * 19, None),
        (True, None),
        (None, None),
        ([1], None),
        ("30000", None),
    ],
)
def test_whole_numbers(value, number):
    assert whole(value) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [(b"a:1", b"a:1"), (b"", b""), (42, b"42"), (42.0, b"42"), (10**14, None), (-1, None), (None, None), ({}, None)],
)
def test_ids_and_tokens_as_lua_writes_them(value, text):
    assert plain(value) == text


def test_an_entry_of_what_is_no_map_is_none():
    assert entry({b"token": b"a"}, b"token") == b"a"
    assert entry([b"token"], b"token") is None
    assert entry(UNREADABLE, b"token") is None
