"""The request reader against samples tried whole, bytewise and in random pieces, and against redis-server's rules."""

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from emqproxy.wire.frames import (
    HELD_WORD_BYTES_MAX,
    HELD_WORDS_MAX,
    MARKED_WORD_BYTES_MAX,
    WINDOW_BYTES,
    ClientWireError,
)
from emqproxy.wire.items import NO_COMMAND, Item, Request
from emqproxy.wire.requests import RequestReader

WANTED = {b"EVALSHA", b"SELECT"}


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def merged(items: list[Item]) -> list[Item]:
    """Counts of unwanted commands in one row, however the pieces fell."""
    out: list[Item] = []
    for item in items:
        if isinstance(item, int) and item > 0 and out and isinstance(out[-1], int) and out[-1] > 0:
            out[-1] += item
        else:
            out.append(item)
    return out


def read(pieces: list[bytes]) -> tuple[list[Item], str | None]:
    reader, out = RequestReader(WANTED), []
    try:
        for piece in pieces:
            out += reader.feed(piece)
    except ClientWireError as error:
        return merged(out + error.args[1]), error.args[0]
    return merged(out), None


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


SAMPLES = {
    "plain": (command(b"GET", b"k") * 3, [3]),
    "wanted": (command(b"evalsha", b"abc", b"0"), [Request([b"EVALSHA", b"abc", b"0"], 3)]),
    "mixed": (
        command(b"SET", b"a", b"b\r\n*1\r\n") + command(b"Select", b"1") + command(b"GET", b"x"),
        [1, Request([b"SELECT", b"1"], 2), 1],
    ),
    "empty words": (command(b"SELECT", b"", b""), [Request([b"SELECT", b"", b""], 3)]),
    "binary": (command(b"SELECT", bytes(range(256))), [Request([b"SELECT", bytes(range(256))], 2)]),
    "inline": (b"PING\r\nselect 3\r\nGET k\n", [1, Request([b"SELECT", b"3"], 2), 1]),
    "inline quoted": (b"select \"a \\x41\\n\" 'b c'\r\n", [Request([b"SELECT", b"a A\n", b"b c"], 3)]),
    "no command": (b"*0\r\n*-1\r\n\r\n  \r\n" + command(b"PING"), [NO_COMMAND] * 4 + [1]),
    "two bytes behind a bulk are not checked": (b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\n\n", [2]),
    "unwanted and large": (command(b"SET", b"k", b"v" * 300_000), [1]),
    "a long name": (command(b"X" * 500, b"y"), [1]),
    "a name of 64 bytes cut anywhere": (
        command(b"N" * 64, b"y") + command(b"SELECT", b"2"),
        [1, Request([b"SELECT", b"2"], 2)],
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_whole_bytewise_and_with_trailing_bytes(name):
    data, want = SAMPLES[name]
    assert read([data]) == (want, None)
    if len(data) < 10_000:
        assert read(bytewise(data)) == (want, None)
    assert read([data + b"*2\r\n$3\r\nGE"]) == (want, None)


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_fragmentation_changes_nothing(cuts):
    data = b"".join(d for name, (d, _) in SAMPLES.items() if len(d) < 10_000)
    assert read(pieces_of(data, cuts)) == read([data])


FAULTS = [
    b"*01\r\n",
    b"*+1\r\n",
    b"* 1\r\n",
    b"*2147483648\r\n",
    b"*x\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n:1\r\n",
    b"*1\r\n$01\r\nx\r\n",
    b'GET "a\r\n',
    b'GET "a"b\r\n',
    b"\x16\x03\x01\x00\xa5\x01\x00",
    b"x" * 70_000,
    b"*1\r\n$" + b"1" * 30,
    command(b"DEL\0x", b"k"),
    command(b"DEL\0" + b"x" * 500, b"k"),
]


@pytest.mark.parametrize("bad", FAULTS)
def test_a_fault_keeps_what_was_complete_before_it(bad):
    items, fault = read([command(b"SELECT", b"1") + command(b"GET", b"k") + bad])
    assert items == [Request([b"SELECT", b"1"], 2), 1]
    assert fault


@pytest.mark.parametrize("size", [10, 63, 64, 65, 70_000])
def test_a_zero_byte_in_a_name_is_found_however_it_is_cut(size):
    """Redis compares a name up to it, so whatever command it is like may run. Past the longest name it matters not."""
    name = b"DEL\0" + b"x" * (size - 4)
    data = command(b"GET", b"k") + command(name, b"k")
    for pieces in ([data], bytewise(data[:200]), [data[:40], data[40:]], [data[:30], data[30:33], data[33:]]):
        items, fault = read(pieces)
        assert items == [1]
        assert fault == "a zero byte in a command's name"
    assert read([command(b"x" * 64 + b"\0", b"k")]) == ([1], None)


def test_words_past_the_limits_are_not_held():
    big, many = b"v" * (HELD_WORD_BYTES_MAX + 1), [b"w"] * 1000
    assert read([command(b"SELECT", big, b"t")]) == ([Request([b"SELECT", None, b"t"], 3)], None)
    data = command(b"SELECT", big, b"t")
    assert read([data[i : i + 4096] for i in range(0, len(data), 4096)]) == (
        [Request([b"SELECT", None, b"t"], 3)],
        None,
    )
    ((request,), _) = read([command(b"SELECT", *many)])
    assert (len(request.words), request.length) == (HELD_WORDS_MAX, 1001)


def test_declared_lengths_never_allocate():
    reader = RequestReader(WANTED)
    assert reader.feed(b"*1048577\r\n$6\r\nSELECT\r\n$536870912\r\nx") == []
    assert reader.feed(b"y" * 1000) == []
    held = reader._body
    assert held is None or len(held) <= 1001


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_only_a_wire_error_may_escape(data, cuts):
    assert read(pieces_of(data, cuts)) == read([data]) or read([data])[1] is not None


@given(
    st.lists(
        st.sampled_from(
            [
                command(b"GET", b"a:lock"),
                command(b"set", b"a:lock", b"x"),
                command(b"SET", b"b", b"v" * 90),
                command(b"SET", b"b:lockless", b"v"),
                command(b"DEL", b"b", b"c:lock"),
                b"del c:lock\r\n",
                command(b"EVALSHA", b"f"),
            ]
        ),
        max_size=8,
    ),
    st.lists(st.integers(min_value=0), max_size=6),
)
def test_a_marked_command_is_wanted_wherever_the_pieces_fall(commands: list[bytes], cuts: list[int]) -> None:
    reader, out = RequestReader(WANTED, {b"SET", b"DEL"}, (b":lock",)), []
    for piece in pieces_of(b"".join(commands), cuts):
        out += reader.feed(piece)
    assert sum(i if isinstance(i, int) else 1 for i in out) == len(commands)
    held = [i.words for i in out if isinstance(i, Request) and any(w and w.endswith(b":lock") for w in i.words[1:])]
    wanted = {
        command(b"set", b"a:lock", b"x"): [b"SET", b"a:lock", b"x"],
        command(b"DEL", b"b", b"c:lock"): [b"DEL", b"b", b"c:lock"],
        b"del c:lock\r\n": [b"DEL", b"c:lock"],
    }
    assert held == [wanted[c] for c in commands if c in wanted]


def test_without_the_mark_nothing_is_held() -> None:
    reader = RequestReader(WANTED, {b"SET"}, (b":lock",))
    assert reader.feed(command(b"SET", b"k", b"v") * 3) == [3]
    (item,) = reader.feed(command(b"SET", b"k:lock", b"v" * (MARKED_WORD_BYTES_MAX + 1)))
    assert isinstance(item, Request)
    assert item.words == [b"SET", b"k:lock", None]


WORDS = st.one_of(
    st.sampled_from(
        [b"", b"\r\n", b"a\r\nb", b"\r", b"\n", b"$1", b"*1\r\n$4\r\nPING\r\n", b":lock", b"evalsha", b"SET"]
    ),
    st.binary(max_size=20),
    st.sampled_from([500, 2000, WINDOW_BYTES - 30, WINDOW_BYTES, WINDOW_BYTES + 1, 9000]).map(lambda size: b"v" * size),
)
COMMANDS = st.one_of(
    st.builds(
        lambda name, rest: command(name, *rest),
        st.sampled_from([b"EVALSHA", b"evalsha", b"GET", b"set", b"DEL", b"", b"X" * 65]),
        st.lists(WORDS, max_size=6),
    ),
    st.integers(60, 66).map(lambda count: command(b"SELECT", *[b"w"] * count)),
    st.sampled_from(
        [
            b"*0\r\n", b"PING\r\n", b"\r\n", b"*1\r\n$4\r\nPINGxx", b"*2\r\n$7\r\nEVALSHA\r\n$1\r\nab\n",
            b"*1\rx$4\r\nPING\r\n", b"*1\r\n$4\rxPING\r\n", b"*1\r\n$04\r\nPING\r\n", b"*1\r\n", b"$1\r\n",
        ]
    ),
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.tuples(COMMANDS, st.integers(1, 40)), max_size=8), st.lists(st.integers(min_value=0), max_size=4))
def test_commands_read_many_at_once_are_those_read_byte_by_byte(
    commands: list[tuple[bytes, int]], cuts: list[int]
) -> None:
    """A byte at a time no command ever lies whole before the reader: the long way is the oracle of the short one."""
    data = b"".join(one * (times if len(one) < 100 else 1) for one, times in commands)
    want = read(bytewise(data))
    assert read([data]) == want
    assert read(pieces_of(data, cuts)) == want


def test_what_cannot_be_read_at_once_is_not_looked_at_again_and_again() -> None:
    """Cost by count, not by clock: a stream of such commands is split once for each window of bytes, not for each."""
    reader, tried = RequestReader(WANTED), 0

    class Counted(RequestReader):
        def _whole(self, data: bytes, pos: int, out: list[Item]) -> int:
            nonlocal tried
            tried += 1
            return super()._whole(data, pos, out)

    data = b"*1\r\n$4\r\nPINGxx" * 10_000
    assert Counted(WANTED).feed(data) == reader.feed(data) == [10_000]
    assert tried <= len(data) / WINDOW_BYTES + 1
