"""One side is read no more where it is too far ahead, and read again when half of it was looked at."""

from __future__ import annotations

from emqproxy.proxy.ahead import ALL_UNSEEN_BYTES_MAX, SHARE_BYTES, UNSEEN_BYTES_MAX, Ahead
from emqproxy.proxy.looks import Looks


def test_it_is_told_once_when_it_is_too_far_and_once_when_it_is_not():
    side = Ahead(Looks())
    assert not side.read(UNSEEN_BYTES_MAX)
    assert side.read(1)
    assert side.too_far
    assert not side.read(1), "it is told only when it changes"
    assert not side.looked(10)
    assert side.looked(UNSEEN_BYTES_MAX // 2 + 10)
    assert not side.too_far
    assert not side.looked(10)


def test_where_all_are_behind_only_a_share_is_read():
    looks = Looks()
    looks.waiting_bytes = ALL_UNSEEN_BYTES_MAX + 1
    small, large = Ahead(looks), Ahead(looks)
    assert not small.read(SHARE_BYTES)
    assert large.read(SHARE_BYTES + 1)
    looks.waiting_bytes = 0
    assert large.looked(1)
