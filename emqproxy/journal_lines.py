"""A journal, read: its lines (CONTRACT, "Journal") as values, one after the other, and what of it could not be read.

Bytes in, values out; knows no file. A journal of any length takes no more memory than its longest line.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, BinaryIO, Final, Generic, Protocol, TypeVar

import msgspec

from emqproxy.observer.journal_replay import Figure, Int64, Replay

VERSION: Final = 1
LINE_BYTES_MAX: Final = 4 << 20
"""A line has a kilobyte or two; one that names what a thousand queues lost may have more."""
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_TIME: Final = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z\Z"
Time = Annotated[str, msgspec.Meta(pattern=_TIME)]
"""RFC 3339, UTC."""


class JournalLine(msgspec.Struct, gc=False):
    """One line. What it does not tell, as a line of an older release does not, is as if it were null. A number beyond
    what any release of ours writes, or a time that none is, is no line."""

    v: int
    run: str
    seq: Int64
    time: Time
    op: str
    outcome: str
    opened_ns: Int64
    closed_ns: Int64
    effect: str
    target: str | None = None
    code: Int64 | None = None
    code_name: str | None = None
    db: Int64 | None = None
    prefix: str | None = None
    queue: str | None = None
    job: str | None = None
    token: str | None = None
    worker: str | None = None
    script: str | None = None
    sha: str | None = None
    match: str | None = None
    conn: Int64 | None = None
    client: str | None = None
    client_name: str | None = None
    ttl_ms: Int64 | None = None
    age_ms: Figure | None = None
    remaining_ms: Figure | None = None
    grade: str | None = None
    finding: str | None = None
    scope: str | None = None
    idle_ms: Figure | None = None
    burst: Int64 | None = None
    cause: str | None = None
    because: str | None = None
    evidence: tuple[Int64, ...] | None = None
    action: str | None = None
    rule: str | None = None
    took_us: Int64 | None = None
    lag_us: Int64 = 0
    replay: Replay = msgspec.field(default_factory=Replay)

    def __post_init__(self) -> None:
        """Raises ValueError where it is none."""
        datetime.fromisoformat(self.time)  # a month has no 31st day only because a pattern has
        self.replay.check()

    @property
    def key(self) -> str | None:
        """The job's key, `emq:orders:42`; None where it names none."""
        return None if self.job is None else f"{self.prefix}:{self.queue}:{self.job}"

    @property
    def who(self) -> str:
        """The client's name, or its address."""
        return self.client_name or self.client or ""


class _Version(msgspec.Struct):
    v: int


class Versioned(Protocol):
    """What every kind of line says of itself."""

    @property
    def v(self) -> int: ...


L = TypeVar("L", bound=Versioned)


class LineReader(Generic[L]):
    """Takes lines as bytes, gives values of a kind (all of a line, or a part of it), counts what is none."""

    def __init__(self, kind: type[L]) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._versions = msgspec.json.Decoder(_Version)
        self.other_versions = 0
        self.unreadable = 0
        """Torn, cut, or of another program."""

    def read(self, line: bytes) -> L | None:
        """Never raises on account of what stands in it."""
        if not line.strip():
            return None
        try:
            read = self._decoder.decode(line)
            if read.v == VERSION:
                return read
            self.other_versions += 1
        except _UNDECODABLE:
            if self._version(line) == VERSION:
                self.unreadable += 1
            else:
                self.other_versions += 1
        return None

    def _version(self, line: bytes) -> int:
        """A line of another version may have other fields; whatever else it is, it is ours and torn."""
        try:
            return self._versions.decode(line).v
        except _UNDECODABLE:
            return VERSION


def raw_lines(journal: BinaryIO) -> Iterator[bytes]:
    """Line by line; of one that is longer than any of ours no more than its beginning."""
    while line := journal.readline(LINE_BYTES_MAX):
        yield line
        while line and not line.endswith(b"\n"):
            line = journal.readline(LINE_BYTES_MAX)
