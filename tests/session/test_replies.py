"""Whole frames become values; what cannot be read is a value, too."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from emqproxy.session.exchange import UNREAD, ErrorReply
from emqproxy.session.replies import decode


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b":-6\r\n", -6),
        (b"+OK\r\n", b"OK"),
        (b"-NOSCRIPT No matching script.\r\n", ErrorReply(b"NOSCRIPT No matching script.")),
        (b"$-1\r\n", None),
        (b"_\r\n", None),
        (b"$3\r\na\r\n\r\n", b"a\r\n"),
        (b"*2\r\n:1\r\n-ERR no\r\n", [1, ErrorReply(b"ERR no")]),
        (b"%1\r\n+a\r\n*1\r\n#t\r\n", {b"a": [True]}),
        (b">1\r\n+x\r\n", [b"x"]),
        (b",1.5\r\n", 1.5),
        (None, UNREAD),
        (b"%1\r\n*1\r\n:1\r\n+a\r\n", UNREAD),  # a map whose key is an array
        (b"!5\r\nERR x\r\n", UNREAD),
    ],
)
def test_values(raw: bytes | None, value: object) -> None:
    assert decode(raw) == value
    assert isinstance(value, ErrorReply) == isinstance(decode(raw), ErrorReply)


def test_an_error_knows_its_kind() -> None:
    assert ErrorReply(b"OOM command not allowed").prefix == "OOM"
    assert ErrorReply(b"\xff\xfe x").prefix


@given(st.binary(max_size=60))
def test_nothing_is_raised(raw: bytes) -> None:
    decode(raw)
