"""The journal: one NDJSON line for one thing that happened to one job (`journal_entry`)."""

from __future__ import annotations

import msgspec

from emqproxy import logs
from emqproxy.observer.journal_entry import Entries
from emqproxy.observer.journal_file import JournalFile
from emqproxy.observer.timeline import Timeline
from emqproxy.observer.tokens import Tokens
from emqproxy.records import Anchor, Message, ObserverSettings, Record


class _Last(msgspec.Struct):
    """What of a journal's last line tells where it ended."""

    run: str
    seq: int


class Journal:
    """Writes the records of a batch at its end, in one go."""

    def __init__(
        self,
        run: str,
        timeline: Timeline,
        tokens: Tokens,
        file: JournalFile,
        settings: ObserverSettings | None = None,
    ) -> None:
        self._run = run
        self._file = file
        self._lines: list[bytes] = []
        self._encoder = msgspec.json.Encoder()
        self._entries = Entries(run, timeline, tokens, settings)
        self._log = logs.RateLimited(logs.get())
        self._seq = _last_seq(file.last_line(), run)
        self.missing = 0
        """Records of this run that never came: dropped on the way, or held by an observer that was killed."""

    def on(self, message: Message) -> None:
        """Takes a record's line; looks after the file at each heartbeat."""
        match message:
            case Record():
                self._count(message)
                self._lines.append(self._encoder.encode(self._entries.of(message)) + b"\n")
            case Anchor():
                self._file.look()
                self._entries.replay.beat()
            case _:
                pass

    def flush(self) -> None:
        """Call at the end of each batch."""
        lines, self._lines = self._lines, []
        self._file.write(lines)

    def use(self, settings: ObserverSettings) -> None:
        """From the next line on it goes there; the same path is opened anew."""
        self._file.use(settings.journal, settings.journal_max_bytes)
        self._entries.replay.use(settings)

    def close(self) -> None:
        """Writes what is left and lets go of the file."""
        self.flush()
        self._file.close()

    @property
    def lost(self) -> int:
        """Lines that came and could not be written."""
        return self._file.lost

    # ------------------------------------------------------------------ private

    def _count(self, record: Record) -> None:
        """Every record has a number, dropped or not: what is skipped is missing."""
        skipped, self._seq = record.seq - self._seq - 1, record.seq
        if skipped > 0:
            self.missing += skipped
            now = record.verdict.at
            self._log.warning("records are missing from the journal", now=now, before=record.seq, missing=self.missing)


def _last_seq(line: bytes, run: str) -> int:
    """The number of the last line that an observer before us wrote in this run; 0 where there was none."""
    try:
        last = msgspec.json.decode(line, type=_Last)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return 0
    return last.seq if last.run == run else 0
