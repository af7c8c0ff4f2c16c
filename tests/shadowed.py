"""Journals of calls that were judged, written by the journal's own writer."""

from __future__ import annotations

from pathlib import Path

from emqproxy.observer.journal import Journal
from emqproxy.observer.journal_file import JournalFile
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import Message
from tests.observer.records_factory import ANCHOR, RUN


def write_journal(path: Path, *messages: Message, run: str = RUN) -> Path:
    """Appends the lines of these messages."""
    timeline = Timeline()
    timeline.anchor(ANCHOR)
    journal = Journal(run, timeline, Tokens("fingerprint"), JournalFile(str(path)))
    for message in messages:
        journal.on(message)
    journal.close()
    return path
