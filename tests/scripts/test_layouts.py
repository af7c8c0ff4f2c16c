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


CONFIGURED = (b"emq:", b"bull:", b"{br:ace}:", b"{br:ace}:x:")
IDS = ("7", "a:b:c", "wait", "x:lock")


@pytest.mark.parametrize("job", IDS)
@pytest.mark.parametrize("queue", [b"emq:orders:", b"bull:orders:", b"{br:ace}:orders:", b"{br:ace}:x:orders:"])
def test_within_the_prefixes_a_queues_name_holds_no_colon(queue, job):
    assert layouts.Queues(CONFIGURED).prefix_of(queue + job.encode()) == queue


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        (b"other:orders:7", b"other:orders:"),
        (b"other:orders:a:b", b"other:orders:a:"),
        (b"other:orders:repeat:nightly:x:17", b"other:orders:"),
        (b"emq:repeat:x:17", b"emq:repeat:"),
        (b"emq:7", b"emq:"),
        (b"emq::7", b"emq::"),
        (b"emq:orders:", b"emq:orders:"),
        (b":7", b":"),
        (b"seven", b""),
        (b"", b""),
    ],
)
def test_the_likeliest_queue_of_a_jobs_key(key, prefix):
    assert layouts.Queues(CONFIGURED).prefix_of(key) == prefix


@pytest.mark.parametrize("job", IDS)
@pytest.mark.parametrize("queue", [b"other:orders:", b"emq:orders:eu:", b"{o:t}:a:b:"])
def test_a_queue_that_was_picked_from_is_known_by_its_name(queue, job):
    queues = layouts.Queues(CONFIGURED)
    queues.saw(queue)
    queues.saw(b"emq:orders:")
    queues.saw(queue + job.encode() + b":")
    assert queues.prefix_of(queue + job.encode()) == queue


def test_what_is_no_queues_prefix_or_too_much_is_not_noted():
    queues = layouts.Queues(CONFIGURED)
    for prefix in (b"", b"emq:", b"emq:orders:a", b"emq:" + b"x:" * layouts.PREFIX_BYTES_MAX):
        queues.saw(prefix)
        assert queues.prefix_of(b"emq:orders:a:b") == b"emq:orders:"
    for number in range(layouts.QUEUES_MAX + 1):
        queues.saw(b"o:%d:" % number)
    assert queues.prefix_of(b"o:0:a:b") == b"o:0:"
    assert queues.prefix_of(b"o:%d:a:b" % layouts.QUEUES_MAX) == b"o:%d:a:" % layouts.QUEUES_MAX
    many = b"emq:orders" + b":" * 1_000_000
    assert queues.prefix_of(many) == b"emq:orders:"


@pytest.mark.parametrize(
    ("script", "keys_sent", "args", "prefix"),
    [
        (("extendLock", 2), (b"o:q:a:b:lock", b"o:q:stalled"), (b"t", b"1", b"a:b"), b"o:q:"),
        (("extendLock", 2), (b"o:q:a:b:lock", b"stalled"), (b"t", b"1", b"a:b"), b"o:q:"),
        (("extendLock", 2), (b"o:q:a:b:lock", b"stalled"), (b"t", b"1", b"2"), b"o:q:a:"),
        (("updateProgress", 3), (b"o:q:a:b", b"o:q:events", b"o:q:meta"), (b"a:b", b"1"), b"o:q:"),
        (("moveToWaitingChildren", 7), (), (b"t", b"", b"1", b"a:b", b"o:q:"), b"o:q:"),
        (("updateData", 1), (b"o:q:a:b",), (b"{}",), b"o:q:a:"),
        (("updateData", 1), (b"emq:q:a:b",), (b"{}",), b"emq:q:"),
    ],
)
def test_what_a_call_says_of_its_queue_goes_before_any_guess(script, keys_sent, args, prefix):
    layout = layouts.load(layouts.Queues(CONFIGURED))[script][-1]
    job_key = keys_sent[0].removesuffix(b":lock") if keys_sent else b"o:q:a:b"
    assert layout.prefix_of(Call(list(keys_sent), list(args)), job_key) == prefix
