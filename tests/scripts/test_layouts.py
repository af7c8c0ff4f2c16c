"""Roles of KEYS and ARGV, the one row of a release range, and a queue's prefix out of a job's key."""

from __future__ import annotations

import itertools

import pytest

from emqproxy.scripts import layouts
from emqproxy.scripts.arguments import Call
from tests.scripts.talk import PREFIX, keys

ROWS = layouts.load()


def test_every_role_of_a_key_that_is_no_job_has_a_suffix():
    free = {"job", "state_set", "dedup", "producer", "custom_key"}
    roles = {role for rows in ROWS.values() for layout in rows for role in layout.row.keys}
    assert roles - free <= set(layouts.SUFFIXES)
    assert all(len(layout.row.keys) == layout.arity for rows in ROWS.values() for layout in rows)


def test_rows_of_one_name_and_arity_are_apart():
    for rows in ROWS.values():
        established = sorted((layout.first, layout.last) for layout in rows)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(established))


def test_words_by_role():
    (layout,) = ROWS["extendLock", 2]
    call = Call(keys("7:lock", "stalled"), [b"a:1", None])
    assert layout.word(call, "lock") == PREFIX + b"7:lock"
    assert layout.word(call, "token") == b"a:1"
    assert [layout.word(call, role) for role in ("duration_ms", "job_id", "no_such_role")] == [None, None, None]
    assert layout.word(Call([], []), "lock") is None


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [("5.5.4", "5.8.5", "5.5.4"), ("5.6.0", "5.7.0", "5.5.4"), ("5.8.5", "5.8.6", None), ("3.0.0", "3.1.0", None)],
)
def test_a_range_of_releases_has_one_layout_or_none(first, last, found):
    layout = layouts.in_range(ROWS["moveToDelayed", 8], first, last)
    assert (layout and layout.row.first) == found


@pytest.mark.parametrize(
    ("key", "job_id", "prefix"),
    [
        (b"emq:q:7", b"7", b"emq:q:"),
        (b"emq:q:a:b", b"a:b", b"emq:q:"),
        (b"emq:q:a:b", None, b"emq:q:a:"),
        (b"emq:q:17", b"7", b"emq:q:"),
        (b"seven", b"7", b""),
    ],
)
def test_the_prefix_of_a_jobs_key(key, job_id, prefix):
    assert layouts.prefix_of(key, job_id) == prefix
