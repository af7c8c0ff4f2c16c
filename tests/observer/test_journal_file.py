"""Lines are whole or not there; what could not be written is counted, and it goes on when it can."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from emqproxy.observer.journal_file import JournalFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.ndjson"


def test_it_appends(path: Path) -> None:
    path.write_bytes(b"old\n")
    file = JournalFile(str(path))
    file.write([b"1\n", b"2\n"])
    file.write([])
    file.write([b"3\n"])
    file.close()
    assert path.read_bytes() == b"old\n1\n2\n3\n"
    assert (file.written, file.lost) == (3, 0)


def test_a_torn_last_line_is_not_glued_to_the_next(path: Path) -> None:
    path.write_bytes(b'whole\n{"torn":')
    JournalFile(str(path)).write([b"1\n"])
    assert path.read_bytes() == b'whole\n{"torn":\n1\n'


def test_nothing_is_made_before_there_is_a_line(path: Path) -> None:
    JournalFile(str(path)).close()
    assert not path.exists()


def test_others_may_not_read_it(path: Path) -> None:
    JournalFile(str(path)).write([b"1\n"])
    assert path.stat().st_mode & 0o007 == 0


def test_it_goes_on_when_the_place_comes_back(path: Path) -> None:
    there = path.parent / "not" / "yet"
    file = JournalFile(str(there / "j"))
    file.write([b"1\n", b"2\n"])
    assert (file.written, file.lost) == (0, 2)
    there.mkdir(parents=True)
    file.write([b"3\n"])
    assert (there / "j").read_bytes() == b"3\n"
    assert (file.written, file.lost) == (1, 2)


def test_a_file_that_was_moved_away_is_left(path: Path) -> None:
    file = JournalFile(str(path))
    file.write([b"1\n"])
    path.rename(path.with_suffix(".moved"))
    file.look()
    file.write([b"2\n"])
    assert path.with_suffix(".moved").read_bytes() == b"1\n"
    assert path.read_bytes() == b"2\n"
    path.unlink()
    file.look()
    file.write([b"3\n"])
    assert path.read_bytes() == b"3\n"


def test_it_rotates_before_the_bound_and_keeps_one(path: Path) -> None:
    file = JournalFile(str(path), bytes_max=10)
    file.write([b"%04d\n" % number for number in range(7)])
    assert path.read_bytes() == b"0006\n"
    assert Path(f"{path}.1").read_bytes() == b"0004\n0005\n"
    file.write([b"a line that is longer than the bound\n"])
    assert path.read_bytes() == b"a line that is longer than the bound\n"
    assert Path(f"{path}.1").read_bytes() == b"0006\n"
    assert file.written == 8


def test_it_rotates_what_it_finds(path: Path) -> None:
    path.write_bytes(b"123456789\n")
    JournalFile(str(path), bytes_max=10).write([b"1\n"])
    assert path.read_bytes() == b"1\n"
    assert Path(f"{path}.1").read_bytes() == b"123456789\n"


def test_where_it_cannot_rotate_it_grows(path: Path) -> None:
    Path(f"{path}.1").mkdir()
    (Path(f"{path}.1") / "full").touch()
    file = JournalFile(str(path), bytes_max=4)
    file.write([b"1\n", b"2\n", b"3\n"])
    assert path.read_bytes() == b"1\n2\n3\n"
    assert file.lost == 0


def test_what_another_wrote_behind_a_torn_line_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, calls = os.write, 0

    def full(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            with path.open("ab") as other:
                other.write(b"\nanother's\n")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[:4] if calls == 1 else data)

    monkeypatch.setattr(os, "write", full)
    file = JournalFile(str(path))
    file.write([b"1\n", b"2 is torn\n"])
    file.write([b"3\n"])
    assert path.read_bytes() == b"1\n2 \nanother's\n3\n"
    assert (file.written, file.lost) == (2, 1)


FULL_DISK = """
import resource, signal, sys
from emqproxy.observer.journal_file import JournalFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = JournalFile(sys.argv[1])
file.write([b"first\\n"])
resource.setrlimit(resource.RLIMIT_FSIZE, (13, resource.RLIM_INFINITY))
file.write([b"second\\n", b"third\\n"])
resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
file.write([b"fourth\\n"])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
file.write([b"fifth\\n"])
print(file.written, file.lost)
"""


def test_a_full_disk_costs_lines_and_nothing_else(path: Path) -> None:
    """The system's limit on file size stands for the disk: writes are cut short, then refused, then work again."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == b"3 2"
    assert path.read_bytes() == b"first\nsecond\nfifth\n", "no line is torn"
    assert done.stdout.count(b"journal lines lost") == 1, "once a minute"


def test_a_full_pipe_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output may be a pipe that does not block: it is shared with whoever made it so."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    saved = os.dup(1)
    os.dup2(theirs, 1)
    try:
        monkeypatch.setattr("emqproxy.observer.journal_file._PATIENCE_S", 0.05)
        file = JournalFile("-")
        line = b"x" * 65_535 + b"\n"
        file.write([line, line])
        assert (file.written, file.lost) == (1, 1)
        assert os.read(ours, 65_536) == line
        file.write([b"next\n"])
        assert os.read(ours, 65_536) == b"next\n"
    finally:
        os.dup2(saved, 1)
        for fd in (saved, ours, theirs):
            os.close(fd)


def test_its_last_whole_line_can_be_read_back(path: Path) -> None:
    file = JournalFile(str(path))
    assert file.last_line() == b""
    path.write_bytes(b"one\n" + b"two" * 40_000 + b"\nthree\n" + b"torn")
    assert file.last_line() == b"three"
    assert JournalFile("-").last_line() == b""
