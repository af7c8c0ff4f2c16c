"""The real ledger on virtual time: what it is told, and what it says by itself when time passes."""

from __future__ import annotations

from emqproxy.locks.verdicts import End, Finding, Grade
from emqproxy.simulation.virtual_ledger import VirtualLedger

A, B = b"a", b"b"


def test_a_lapse_is_told_by_time_alone_and_for_the_instant_it_happened() -> None:
    ledger = VirtualLedger()
    ledger.granted(1, A, 1000, 0)
    assert ledger.renewed(1, A, 1000, 700, held=True).grade is Grade.LATE
    ledger.tick(1700)  # it may still be read: not certain yet
    assert ledger.lapses_ms == {}
    ledger.tick(1702)
    assert (ledger.lapses_ms, ledger.ends) == ({A: 1700}, {})


def test_what_is_heard_of_before_it_is_certain_is_a_lapse_all_the_same() -> None:
    refused, swept = VirtualLedger(), VirtualLedger()
    refused.granted(1, A, 1000, 0)
    verdict = refused.renewed(1, A, 1000, 1001, held=False)
    assert (verdict.grade, verdict.finding) == (Grade.TOO_LATE, Finding.DOUBTFUL)
    assert (refused.lapses_ms, refused.ends) == ({A: 1000}, {A: End.LAPSED})
    swept.granted(1, A, 1000, 0)
    swept.swept(1001)
    assert (swept.lapses_ms, swept.ends) == ({A: 1000}, {A: End.REAPED})


def test_a_finish_ends_an_attempt_and_is_no_lapse() -> None:
    ledger = VirtualLedger()
    ledger.granted(1, A, 1000, 0)
    assert ledger.released(1, A, 500).finding is Finding.SOUND
    ledger.tick(10_000_000)
    assert (ledger.lapses_ms, ledger.ends) == ({}, {A: End.RELEASED})


def test_who_lost_it_is_a_straggler_while_another_has_it() -> None:
    ledger = VirtualLedger()
    ledger.granted(1, A, 1000, 0)
    ledger.swept(2000)
    assert ledger.granted(2, B, 1000, 2000).finding is Finding.SOUND
    assert ledger.renewed(1, A, 1000, 2100, held=False).finding is Finding.STRAGGLER
    assert ledger.renewed(2, B, 1000, 2500, held=True).finding is Finding.SOUND
