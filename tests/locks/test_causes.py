"""The words that all causes share."""

from __future__ import annotations

from emqproxy.locks.causes import ago, by, listed, seqs
from emqproxy.locks.notes import MS, Note


def note(seq: int, closed_ms: int = 0, who: str = "") -> Note:
    return Note(seq, "renew", "ok", "renewed", closed_ms * MS, closed_ms * MS, who=who)


def test_evidence_names_each_line_once_in_order():
    assert seqs(note(3), None, note(1), note(3)) == (3, 1)


def test_how_long_before_is_never_negative():
    assert ago(note(1, 500), note(2, 5000)) == "4.5 s"
    assert ago(note(1, 500), note(2, 980)) == "480 ms"
    assert ago(note(1, 500), note(2, 400)) == "0 ms"


def test_who_did_it():
    assert by(note(1, who="worker a")) == "worker a"
    assert by(note(1)) == "another client"
    assert by(note(1), "somebody") == "somebody"


def test_many_names_are_cut():
    assert listed(["a"]) == "a"
    assert listed(list("abcdefg")) == "a, b, c, d, e and 2 more"
