"""Where the journal's lines go: a file that is appended to, or standard output. It loses lines rather than raise.

Laws: a line is whole or it is not there (what a full disk tore is taken away again; what another left torn is closed
with a newline before the next line); a file that was moved away, deleted or could not be opened is opened anew; what
could not be written is counted.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Sequence
from typing import Final

from emqproxy import logs

_PATIENCE_S: Final = 1.0
"""How long a standard output that is full and does not block is waited for."""


_LINE_BYTES_MAX: Final = 64 * 1024
"""More than any line of ours takes."""


class JournalFile:
    """One destination: a path, or `-` for standard output. `bytes_max` above 0: it rotates to PATH.1 and keeps one."""

    def __init__(self, path: str, bytes_max: int = 0) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._fd = -1
        self._size = 0
        self._torn = False
        self._tail = b""
        """What of a line we wrote last without its end."""
        self._log = logs.RateLimited(logs.get())
        self.written = 0
        """Lines."""
        self.lost = 0
        """Lines."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Appends lines, each with its newline. Returns when the system has them, or they are counted as lost."""
        before = self.written
        try:
            for chunk in self._chunks(lines):
                self._append(b"".join(chunk))
        except OSError as error:
            self._failed(len(lines) - (self.written - before), error)

    def last_line(self) -> bytes:
        """The last whole line that stands in the file, without its newline; empty where there is none to be read."""
        if self._path == "-":
            return b""
        try:
            with open(self._path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LINE_BYTES_MAX))
                lines = file.read(_LINE_BYTES_MAX).split(b"\n")
        except (OSError, ValueError):
            return b""
        return lines[-2] if len(lines) > 1 else b""

    def look(self) -> None:
        """Call now and then: a file that was moved away or deleted is left for a new one at its path."""
        if self._fd < 0 or self._path == "-":
            return
        try:
            there, ours = os.stat(self._path), os.fstat(self._fd)
            moved = (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)
        except OSError:
            moved = True
        if moved:
            self.close()

    def use(self, path: str, bytes_max: int) -> None:
        """Another destination from the next line on, or the same opened anew."""
        self.close()
        self._path, self._bytes_max = path, bytes_max

    def close(self) -> None:
        """Lets go of the file; the next write opens it again."""
        if self._fd >= 0 and self._path != "-":
            os.close(self._fd)
        self._fd = -1

    # ------------------------------------------------------------------ private

    def _chunks(self, lines: Sequence[bytes]) -> list[Sequence[bytes]]:
        """One chunk a write; more than one only where the file is to be rotated in between."""
        if not lines:
            return []
        self._open()
        if not self._rotates:
            return [lines]
        chunks: list[Sequence[bytes]] = []
        chunk: list[bytes] = []
        size = self._size
        for line in lines:
            if size and size + len(line) > self._bytes_max:
                chunks.append(chunk)
                chunk, size = [], 0
            chunk.append(line)
            size += len(line)
        chunks.append(chunk)
        return chunks

    def _append(self, data: bytes) -> None:
        if self._rotates and self._size and self._size + len(data) > self._bytes_max:
            self._rotate()
        if self._torn:
            self._write_all(b"\n")
            self.written -= 1
        self._write_all(data)

    def _write_all(self, data: bytes) -> None:
        sent = 0
        while sent < len(data):
            try:
                count = os.write(self._fd, data[sent:] if sent else data)
            except BlockingIOError:
                if not select.select([], [self._fd], [], _PATIENCE_S)[1]:
                    raise
                continue
            part = data[sent : sent + count]
            self._size += count
            self._torn = not part.endswith(b"\n")
            self._tail = part[part.rfind(b"\n") + 1 :] if b"\n" in part else self._tail + part
            self.written += part.count(b"\n")
            sent += count

    @property
    def _rotates(self) -> bool:
        return self._bytes_max > 0 and self._path != "-"

    def _open(self) -> None:
        if self._fd >= 0:
            return
        if self._path == "-":
            self._fd = 1
            return
        flags = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            fd = os.open(self._path, os.O_RDWR | flags, 0o640)
        except PermissionError:
            fd = os.open(self._path, os.O_WRONLY | flags, 0o640)  # it may be written and not read
        found = os.fstat(fd)
        self._fd, self._size, self._torn, self._tail = fd, 0, False, b""
        if stat.S_ISREG(found.st_mode) and found.st_size:
            self._size = found.st_size
            self._torn = _last_byte(fd, found.st_size) != b"\n"

    def _rotate(self) -> None:
        try:
            os.replace(self._path, self._path + ".1")
        except OSError as error:  # better a file that grows than lines that are lost
            self._say("journal cannot be rotated", error)
            return
        self.close()
        self._open()

    def _failed(self, lines: int, error: OSError) -> None:
        self.lost += lines
        try:
            self._untear()
            self.close()
        except OSError:
            self._fd = -1
        self._say("journal lines lost", error)

    def _untear(self) -> None:
        """Takes a torn line away, if it is ours and stands last."""
        fd, tail = self._fd, self._tail
        if fd < 0 or not tail or not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        whole = os.fstat(fd).st_size - len(tail)
        if whole >= 0 and os.pread(fd, len(tail), whole) == tail:
            os.ftruncate(fd, whole)

    def _say(self, event: str, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        self._log.error(event, now=time.monotonic_ns(), journal=self._path, reason=reason, lost=self.lost)


def _last_byte(fd: int, size: int) -> bytes:
    try:
        return os.pread(fd, 1, size - 1)
    except OSError:
        return b""  # opened for writing only: one empty line too many is better than two lines glued
