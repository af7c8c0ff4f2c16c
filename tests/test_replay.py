"""`emqproxy replay` as a user calls it, on the journal of a real sidecar."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from emqproxy.replay_report import Rejudging
from tests.journals import CANARY, ONE, TAKEN_OVER, real_journal, run_command
from tests.processes import RedisServer, environment


@pytest.fixture(scope="module")
def journal() -> Iterator[bytes]:
    redis = RedisServer()
    try:
        yield real_journal(redis)[0]
    finally:
        redis.stop()


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", environment(COLUMNS="80", NO_COLOR="1"))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return run_command(capsys, "replay", *words)


def test_nothing_differs_and_the_redacted_journal_says_the_same(
    journal: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, redacted = tmp_path / "j.ndjson", tmp_path / "redacted.ndjson"
    path.write_bytes(journal)
    code, out, err = run(capsys, str(path), "--redact", str(redacted))
    assert (code, err) == (0, ""), out
    assert ": none differs.\n" in out
    for canary in (CANARY, "orders", "127.0.0.1", ONE[:8]):
        assert canary.encode() in journal or canary == ONE[:8]
        assert canary.encode() not in redacted.read_bytes()
    assert b'"prefix":"emq"' in redacted.read_bytes()
    assert run(capsys, str(redacted))[:2] == (0, out.partition("Redacted")[0])


def test_what_differs_is_told_line_by_line(journal: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j.ndjson"
    path.write_bytes(journal.replace(b'"straggler"', b'"doubtful"').replace(b'"lock_deleted_by"', b'"unknown"'))
    code, out, err = run(capsys, str(path))
    assert (code, err) == (1, "")
    assert f"  finish emq:orders:{TAKEN_OVER}  refused\n    finding  doubtful -> straggler\n" in out
    assert "    cause    unknown -> lock_deleted_by\n" in out
    assert out.endswith(" differ.\n")


def test_what_is_missing_torn_or_another_s_is_told(
    journal: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = journal.splitlines(keepends=True)
    del lines[3]
    data = b"".join(lines) + b'{"v":2,"run":"x"}\n' + lines[-1][:40]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    code, out, _ = run(capsys, "-")
    assert code == 0, out
    assert "1 line is missing after line 3: no lease is known there." in out
    assert "1 line is no journal's (torn, or of another program): passed over." in out
    assert "1 line is of another version of the journal: passed over." in out
    assert "lines rest on what is missing, and were not compared." in out


def test_a_journal_without_tokens_proves_nothing(
    journal: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.ndjson"
    path.write_bytes(journal.replace(b'"token":"', b'"token":null,"x":"'))
    code, _, err = run(capsys, str(path))
    assert code == 2
    assert 'trace.token = "off"' in err


def test_one_pickup_with_the_empty_token_proves_nothing_of_the_others(
    journal: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, lines = tmp_path / "j.ndjson", journal.splitlines(keepends=True)
    last = next(at for at in reversed(range(len(lines))) if b'"effect":"granted"' in lines[at])
    empty = re.sub(rb'"token":"[^"]*","worker":"[^"]*"', b'"token":null,"worker":null', lines[last])
    assert empty != lines[last]
    path.write_bytes(b"".join([*lines[:last], empty, *lines[last + 1 :]]))
    code, out, err = run(capsys, str(path))
    assert (code in (0, 1), err) == (True, "")
    assert "judged again" in out


def test_wherever_it_is_cut_nothing_differs(journal: bytes) -> None:
    """Its head is missing, or a line within."""
    lines = journal.splitlines()
    compared = 0
    for at in range(1, len(lines)):
        for cut in (lines[at:], lines[:at] + lines[at + 1 :]):
            told = Rejudging()
            found = [each for line in cut for each in told.take(line)] + list(told.end())
            assert [each for each in found if each.is_verdict] == [], at
            compared += told.counts.judged
    assert compared > len(lines)
