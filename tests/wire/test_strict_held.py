"""What the strict reader holds: what came, never what was declared; what streams, and what is too large."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from emqproxy.wire.frames import COUNT_MAX
from emqproxy.wire.items import Piece, Request
from emqproxy.wire.strict import EARLY_BYTES, WORD_BYTES, StrictReader
from tests.session.talk import pieces as cut_at
from tests.session.talk import words as command
from tests.wire.test_strict import LOCK, MARK, MARKED, WANTED, bytewise, fed, reader


def grown(made: StrictReader, parts: Sequence[bytes]) -> int:
    """The most bytes that feeding them took, beside the parts."""
    tracemalloc.start()
    try:
        for part in parts:
            made.feed(part)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "header",
    [b"*1000000\r\n", b"*%d\r\n" % COUNT_MAX, b"*1\r\n$536870912\r\n", b"*2\r\n$7\r\nEVALSHA\r\n$536870912\r\n",
     b"*3\r\n$3\r\nSET\r\n$12\r\nemq:q:1:lock\r\n$9223372036854775807\r\n"],
)  # fmt: skip
def test_s46_a_declared_length_takes_no_room(header: bytes) -> None:
    if header.startswith(b"*1\r\n"):  # no command's name is so long
        assert fed([header])[1] is not None
        return
    assert grown(reader(), bytewise(header)) < 20_000
    assert grown(reader(), [header, b"$1\r\nx"]) < 20_000


def test_s46_what_is_held_grows_with_what_came() -> None:
    """One-byte words of a command of a million: 64 bytes are counted for each, and no more is taken by much."""
    made = reader()
    made.held_bytes_max = 256 * 1024
    made.feed(b"*1000000\r\n$7\r\nEVALSHA\r\n")
    words, out = 0, []
    while not out:
        out = made.feed(b"$1\r\nx\r\n")
        words += 1
    assert words == pytest.approx(made.held_bytes_max / (WORD_BYTES + 7), rel=0.01)
    assert out[0].too_large
    assert out[0].raw == b""
    assert grown(made, [b"$1\r\nx\r\n" * 1000] * 50) < 200_000  # the rest of it goes nowhere, and is not held
    assert not made.at_boundary


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([EARLY_BYTES - 40, EARLY_BYTES, EARLY_BYTES + 9]), st.integers(50, 60_000), st.booleans())
def test_a_large_command_streams_where_nobody_judges_it_and_comes_whole_where_somebody_does(
    size: int, step: int, on_lock: bool
) -> None:
    data = command("SET", LOCK if on_lock else "k", "v" * size) + command("GET", "k")

    def undecided(words: Sequence[bytes | None], _: int) -> bool:
        return any((word or b"").endswith(MARK) for word in words[1:])

    made = StrictReader(WANTED, MARKED, (MARK,), undecided=undecided)
    out, fault = fed([data[at : at + step] for at in range(0, len(data), step)], made)
    assert fault is None
    assert b"".join(piece.raw for piece in out) == data
    judged = [piece for piece in out if isinstance(piece.item, Request)]
    assert [piece.raw for piece in judged] == ([command("SET", LOCK, "v" * size)] if on_lock else [])
    assert made.at_boundary


def test_an_unwanted_command_is_not_held_at_all() -> None:
    made, value = reader(), b"v" * 100_000
    out = made.feed(b"*3\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1000000\r\n" + value)
    assert sum(len(piece.raw) for piece in out) > len(value)
    assert grown(made, [value] * 8) < 300_000


@pytest.mark.parametrize("name", ["EVALSHA", "SET"])
def test_one_too_large_is_told_with_its_first_words_and_what_follows_is_read_again(name: str) -> None:
    made = reader()
    made.held_bytes_max = 10_000
    large = command(name, LOCK, "v" * 30_000)
    stream = large + command("SELECT", "1")
    for parts in ([stream], cut_at(stream, range(0, len(stream), 7))):
        out, fault = fed(parts, made)
        assert fault is None
        assert [piece.too_large for piece in out] == [True, False]
        assert isinstance(out[0].item, Request)
        assert (out[0].raw, out[0].item.words[:2], out[0].item.length) == (b"", [name.encode(), LOCK], 3)
        assert out[1] == Piece(command("SELECT", "1"), Request([b"SELECT", b"1"], 2))
