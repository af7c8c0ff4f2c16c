"""Whatever the pipe holds and however it ends: whole batches come out, nothing is raised."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emqproxy.observer.inbox import Inbox
from emqproxy.records import BATCH_BYTES_MAX, Message
from tests.observer.records_factory import ANCHOR, Story, blind, framed, hello


def read(*parts: bytes) -> tuple[list[list[Message]], Inbox]:
    """Writes the parts one by one into a pipe, closes it, and reads it all."""
    ours, theirs = os.pipe()

    def write() -> None:
        with os.fdopen(theirs, "wb", buffering=0) as end:
            for part in parts:
                end.write(part)

    writer = threading.Thread(target=write)
    writer.start()
    inbox = Inbox(ours)
    batches = list(inbox.batches())
    writer.join()
    os.close(ours)
    return batches, inbox


def batches() -> list[list[Message]]:
    story = Story()
    return [[hello(), ANCHOR], [story.acquire(0), story.renew(7), blind(story.numbers, 8)], [], [story.finish(9)]]


def test_batches_come_out_as_they_went_in() -> None:
    sent = batches()
    got, inbox = read(*map(framed, sent))
    assert got == sent
    assert inbox.why == "eof"


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_fragmentation_and_tearing_change_nothing_but_the_end(data: st.DataObject) -> None:
    sent = batches()
    wire = b"".join(map(framed, sent))
    cut = data.draw(st.integers(0, len(wire)))
    at = data.draw(st.integers(0, cut))
    got, inbox = read(wire[:at], wire[at:cut])
    whole = [sum(len(framed(batch)) for batch in sent[: n + 1]) for n in range(len(sent))]
    assert got == sent[: sum(end <= cut for end in whole)]
    assert inbox.why == ("eof" if cut in (0, *whole) else "torn")


def test_a_batch_that_is_not_understood_costs_only_itself() -> None:
    first, *_, last = batches()
    got, inbox = read(framed(first), (3).to_bytes(4, "big") + b"\x93\xc1\x00", framed(last))
    assert got == [first, last]
    assert inbox.undecodable == 1


@pytest.mark.parametrize("length", [BATCH_BYTES_MAX + 1, 2**32 - 1])
def test_a_length_past_the_bound_ends_it_without_allocating(length: int) -> None:
    got, inbox = read(framed([ANCHOR]), length.to_bytes(4, "big"))
    assert got == [[ANCHOR]]
    assert inbox.why == "oversized"


def test_a_closed_descriptor_is_an_end() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    os.close(theirs)
    inbox = Inbox(ours)
    assert list(inbox.batches()) == []
    assert inbox.why == "error"
