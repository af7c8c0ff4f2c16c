"""A token is shown by a fingerprint, and only where it has to be told."""

from __future__ import annotations

import re

import pytest

from emqproxy.observer.tokens import Tokens
from tests.observer.records_factory import OTHER_TOKEN, TOKEN


def test_a_fingerprint_is_sixteen_hex_and_no_part_of_the_token() -> None:
    name = Tokens("fingerprint").name(TOKEN)
    assert name.token is not None
    assert re.fullmatch("[0-9a-f]{16}", name.token)
    assert name.token not in TOKEN.decode()


@pytest.mark.parametrize("token", [TOKEN, OTHER_TOKEN], ids=["dashes", "no dashes"])
def test_a_worker_is_known_by_the_uuid_in_its_tokens(token: bytes) -> None:
    tokens = Tokens("fingerprint", "key")
    uuid, _, number = token.rpartition(b":")
    name, next_one = tokens.name(token), tokens.name(uuid + b":%d" % (int(number) + 1))
    assert name.worker == next_one.worker == tokens.name(uuid).token
    assert name.token != next_one.token
    assert name.number == int(number)


@pytest.mark.parametrize("token", [b"w1", b"4b7a9f62-3a51-4c55-9a3e-1d2f4f0c9b11", b"w1:3", TOKEN + b"x", b"\xff:1"])
def test_other_tokens_name_no_worker(token: bytes) -> None:
    name = Tokens("fingerprint").name(token)
    assert name.token is not None
    assert (name.worker, name.number) == (None, None)


def test_the_key_matters_and_only_the_key() -> None:
    one = Tokens("fingerprint", "a").name(b"w1").token
    assert one == Tokens("fingerprint", "a").name(b"w1").token
    assert one != Tokens("fingerprint", "b").name(b"w1").token
    assert one != Tokens("fingerprint").name(b"w1").token


def test_a_key_of_any_length_is_taken_whole() -> None:
    """BLAKE2b itself takes 64 bytes; two keys that differ after them must still differ."""
    long, longer = "k" * 64, "k" * 65
    assert Tokens("fingerprint", long).name(b"t") != Tokens("fingerprint", longer).name(b"t")


def test_raw_tells_it_as_it_is_and_as_valid_text() -> None:
    tokens = Tokens("raw")
    assert tokens.name(TOKEN).token == TOKEN.decode()
    assert tokens.name(TOKEN).worker == TOKEN.decode().rpartition(":")[0]
    assert tokens.name(b"a\xffb").token == "a\\xffb"


def test_off_tells_nothing() -> None:
    assert Tokens("off").name(TOKEN) == (None, None, None)


def test_no_token_has_no_fingerprint() -> None:
    assert Tokens("fingerprint").name(b"") == (None, None, None)
