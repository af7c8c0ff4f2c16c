"""One record as a line; `test_journal` holds each field against the contract's table."""

from __future__ import annotations

from emqproxy.observer.journal_entry import Entries
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import ObserverSettings
from tests.observer.records_factory import ANCHOR, RUN, Story


def test_the_same_record_makes_the_same_line_but_for_the_settings() -> None:
    timeline = Timeline()
    timeline.anchor(ANCHOR)
    entries = Entries(RUN, timeline, Tokens("fingerprint"), ObserverSettings())
    record = Story().acquire(0)
    first, second = entries.of(record), entries.of(record)
    assert first.replay.judged is not None
    assert second.replay.judged is None
    first.replay = second.replay
    assert first == second
    assert (first.run, first.seq, first.op, first.effect) == (RUN, 1, "acquire", "granted")
