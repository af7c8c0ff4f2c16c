"""How a shadow report is shown: what stands in the table, and what may not act upon a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from emqproxy.shadow_report import Offence, RuleReport, ShadowReport
from emqproxy.shadow_table import write


def shown(*rules: RuleReport, width: int = 160) -> str:
    would_block, blocked = sum(rule.would_block for rule in rules), sum(rule.blocked for rule in rules)
    first, last = "2026-11-30T00:53:38.500000Z", "2026-11-30T10:53:38.500000Z"
    report = ShadowReport(9, 9, 0, 0, 0, 0, first, last, would_block, blocked, list(rules))
    console = Console(file=io.StringIO(), width=width, highlight=False, force_terminal=True, color_system=None)
    write(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rule(*offences: Offence, name: str = "zero_token") -> RuleReport:
    would_block, blocked = (sum(getattr(one, of) for one in offences) for of in ("would_block", "blocked"))
    return RuleReport(name, "enforce", would_block, blocked, 0, "Do this.", list(offences))


def test_only_columns_that_say_something_stand_there() -> None:
    judged, enforced = shown(rule(Offence("a", "b", would_block=1))), shown(rule(Offence("a", "b", blocked=1)))
    assert "would be refused" in judged
    assert "taken" in judged
    assert "would be refused" not in enforced
    assert "taken" not in enforced


def test_of_many_clients_the_first_are_shown_and_the_others_counted() -> None:
    text = shown(rule(*(Offence(f"client-{number}", "s", would_block=1) for number in range(33))))
    assert "client-19 " in text
    assert "client-20 " not in text
    assert "(and 13 more; --json has them all)" in text


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_loses_nothing(width: int) -> None:
    text = shown(rule(Offence("Q" * 36, "moveJobFromActiveToWait-9", would_block=1_234_567)), width=width)
    assert text.count("Q") == 36
    assert "\u2026" not in text  # what does not fit is folded, never cut


def test_nothing_that_stands_in_a_journal_acts_upon_a_terminal() -> None:
    text = shown(rule(Offence("\x1b[31m[bold]", "\x9b2J", would_block=1), name="\x1b]0;x\x07"))
    assert not {"\x1b", "\x9b", "\x07"} & set(text)
    assert "\\u001b[31m[bold]" in text
