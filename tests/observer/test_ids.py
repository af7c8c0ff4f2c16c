"""Ids are part of the contract: other sidecars, and users with `trace-id`, compute the same."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.locks.events import Lock
from emqproxy.observer import ids
from tests.observer.records_factory import Story


def test_a_trace_id_is_the_hash_that_the_formula_names() -> None:
    formula = hashlib.blake2b(
        b"prod-eu\x003\x00emq:{orders}:42", digest_size=16, person=b"emqproxy.trace.1"
    ).hexdigest()
    assert f"{ids.trace_id('prod-eu', 3, b'emq:{orders}:42'):032x}" == formula


def test_an_attempt_id_is_the_hash_that_the_formula_names() -> None:
    data = b"\x000\x00emq:orders:42\x00tok:1\x002"
    formula = hashlib.blake2b(data, digest_size=8, person=b"emqproxy.att.1").hexdigest()
    assert f"{ids.attempt_id('', 0, b'emq:orders:42', b'tok:1', 2):016x}" == formula


def test_ids_written_down_once_stay() -> None:
    """A change here breaks every link and every bookmark, and sidecars of two versions part."""
    assert f"{ids.trace_id('', 0, b'emq:orders:42'):032x}" == "37f88200c116c9a3c8cc833c25a09d26"
    story = Story()
    story.acquire(0)
    assert story.attempt is not None
    assert f"{ids.span_of('', story.lock, story.token, story.number):016x}" == "c303a798cb0eb582"


def test_the_lock_leads_to_its_jobs_trace() -> None:
    assert ids.trace_of("n", Lock(2, b"bull:q:7:lock")) == ids.trace_id("n", 2, b"bull:q:7")


@pytest.mark.parametrize(
    ("written", "job"),
    [
        ("emq:orders:42", (0, b"emq:orders:42")),
        ("emq:orders:42@3", (3, b"emq:orders:42")),
        ("emq:orders:a@b", (0, b"emq:orders:a@b")),
        ("emq:orders:a@7@0", (0, b"emq:orders:a@7")),
        ("emq:orders:42@", (0, b"emq:orders:42@")),
        ("@1", (1, b"")),
        ("emq:q:\udcff", (0, b"emq:q:\xff")),
    ],
)
def test_a_job_as_users_write_it(written: str, job: tuple[int, bytes]) -> None:
    assert ids.job(written) == job


def test_the_command_line_computes_them_without_loading_the_sdk() -> None:
    code = "import sys, emqproxy.observer.ids; print([name for name in sys.modules if 'opentelemetry' in name])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30).stdout == b"[]\n"


@given(st.integers(0, 15), st.integers(0, 15), st.text("ab", max_size=2), st.text("ab", max_size=2))
def test_other_names_have_other_ids(db: int, other_db: int, key: str, other_key: str) -> None:
    one, other = ids.trace_id("", db, key.encode()), ids.trace_id("", other_db, other_key.encode())
    assert (one == other) == ((db, key) == (other_db, other_key))
    assert 0 < one < 1 << 128
