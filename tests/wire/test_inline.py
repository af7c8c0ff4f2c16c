"""The words of inline commands, by redis-server's rules for blanks and quotes."""

import pytest

from emqproxy.wire.inline import split_inline


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'a "b\\"c" d', [b"a", b'b"c', b"d"]),
        (b"a 'b\\'c'", [b"a", b"b'c"]),
        (b'""', [b""]),
        (b'x"y"', [b"xy"]),
        (b"a\vb c", [b"a\vb", b"c"]),
        (b'"\\t\\b\\a\\q\\x4"', [b"\t\b\aqx4"]),
        (b'"abc', None),
        (b"'abc", None),
        (b'"a"b', None),
        (b"", []),
    ],
)
def test_inline_words(line, words):
    assert split_inline(line) == words
