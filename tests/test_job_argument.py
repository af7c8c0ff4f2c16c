"""A job on the command line; what is no job's is tried with each command in `test_cli`."""

from __future__ import annotations

import pytest

from emqproxy.command_errors import CommandError
from emqproxy.job_argument import read_job


@pytest.mark.parametrize(
    ("written", "db", "key"),
    [("emq:orders:42", 0, b"emq:orders:42"), ("{a}:b:q:42@3", 3, b"{a}:b:q:42"), ("a:b:c@7@0", 0, b"a:b:c@7")],
)
def test_key_and_database(written: str, db: int, key: bytes) -> None:
    assert read_job(written) == (db, key)


@pytest.mark.parametrize("written", ["", "42", "a:b", "a:b:", "a::c", ":b:c", "a:b:c@", "a:b:c@x", "a:b:@3"])
def test_what_is_none(written: str) -> None:
    with pytest.raises(CommandError):
        read_job(written)
