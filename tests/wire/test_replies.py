"""The reply reader: samples whole, byte by byte and in random pieces; hiredis is the oracle for where frames end."""

import itertools

import hiredis
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from emqproxy.wire.frames import CRLF, WINDOW_BYTES, ServerWireError, whole_bulks, whole_lines
from emqproxy.wire.replies import ELEMENT_BYTES_MAX, HEAD_BYTES_MAX, KEPT_BYTES_MAX, PUSH, Frame, ReplyReader


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


# ---------------------------------------------------------------- many at once


def bulk(payload):
    return b"$%d\r\n%s\r\n" % (len(payload), payload)


lines = st.sampled_from(
    [b":1\r\n", b":-1\r\n", b"+OK\r\n", b"+QUEUED\r\n", b"-ERR no\r\n", b"_\r\n", b"#t\r\n", b",1.5\r\n"]
)
odd_lines = st.sampled_from([b"+a\rb\r\n", b"+a\nb\r\n", b"+\r\r\n", b"-\r\n", b"+" + b"x" * 600 + b"\r\n"])
bulks = st.one_of(
    st.binary(max_size=12).map(bulk),
    st.sampled_from([b"", b"\r\n", b"a\r\nb", b"$1\r\nx\r\n", b"\r", b":1\r\n"]).map(bulk),
    st.sampled_from([300, 2000, WINDOW_BYTES - 30, WINDOW_BYTES, WINDOW_BYTES + 1]).map(lambda size: bulk(b"v" * size)),
    st.sampled_from([b"$-1\r\n", b"$2\r\nabxx", b"$0\r\n\n\n"]),
)
runs = st.tuples(st.one_of(lines, odd_lines, bulks), st.integers(1, 30)).map(
    lambda run: [run[0]] * (run[1] if len(run[0]) < 40 else 1)
)
elements = st.lists(runs, max_size=5).map(lambda found: [one for run in found for one in run])
arrays = elements.map(lambda found: b"*%d\r\n" % len(found) + b"".join(found))
nested = st.tuples(arrays, elements).map(lambda found: b"*%d\r\n" % (len(found[1]) + 1) + found[0] + b"".join(found[1]))
pushes = elements.map(lambda found: b">%d\r\n+kind\r\n" % (len(found) + 1) + b"".join(found))
streams = st.lists(st.one_of(elements, st.one_of(arrays, nested, pushes).map(lambda one: [one])), max_size=5).map(
    lambda found: [one for several in found for one in several]
)


@settings(deadline=None, max_examples=50)
@given(streams, st.sampled_from([0, HEAD_BYTES_MAX, ELEMENT_BYTES_MAX]), st.lists(st.integers(min_value=0), max_size=4))
def test_elements_read_many_at_once_are_those_read_byte_by_byte(frames, limit, cuts):
    """A byte at a time no element ever lies whole before the reader: the long way is the oracle of the short one."""
    data = b"".join(frames)
    want = read(bytewise(data), limit)
    assert [frame.kind for frame in want] == [frame[0] for frame in frames]
    assert read([data], limit) == want
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    assert read([data[a:b] for a, b in itertools.pairwise(edges)], limit) == want


@settings(deadline=None)
@given(streams, st.lists(st.integers(1, 40), min_size=1, max_size=6), st.lists(st.integers(min_value=0), max_size=4))
def test_what_is_skipped_is_counted_and_no_push_is_among_it(frames, mosts, cuts):
    data = b"".join(frames)
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    reader, at, turns = ReplyReader(), 0, itertools.cycle(mosts)
    for a, b in itertools.pairwise(edges):
        reader.feed(data[a:b])
        while True:
            most = next(turns)
            skipped = reader.skip(most)
            assert skipped <= most
            assert PUSH not in [frame[0] for frame in frames[at : at + skipped]]
            at += skipped
            frame = reader.next(ELEMENT_BYTES_MAX)
            if frame is None:
                break
            assert frame == Frame(frames[at][0], frames[at])
            at += 1
    assert at == len(frames)


@pytest.mark.parametrize("most", [1, 2, 3, 15, 16, 17, 4095, 4096, 4097, 10_000])
def test_not_one_more_is_skipped_than_asked(most):
    for one in (b":1\r\n", b"$3\r\nabc\r\n"):
        reader = ReplyReader()
        reader.feed(one * 10_001)
        assert reader.skip(most) <= most
        assert whole_lines(b":1\r\n" * 10_001, 0, most) == (most, 4 * most)
        assert whole_bulks(one, 0, most) == ((1, len(one)) if one[:1] == b"$" else (0, 0))


def test_skipping_does_not_begin_what_it_cannot_end():
    for cut in (
        b":1",
        b":1\r",
        b"$",
        b"$3\r\nab",
        b"$3\r\nabc\r",
        b"*1\r\n:1\r\n",
        b">1\r\n+x\r\n",
        b"|1\r\n",
        b"",
        b"$x\r\n",
    ):
        reader = ReplyReader()
        reader.feed(b":7\r\n" + cut)
        assert reader.skip(5) == 1
        assert reader.skip(5) == 0


def test_elements_that_cannot_be_read_at_once_are_not_looked_at_again_and_again():
    """Cost by count, not by clock: such a stream is split once for each window of bytes, not for each element."""
    tried = 0

    class Counted(ReplyReader):
        def _several(self, data, pos, end):
            nonlocal tried
            tried += 1
            return super()._several(data, pos, end)

    data = b"*10000\r\n" + b"$4\r\na\r\nb\r\n" * 10_000
    reader = Counted()
    reader.feed(data)
    assert reader.next(ELEMENT_BYTES_MAX) == Frame(ord("*"), data)
    assert tried <= len(data) / WINDOW_BYTES + 1


def test_codes_and_ids_of_a_frame_past_half_the_limit_are_kept():
    value = bulk(b"v" * 60_000)
    data = b"*601\r\n" + value * 300 + b":0\r\n$2\r\nid\r\n" * 150 + b":-6\r\n"
    (frame,) = read([data[at : at + 65_536] for at in range(0, len(data), 65_536)])
    assert frame.raw.endswith(b"$-1\r\n" + b":0\r\n$2\r\nid\r\n" * 150 + b":-6\r\n")
    assert len(frame.raw) < KEPT_BYTES_MAX * 3 // 4
    oracle = hiredis.Reader()
    oracle.feed(frame.raw)
    assert len(oracle.gets()) == 601
    assert frame.raw.count(CRLF) < 2 * 601 + 1


def test_exhausted_between_replies_and_never_inside_one():
    reader = ReplyReader()
    assert reader.exhausted
    reader.feed(b":1\r\n*2\r\n:1\r\n")
    assert not reader.exhausted
    assert reader.skip(1) == 1
    assert not reader.exhausted
    assert reader.next(0) is None, "an array that is not whole"
    assert not reader.exhausted
    reader.feed(b":2\r\n")
    assert reader.next(0) is not None
    assert reader.exhausted
