"""The strict reader: what it passes is what was sent, cut anywhere; what it refuses, it names; it holds what came."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from emqproxy.wire.frames import LINE_BYTES_MAX, NAME_BYTES_MAX, WINDOW_BYTES, ClientWireError
from emqproxy.wire.items import NO_COMMAND, Item, Piece, Request
from emqproxy.wire.requests import RequestReader
from emqproxy.wire.strict import EARLY_BYTES, StrictReader
from tests.session.talk import pieces as cut_at
from tests.session.talk import words as command

WANTED = {b"EVALSHA", b"SELECT"}
MARKED = {b"DEL", b"SET"}
MARK = b":lock"
LOCK = b"emq:q:1:lock"

patient = settings(deadline=None)  # a busy machine is no fault

Read = tuple[list[tuple[bytes, Item]], str | None, bytes]


def reader() -> StrictReader:
    return StrictReader(WANTED, MARKED, (MARK,))


def fed(parts: Sequence[bytes], made: StrictReader | None = None) -> tuple[list[Piece], str | None]:
    made, out = made or reader(), []
    try:
        for part in parts:
            out += made.feed(part)
    except ClientWireError as error:
        return out + error.args[1], error.args[0]
    return out, None


def read(parts: Sequence[bytes]) -> Read:
    """Its commands with their bytes, neighbours that nobody judges put together; the fault; what was begun and sent."""
    out, fault = fed(parts)
    joined: list[tuple[bytes, Item]] = []
    held = b""
    for piece in out:
        held += piece.raw
        if piece.item is None:
            continue
        if joined and isinstance(piece.item, int) and isinstance(joined[-1][1], int):
            joined[-1] = (joined[-1][0] + held, joined[-1][1] + piece.item)
        else:
            joined.append((held, piece.item))
        held = b""
    return joined, fault, held


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


WORDS = st.one_of(
    st.sampled_from([b"", b"\r\n", b"*1\r\n", b"$3\r\n", LOCK, b"k", b"\0", b"x" * 63, b"x" * 64, b"x" * 65]),
    st.binary(max_size=40),
    st.sampled_from([b"v" * (WINDOW_BYTES - 30), b"v" * WINDOW_BYTES, b"v" * (2 * WINDOW_BYTES)]),
)
NAMES = st.sampled_from([b"GET", b"PING", b"get", b"EVALSHA", b"evalsha", b"Select", b"DEL", b"del", b"SET", b"x" * 64])
COMMANDS = st.builds(lambda name, rest: command(name, *rest), NAMES, st.lists(WORDS, max_size=5))
LINES = st.sampled_from([b"PING\r\n", b"select 1\n", b"DEL emq:q:1:lock\r\n", b"GET  a\tb \r\n"])
CANONICAL = st.lists(st.one_of(COMMANDS, COMMANDS, COMMANDS, LINES), max_size=8).map(b"".join)
CUTS = st.lists(st.integers(0, 1 << 20), max_size=6)
BENT = st.builds(
    lambda data, at, instead, width: data[: at % (len(data) + 1)] + instead + data[at % (len(data) + 1) + width :],
    CANONICAL,
    st.integers(0, 1 << 16),
    st.sampled_from([b"", b"\r", b"\n", b"\r\n", b"\0", b"*", b"$", b"+", b"-1", b"0", b"'", b"*0\r\n", b"\xff"]),
    st.integers(0, 4),
)


@patient
@given(CANONICAL, CUTS)
@example(command("SET", LOCK, "v" * 3 * EARLY_BYTES) + command("SET", "k", "v" * 3 * EARLY_BYTES), [40, EARLY_BYTES])
def test_canonical_streams_pass_whole_and_alike_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    whole = read([data])
    assert whole == read(cut_at(data, cuts))
    commands, fault, begun = whole
    assert (fault, begun) == (None, b"")
    assert b"".join(raw for raw, _ in commands) == data


@patient
@given(BENT, CUTS)
def test_any_stream_is_read_alike_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    commands, fault, begun = read([data])
    again = read(cut_at(data, cuts))
    assert (commands, fault) == again[:2]
    sent = b"".join(raw for raw, _ in commands)
    assert data.startswith(sent + begun)
    assert data.startswith(sent + again[2])


@patient
@given(st.binary(max_size=200), CUTS)
def test_nothing_is_raised_but_what_the_client_did(data: bytes, cuts: list[int]) -> None:
    commands, fault, begun = read(cut_at(data, cuts))
    assert data.startswith(b"".join(raw for raw, _ in commands) + begun)
    assert fault is None or fault


@patient
@given(CANONICAL)
def test_it_finds_the_commands_that_the_lenient_reader_finds(data: bytes) -> None:
    """Of marked ones the lenient reader may show more: it asks for the mark in the whole piece."""
    lenient = [item for item in RequestReader(WANTED, MARKED, (MARK,)).feed(data) if isinstance(item, Request)]
    strict = [item for _, item in read([data])[0] if isinstance(item, Request)]

    def marked(item: Request) -> bool:
        return item.words[0] not in MARKED or any(MARK in (word or b"") for word in item.words)

    shown = [item.words for item in lenient if marked(item) and None not in item.words]
    assert [item.words for item in strict if item.words in shown] == shown
    assert all(marked(item) for item in strict)


@patient
@given(st.integers(0, 70), st.integers(1, 12), st.binary(max_size=4))
def test_what_is_held_begins_where_what_went_on_ends(lead: int, step: int, tail: bytes) -> None:
    """After each piece what has gone on is a begin of the stream; at a boundary it is all that came."""
    data = command("GET", "k") * (lead % 3) + command("EVALSHA", "s" * lead, LOCK) + b"PING\r\n" + tail
    made, sent = reader(), b""
    for at in range(0, len(data), step):
        try:
            sent += b"".join(piece.raw for piece in made.feed(data[at : at + step]))
        except ClientWireError:
            break
        assert data.startswith(sent)
        if made.at_boundary:
            assert sent == data[: at + step]


# ---------------------------------------------------------------- what does not pass

MALFORMED = {
    "S22: two bytes behind a word that are no CRLF": (b"*1\r\n$4\r\nPINGxxPING\r\n", "CRLF behind"),
    "one of them right": (b"*1\r\n$4\r\nPING\rx", "CRLF behind"),
    "LF behind a word": (b"*1\r\n$4\r\nPING\n*1", "CRLF behind"),
    "a longer word": (b"*1\r\n$3\r\nPING\r\n", "CRLF behind"),
    "S44: *0": (b"*0\r\n", "an empty command"),
    "S44: *-1": (b"*-1\r\n", "an empty command"),
    "S45: *01": (b"*01\r\n", "no number"),
    "S45: *+1": (b"*+1\r\n", "no number"),
    "S45: * 1": (b"* 1\r\n", "no number"),
    "*": (b"*\r\n", "no number"),
    "LF behind a count": (b"*1\n$4\r\nPING\r\n", "no number"),
    "CR and another behind a count": (b"*1\rx$4\r\nPING\r\n", "no number"),
    "a zero behind a count": (b"*1\0\r\n$4\r\nPING\r\n", "no number"),
    "a count without an end": (b"*" + b"1" * 30, "no number"),
    "S45: *2147483648": (b"*2147483648\r\n", "more words"),
    "S45: $-1": (b"*1\r\n$-1\r\n", "no length"),
    "S45: a number for a word": (b"*1\r\n:1\r\n", "no bulk string"),
    "a status for a word": (b"*1\r\n+PING\r\n", "no bulk string"),
    "$04": (b"*1\r\n$04\r\nPING\r\n", "never writes"),
    "$ 4": (b"*1\r\n$ 4\r\nPING\r\n", "never writes"),
    "$4 with LF": (b"*1\r\n$4\nPING\r\n", "never writes"),
    "a length of 20 digits": (b"*1\r\n$" + b"9" * 20 + b"\r\n", "never writes"),
    "a command in a command": (b"*2\r\n*1\r\n$4\r\nPING\r\n", "no bulk string"),
    "a zero in a name": (command("DEL\0x", LOCK), "zero byte"),
    "a zero at the end of a long name": (command("x" * (NAME_BYTES_MAX - 1) + "\0"), "zero byte"),
    "a zero in a name past its limit": (command("DEL\0" + "x" * NAME_BYTES_MAX, LOCK), "longer than any"),
    "S47: quotes": (b'GET "a"\r\n', "quotes"),
    "single quotes": (b"GET 'a'\r\n", "quotes"),
    "a zero inline": (b"GET a\0b\r\n", "control"),
    "a vertical tab": (b"GET\x0ba\r\n", "control"),
    "a CR within a line": (b"GET a\rb\r\n", "control"),
    "DEL": (b"GET a\x7f\r\n", "control"),
    "S47: a long line": (b"GET " + b"a" * LINE_BYTES_MAX + b"\r\n", "too long"),
    "a long line without an end": (b"a" * (LINE_BYTES_MAX + 1), "too long"),
    "S48: a TLS hello": (b"\x16\x03\x01\x00\xa5\x01\x00", "control"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_can_be_read_in_two_ways_is_refused_and_named(name: str) -> None:
    """Also behind what is lawful, which has gone on by then; and byte by byte."""
    bad, named = MALFORMED[name]
    lead = command("GET", "k") + command("SELECT", "1")
    for parts in ([lead + bad], [lead, bad], [lead, *bytewise(bad)] if len(bad) < 300 else [lead, bad[:9], bad[9:]]):
        commands, fault, begun = read(parts)
        assert commands == [(command("GET", "k"), 1), (command("SELECT", "1"), Request([b"SELECT", b"1"], 2))]
        assert begun == b""
        assert fault is not None
        assert named in fault


LAWFUL: dict[str, tuple[bytes, list[Item]]] = {
    "S47: inline": (b"PING\r\n", [1]),
    "LF only": (b"PING\n", [1]),
    "words parted by blanks and tabs": (b" select \t 1 \r\n", [Request([b"SELECT", b"1"], 2)]),
    "inline on a lock": (b"del emq:q:1:lock\r\n", [Request([b"DEL", LOCK], 2)]),
    "inline, past ASCII": ("GET zwölf\r\n".encode(), [1]),
    "S44: a blank line is no command": (b"\r\n", [NO_COMMAND]),
    "S48: HTTP's first line is an inline command": (b"GET / HTTP/1.1\r\n", [1]),
    "S50: any bytes in a word": (command("SELECT", bytes(range(256))), [Request([b"SELECT", bytes(range(256))], 2)]),
    "an empty name": (command(""), [1]),
    "the longest name": (command("x" * NAME_BYTES_MAX), [1]),
    "marked, and no mark": (command("DEL", "k"), [1]),
}


@pytest.mark.parametrize("name", LAWFUL)
def test_lawful_forms_pass(name: str) -> None:
    data, items = LAWFUL[name]
    assert [item for _, item in read([data])[0]] == items
    assert [item for _, item in read(bytewise(data))[0]] == items


@pytest.mark.parametrize("count", [510, 511, 512, 513])
def test_the_quick_path_ends_at_511_words_and_the_slow_one_says_the_same(count: int) -> None:
    data = command("DEL", *["k"] * (count - 2), LOCK) + command("PING")
    wide = Request([b"DEL", *[b"k"] * (count - 2), LOCK], count)
    want = [(data[: -len(command("PING"))], wide), (command("PING"), 1)]
    assert read([data])[0] == want
    assert read(cut_at(data, [7, 3000]))[0] == want


@pytest.mark.parametrize("lead", range(WINDOW_BYTES - 40, WINDOW_BYTES + 3))
def test_a_command_across_a_window_s_edge(lead: int) -> None:
    first = command("GET", "v" * (lead - 30))
    data = first + command("SELECT", "1") + command("SET", LOCK, "t")
    items = [item for _, item in read([data])[0]]
    assert items == [1, Request([b"SELECT", b"1"], 2), Request([b"SET", LOCK, b"t"], 3)]
