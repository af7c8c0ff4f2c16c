"""Addresses: every form that is taken, and one sentence for every one that is not."""

from __future__ import annotations

import re

import pytest

from emqproxy.addresses import HostPort, Listen, Upstream


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tcp://127.0.0.1:6380", Listen("tcp", "127.0.0.1", 6380)),
        ("tcp://0.0.0.0:0", Listen("tcp", "0.0.0.0", 0)),
        ("127.0.0.1:6380", Listen("tcp", "127.0.0.1", 6380)),
        ("localhost:1", Listen("tcp", "localhost", 1)),
        ("tcp://[::1]:6380", Listen("tcp", "::1", 6380)),
        ("[::]:6380", Listen("tcp", "::", 6380)),
        ("TCP://Host:65535", Listen("tcp", "host", 65535)),
        ("TLS://[::1]:6380", Listen("tls", "::1", 6380)),
        ("unix:///run/emqproxy.sock", Listen("unix", path="/run/emqproxy.sock")),
        ("unix:///run/a%20b", Listen("unix", path="/run/a b")),
    ],
)
def test_listen(text: str, value: Listen) -> None:
    assert Listen.parse(text) == value
    assert Listen.parse(str(value)) == value or "%20" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls://0.0.0.0:6380/0", "write tls://HOST:PORT, without a path"),
        ("http://0.0.0.0:6380", "unknown scheme http://; write tcp://HOST:PORT, tls://HOST:PORT or unix:///PATH"),
        ("tcp://0.0.0.0", "the port is missing; write HOST:PORT"),
        ("tcp://:6380", "the host is missing; write HOST:PORT"),
        ("tcp://0.0.0.0:65536", "no number from 0 to 65535"),
        ("tcp://0.0.0.0:x", "no number from 0 to 65535"),
        ("tcp://0.0.0.0:6380/0", "without a path"),
        ("tcp://me@0.0.0.0:6380", "without a user"),
        ("tcp://[::1:6380", "in brackets"),
        ("::1:6380", "in brackets"),
        ("unix://run/emqproxy.sock", "three slashes"),
        ("unix:///", "three slashes"),
        ("unix:///" + "x" * 107, "at most 107 bytes"),
        ("", "the host is missing"),
        (" tcp://a:1", "without blanks"),
    ],
)
def test_not_listen(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        Listen.parse(text)


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("redis://h", Upstream("tcp", "h", 6379), "redis://h:6379"),
        ("redis://h:1/", Upstream("tcp", "h", 1), "redis://h:1"),
        ("redis://[::1]:1/3", Upstream("tcp", "::1", 1, db=3), "redis://[::1]:1/3"),
        ("redis://h?db=4", Upstream("tcp", "h", 6379, db=4), "redis://h:6379/4"),
        ("rediss://h:2", Upstream("tcp", "h", 2, tls=True), "rediss://h:2"),
        ("redis://:p%2Fw%40@h", Upstream("tcp", "h", 6379, password="p/w@"), "redis://h:6379"),
        ("redis://u:p@h/1", Upstream("tcp", "h", 6379, username="u", password="p", db=1), "redis://h:6379/1"),
        ("unix:///r/s", Upstream("unix", port=0, path="/r/s"), "unix:///r/s"),
        ("unix:///r/s?db=1", Upstream("unix", port=0, path="/r/s", db=1), "unix:///r/s?db=1"),
        ("unix://u:p@/r/s", Upstream("unix", port=0, path="/r/s", username="u", password="p"), "unix:///r/s"),
    ],
)
def test_upstream(text: str, value: Upstream, shown: str) -> None:
    assert Upstream.parse(text) == value
    assert str(value) == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h:6379", "write redis://HOST:PORT"),
        ("http://h", "write redis://HOST:PORT"),
        ("redis://", "the host is missing"),
        ("redis://h:0", "from 1 to 65535"),
        ("redis://h:70000", "from 1 to 65535"),
        ("redis://u:CANARY/x@h", "write / as %2F"),
        ("redis://u:CANARY#x@h", "%23"),
        ("redis://:CANARY@h/one", "the database is a number"),
        ("redis://:CANARY@h/-1", "the database is a number"),
        ("redis://:CANARY@h?ssl_cert_reqs=none", "db only"),
        ("redis://user@h", "without a password"),
        ("redis://u:CANARY@[::1", "in brackets"),
        ("unix://r/s", "three slashes"),
    ],
)
def test_not_upstream(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as told:
        Upstream.parse(text)
    assert "CANARY" not in repr(told.value)


def test_a_password_is_in_no_form_of_it() -> None:
    upstream = Upstream.parse("redis://u:CANARY@h/1")
    assert upstream.password == "CANARY"
    assert "CANARY" not in f"{upstream} {upstream!r}"


def test_host_port() -> None:
    assert HostPort.parse("[::1]:9464") == HostPort("::1", 9464)
    assert str(HostPort("::1", 9464)) == "[::1]:9464"
    for text in ("9464", "h", "h:x", "h:1/readyz", "h:1?x", "me@h:1"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            HostPort.parse(text)


@pytest.mark.parametrize("text", ["unix:///a\0b", "unix:///a%00b", "unix:///a\nb", "tcp://h\t:1", "tcp://h:1\x7f2"])
def test_no_control_character_is_taken_or_swallowed(text: str) -> None:
    for parse in (Listen.parse, Upstream.parse, HostPort.parse):
        with pytest.raises(ValueError, match=r"write"):
            parse(text)
    with pytest.raises(ValueError, match="a control character stands in it"):
        Listen.parse(text)
