"""What is passed over by one pattern comes to the same as what is read: against a reader that never makes one."""

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from emqproxy.wire.alike import ALIKE_MIN
from emqproxy.wire.frames import ClientWireError
from emqproxy.wire.items import Item
from emqproxy.wire.requests import RequestReader
from tests.wire.test_requests import command, merged, pieces_of

WANTED, MARKED, MARK = {b"EVALSHA", b"SELECT"}, {b"SET", b"DEL"}, b":lock"
SHA, KNOWN = b"f" * 40, b"a" * 40


class Strangers:
    """Everyone whose sha is not known and whose words begin with no prefix; counts how often it was asked."""

    prefixes = (b"bull:", b"emq:")

    def __init__(self) -> None:
        self.age = self.asked = 0
        self.known = {KNOWN}

    def __call__(self, words: Sequence[bytes | None]) -> bool:
        self.asked += 1
        return (
            words[0] == b"EVALSHA"
            and words[1] not in self.known
            and not any(word is None or word.startswith(self.prefixes) for word in words[2:])
        )


def evalsha(key: bytes, sha: bytes = SHA, name: bytes = b"EVALSHA") -> bytes:
    return command(name, sha, b"1", key, b"token")


def reader(strangers: Strangers, *, patterns: bool = True) -> RequestReader:
    made = RequestReader(WANTED, MARKED, (MARK,), strangers)
    if not patterns:
        made._alike.saw = lambda *_: None  # type: ignore[method-assign]  # it only ever reads
    return made


def read(made: RequestReader, pieces: list[bytes]) -> tuple[list[Item], str | None]:
    out: list[Item] = []
    try:
        for piece in pieces:
            out += made.feed(piece)
    except ClientWireError as error:
        return merged(out + error.args[1]), error.args[0]
    return merged(out), None


def marked_ones(items: list[Item]) -> list[Item]:
    """Without the commands in `marked`: they may be held or not, by what else stands in a piece."""
    return merged([1 if not isinstance(i, int) and i.words[0] in MARKED else i for i in items])


VOICES = [
    evalsha(b"cache:01"),
    evalsha(b"bull:q:1"),  # as long as the others, and somebody's
    evalsha(b"bull:q:\r"),
    evalsha(b"cach\r\n:1"),
    evalsha(b"cache:01", KNOWN),
    evalsha(b"cache:01", name=b"evalsha"),
    evalsha(b"cache:100"),
    command(b"GET", b"cache:01"),
    command(b"get", b"cache:01"),
    command(b"GET", b""),
    command(b"SET", b"q:1:lock", b"v"),
    command(b"SET", b"q:1:loce", b"v"),
    command(b"SELECT", b"3"),
    command(b"PING"),
    b"PING\r\n",
    b"*0\r\n",
    command(b"GET", b"x" * 5000),
    b"*2\r\n$3\r\nGET\r\n$08\r\ncache:01\r\n",  # a length that is none
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(VOICES), st.sampled_from([1, 2, 31, 40, 100])), max_size=8),
    st.lists(st.integers(0, 100_000), max_size=6),
)
def test_passing_over_comes_to_the_same_as_reading(said, cuts):
    pieces = pieces_of(b"".join(voice * times for voice, times in said), cuts)
    whole, fault = read(reader(Strangers(), patterns=False), pieces)
    passed, same = read(reader(Strangers()), pieces)
    assert (marked_ones(passed), same) == (marked_ones(whole), fault)


@pytest.mark.parametrize("pieces", [1, 400])
def test_a_shape_that_has_shown_is_matched_and_not_read(pieces: int):
    """Piece by piece as in one."""
    strangers = Strangers()
    data = [b"".join(evalsha(b"cache:%03d" % n) for n in range(at, 400, pieces)) for at in range(pieces)]
    assert read(reader(strangers), data) == ([400], None)
    assert strangers.asked < 100 if pieces == 1 else strangers.asked == ALIKE_MIN + 1


def test_one_of_somebodys_among_a_thousand_is_found():
    for odd in (evalsha(b"bull:q:1"), evalsha(b"cache:01", KNOWN), command(b"SELECT", b"3")):
        made = reader(Strangers())
        assert read(made, [evalsha(b"cache:01") * 100]) == ([100], None)
        items, _ = read(made, [evalsha(b"cache:01") * 500 + odd + evalsha(b"cache:01") * 499])
        assert len(items) == 3
        assert (items[0], items[2]) == (500, 499)


def test_a_script_that_becomes_known_is_somebodys_from_then_on():
    strangers = Strangers()
    made = reader(strangers)
    assert read(made, [evalsha(b"cache:01") * 100]) == ([100], None)
    strangers.known.add(SHA)
    strangers.age += 1
    items, _ = read(made, [evalsha(b"cache:01") * 100])
    assert len(items) == 100


def test_a_hand_on_a_locks_key_is_seen_behind_a_thousand_that_are_none():
    made = reader(Strangers())
    assert read(made, [command(b"SET", b"q:1:locc", b"v") * 1000]) == ([1000], None)
    items, _ = read(made, [command(b"SET", b"q:1:locc", b"v") * 10 + command(b"SET", b"q:1:lock", b"v")])
    assert items[-1].words == [b"SET", b"q:1:lock", b"v"]  # type: ignore[union-attr]
