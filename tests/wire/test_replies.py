"""The reply reader: samples whole, byte by byte and in random pieces; hiredis is the oracle for where frames end."""

import itertools

import hiredis
import hypothesis.strategies as st
import pytest
from hypothesis import given

from emqproxy.wire.frames import ServerWireError
from emqproxy.wire.replies import ELEMENT_BYTES_MAX, PUSH, Frame, ReplyReader


def read(pieces, limit=ELEMENT_BYTES_MAX):
    reader, out = ReplyReader(), []
    for piece in pieces:
        reader.feed(piece)
        while (frame := reader.next(limit)) is not None:
            out.append(frame)
    return out


def bytewise(data):
    return [data[i : i + 1] for i in range(len(data))]


SIMPLE = [
    b"+OK\r\n",
    b"-ERR no\r\n",
    b":-7\r\n",
    b"$-1\r\n",
    b"$0\r\n\r\n",
    b"$5\r\na\r\nb+\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*2\r\n:1\r\n*2\r\n$1\r\nx\r\n*0\r\n",
    b"_\r\n",
    b",3.5\r\n",
    b"#t\r\n",
    b"(12345678901234567890\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"!5\r\nERR x\r\n",
    b"%2\r\n+a\r\n:1\r\n+b\r\n%0\r\n",
    b"~2\r\n:1\r\n:2\r\n",
    b">2\r\n+message\r\n$2\r\nhi\r\n",
]


@pytest.mark.parametrize("data", SIMPLE)
def test_a_frame_is_its_bytes(data):
    want = [Frame(data[0], data)]
    assert read([data]) == want
    assert read(bytewise(data)) == want
    assert read([data + b"*2\r\n:1"]) == want


@pytest.mark.parametrize("data", SIMPLE)
def test_skimming_finds_the_same_ends(data):
    frames = read([data * 3], limit=0)
    assert [f.kind for f in frames] == [data[0]] * 3
    assert all((f.raw is None) == (f.kind != PUSH) for f in frames)


values = st.recursive(
    st.one_of(
        st.integers(-(2**62), 2**62).map(lambda n: b":%d\r\n" % n),
        st.binary(max_size=40).map(lambda b: b"$%d\r\n%s\r\n" % (len(b), b)),
        st.just(b"$-1\r\n"),
        st.just(b"_\r\n"),
        st.sampled_from([b"#t\r\n", b"#f\r\n", b",1.5\r\n", b"+OK\r\n"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda xs: b"*%d\r\n" % len(xs) + b"".join(xs)),
        st.lists(st.tuples(inner, inner), max_size=3).map(
            lambda xs: b"%%%d\r\n" % len(xs) + b"".join(a + b for a, b in xs)
        ),
        st.lists(inner, max_size=3).map(lambda xs: b">%d\r\n" % (len(xs) + 1) + b"+kind\r\n" + b"".join(xs)),
    ),
    max_leaves=12,
)


@given(st.lists(values, max_size=6), st.lists(st.integers(0, 2000), max_size=8))
def test_any_stream_in_any_pieces(frames, cuts):
    data = b"".join(frames)
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert [f.raw for f in read(pieces)] == frames
    assert [f.kind for f in read(pieces, limit=0)] == [f[0] for f in frames]


@given(
    st.lists(
        st.one_of(
            st.integers(-5, 5).map(lambda n: b":%d\r\n" % n),
            st.binary(max_size=9).map(lambda b: b"$%d\r\n%s\r\n" % (len(b), b)),
        ),
        max_size=5,
    )
)
def test_hiredis_reads_what_was_kept(items):
    data = b"*%d\r\n" % len(items) + b"".join(items)
    oracle = hiredis.Reader()
    oracle.feed(data)
    kept = hiredis.Reader()
    kept.feed(read([data])[0].raw)
    assert kept.gets() == oracle.gets()


def test_what_stands_behind_a_large_element_is_kept():
    big = b"$%d\r\n%s\r\n" % (200_000, b"v" * 200_000)
    data = b"*3\r\n*2\r\n$1\r\nf\r\n" + big + b"$2\r\n42\r\n:0\r\n"
    want = [Frame(ord("*"), b"*3\r\n*2\r\n$1\r\nf\r\n$-1\r\n$2\r\n42\r\n:0\r\n")]
    assert read([data]) == want
    assert read([data[i : i + 777] for i in range(0, len(data), 777)]) == want


def test_an_attribute_stands_before_its_reply():
    data = b"|1\r\n+key\r\n*2\r\n:1\r\n:2\r\n$4\r\nreal\r\n"
    assert read([data]) == [Frame(ord("$"), b"$4\r\nreal\r\n")]
    assert read(bytewise(data)) == [Frame(ord("$"), b"$4\r\nreal\r\n")]


def test_depth_costs_nothing():
    data = b"*1\r\n" * 10_000 + b":1\r\n"
    assert [f.raw for f in read([data])] == [data]


@pytest.mark.parametrize(
    "bad", [b"@1\r\n", b"*x\r\n", b"$?\r\n", b"*?\r\n", b"$01\r\n", b"*1\r\n;3\r\n", b"$" + b"1" * 70_000]
)
def test_what_no_server_sends_is_named(bad):
    with pytest.raises(ServerWireError):
        read([b"+OK\r\n" + bad])
