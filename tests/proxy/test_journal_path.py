"""Where a journal can be written, and why not elsewhere. Looking makes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emqproxy.proxy.journal_path import check_journal
from emqproxy.proxy.listeners import CannotStartError


@pytest.mark.parametrize("journal", ["", "-", "new", "old", "link", "/dev/full"])
def test_it_can(journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").write_text("lines")
    (tmp_path / "link").symlink_to(tmp_path / "yonder")
    check_journal(journal)
    assert sorted(os.listdir(tmp_path)) == ["link", "old"]
    assert (tmp_path / "old").read_text() == "lines"


@pytest.mark.parametrize(
    ("journal", "why"),
    [(".", "it is a directory"), ("none/j", "there is no directory "), ("dangling", "no directory ")],
)
def test_it_cannot(journal: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "none" / "j")
    with pytest.raises(CannotStartError, match=f"cannot write the journal {journal}: .*{why}.*; give --journal"):
        check_journal(journal)
    assert os.listdir(tmp_path) == ["dangling"]
